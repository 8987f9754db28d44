"""Room on the stack: what a function returns and raises is unchanged, and it has room."""

import inspect

import pytest

import latentmdp as lm
from latentmdp._stack import ROOM, with_room


def test_a_function_with_room_is_the_same_function() -> None:
    @with_room
    def divide(a: float, b: float = 2.0) -> float:
        """Divide."""
        return a / b

    assert divide(3.0) == 1.5
    assert divide(1.0, b=4.0) == 0.25
    with pytest.raises(ZeroDivisionError):
        divide(1.0, 0.0)
    assert divide.__doc__ == "Divide."
    assert list(inspect.signature(divide).parameters) == ["a", "b"]


@pytest.mark.parametrize("function", [lm.learn, lm.plan])
def test_what_runs_long_has_room(function) -> None:
    assert function.__code__.co_stacksize == ROOM
    assert "model" in inspect.signature(function).parameters
