"""Room on Python's stack for what makes many small calls."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

ROOM = 2**16  # entries: half a megabyte


def with_room(function: Callable[P, T]) -> Callable[P, T]:
    """Let `function` begin on a piece of Python's stack that holds all it calls.

    Python takes stack in pieces of 16 KB. A loop that calls functions just where a piece ends gets
    and gives back memory at every call: learning takes twice as long, compiling a fifth more,
    according to how deep in a program it happens to be. A frame that asks for much more than a
    piece gets one of its own, and what it calls lies behind it.
    """

    @wraps(function)
    def roomy(*args: P.args, **kwargs: P.kwargs) -> T:
        return function(*args, **kwargs)

    wrapper: Any = roomy
    wrapper.__code__ = wrapper.__code__.replace(co_stacksize=ROOM)
    return roomy
