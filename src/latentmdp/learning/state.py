"""The state of a learner or a run as plain data: a nested dictionary of arrays and JSON values.

Written as one npz file, atomically: arrays by their path (`counts.n`), everything else as one
JSON text. Nothing is ever pickled.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.errors import ModelError

if TYPE_CHECKING:
    from latentmdp.formats.files import PathLike

State = dict[str, Any]
_JSON = "json"


def save_state(path: PathLike, state: State) -> None:
    """Write a state to an npz file; the old file stays until the new one is complete."""
    from latentmdp.formats.archive import write_npz

    arrays: dict[str, np.ndarray] = {}
    text = json.dumps(_split(state, "", arrays), allow_nan=False)
    arrays[_JSON] = np.frombuffer(text.encode(), dtype=np.uint8)
    write_npz(path, arrays, level=1)


def load_state(path: PathLike, kind: str) -> State:
    """Read a state that says it is of this `kind`."""
    from latentmdp.formats.archive import read_npz
    from latentmdp.formats.files import refusal

    arrays = read_npz(path)
    try:
        state: State = json.loads(bytes(arrays.pop(_JSON)).decode())
        if state["kind"] != kind:
            raise ModelError(f"must hold a saved {kind}; it holds a {state['kind']}")
        for name, array in arrays.items():
            *parents, last = name.split(".")
            place = state
            for parent in parents:
                place = place.setdefault(parent, {})
            place[last] = array
    except ModelError as error:
        raise refusal(path, str(error)) from None
    except (KeyError, TypeError, ValueError, AttributeError):
        raise refusal(path, f"must hold a saved {kind}; it does not") from None
    return state


def _split(state: State, prefix: str, arrays: dict[str, np.ndarray]) -> State:
    """Move arrays into `arrays`; what remains is JSON."""
    rest: State = {}
    for name, value in state.items():
        if isinstance(value, np.ndarray):
            arrays[prefix + name] = value
        elif isinstance(value, dict):
            rest[name] = _split(value, f"{prefix}{name}.", arrays)
        else:
            rest[name] = value
    return rest


def generator_state(generator: np.random.Generator) -> State:
    """The stream's state; whole numbers of 128 bits are JSON too."""
    return dict(generator.bit_generator.state)


def restore_generator(state: State) -> np.random.Generator:
    """A generator that continues the stream."""
    generator = np.random.Generator(np.random.PCG64())
    generator.bit_generator.state = state
    return generator
