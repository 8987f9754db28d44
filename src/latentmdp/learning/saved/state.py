"""The state of a learner or a run as plain data: a nested dictionary of arrays and JSON values.

Written as one npz file, atomically: arrays by their path (`counts.n`), everything else as one
JSON text. Nothing is ever pickled. The file says which format it has; an older one is read as far
as `migration.py` knows it, others are refused, since a state that is misread would continue with
wrong numbers. So is one whose contents have changed since they were written: compiled code does not
check them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from latentmdp._version import __version__
from latentmdp.errors import ModelError
from latentmdp.formats.archive import npz_writer, read_npz
from latentmdp.learning.saved.migration import OLDEST, migrate
from latentmdp.runtime.files import FileError, PathLike, Writer, refusal, write_atomically

State = dict[str, Any]
FORMAT = 7
"""Of saved learners and runs; one more whenever what they hold, or what it means, changes."""
_JSON, _DIGEST = "json", "digest"


def save_state(path: PathLike, state: State) -> None:
    """Write a state to an npz file; the old file stays until the new one is complete."""
    write_atomically(path, state_writer(state))


def state_writer(state: State) -> Writer:
    """What writes a state into an open file, as npz."""
    arrays: dict[str, np.ndarray] = {}
    stamp = {"format": FORMAT, "written_by": f"latentmdp {__version__}"}
    text = json.dumps(stamp | _split(state, "", arrays), allow_nan=False)
    arrays[_JSON] = np.frombuffer(text.encode(), dtype=np.uint8)
    arrays[_DIGEST] = checksum(arrays)
    return npz_writer(arrays, level=1)


def checksum(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """The SHA-256 of all that the arrays hold, without an earlier one among them."""
    found = hashlib.sha256()
    for name in sorted(set(arrays) - {_DIGEST}):
        array = arrays[name]
        found.update(repr((name, array.dtype.str, array.shape)).encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return np.frombuffer(found.digest(), dtype=np.uint8)


def load_state(path: PathLike, kind: str) -> State:
    """Read a state that says it is of this `kind`."""
    arrays = read_npz(path)
    as_written = np.array_equal(checksum(arrays), arrays.pop(_DIGEST, ()))
    try:
        state: State = json.loads(bytes(arrays.pop(_JSON)).decode())
        if state["kind"] != kind:
            raise ModelError(f"must hold a saved {kind}; it holds a {str(state['kind'])[:80]}")
        written_in = state.pop("format", 1)
        if not isinstance(written_in, int) or not OLDEST <= written_in <= FORMAT:
            writer = str(state.get("written_by", "an older latentmdp"))[:80]
            raise ModelError(
                f"must have format {FORMAT} of a saved {kind}; it was written by {writer} in "
                "another one: go on with that version, or start anew"
            )
        if not as_written:
            raise ModelError(f"must hold a {kind} as it was saved; it has been changed since")
        state.pop("written_by")
        for name, array in arrays.items():
            *parents, last = name.split(".")
            place = state
            for parent in parents:
                place = place.setdefault(parent, {})
            place[last] = array
        if written_in < FORMAT:
            migrate(state, kind)
    except ModelError as error:
        raise refusal(path, str(error)) from None
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise refusal(path, f"must hold a saved {kind}; it does not") from None
    return state


@contextmanager
def refusing_misfits(path: PathLike | None, kind: str) -> Iterator[None]:
    """Inside, data that does not fit together is refused in one sentence that names the file."""
    try:
        yield
    except FileError:
        raise
    except ModelError as error:
        if path is None:
            raise
        raise refusal(path, f"must hold a whole saved {kind}; {error}") from None


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
