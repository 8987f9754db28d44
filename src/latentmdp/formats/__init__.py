"""Models and policies in files: one registry, chosen by the file's ending.

Reading never runs code from a file, checks the sizes that a file claims before it takes memory, and
never changes the file; what cannot be read is refused with one `ModelError` that names the file.
Writing is all or nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from latentmdp.errors import ModelError
from latentmdp.formats.csv import load_csv, not_in_csv, save_csv
from latentmdp.formats.document import Options
from latentmdp.formats.files import FileError, PathLike, as_path, refusal, regular_file
from latentmdp.formats.json import load_json, save_json
from latentmdp.formats.npz import load_npz, save_npz
from latentmdp.formats.policy import (
    load_policy_csv,
    load_policy_json,
    load_policy_npz,
    save_policy_csv,
    save_policy_json,
    save_policy_npz,
)
from latentmdp.model import LatentMDP
from latentmdp.policy import PolicyGraph

__all__ = ["ENDINGS", "POLICY_ENDINGS", "load", "load_policy", "not_held", "save", "save_policy"]


class Format(NamedTuple):
    """How a format is read and written."""

    load: Callable[..., Any]
    save: Callable[..., None]


MODEL_FORMATS = {
    ".npz": Format(load_npz, save_npz),
    ".json": Format(load_json, save_json),
    ".csv": Format(load_csv, save_csv),
}
POLICY_FORMATS = {
    ".npz": Format(load_policy_npz, save_policy_npz),
    ".json": Format(load_policy_json, save_policy_json),
    ".csv": Format(load_policy_csv, save_policy_csv),
}
ENDINGS = tuple(MODEL_FORMATS)
POLICY_ENDINGS = tuple(POLICY_FORMATS)


def load(
    path: PathLike,
    observe_rewards: bool | None = None,
    horizon: int | None = None,
    discount: float | None = None,
) -> LatentMDP:
    """The model in a file (`.npz`, `.json`, `.csv`); any finite rewards are accepted.

    What is None is taken from the file; an absent `observe_rewards` means that rewards are seen,
    an absent `discount` 1. A CSV's horizon must be given.

    >>> import os, tempfile
    >>> from latentmdp import make
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = os.path.join(folder, "bandit.npz")
    ...     save(make("bandit"), file)
    ...     load(file) == make("bandit")
    True
    """
    options = Options(observe_rewards, horizon, discount)
    with _naming(path):
        read = _format(path, MODEL_FORMATS, "a model").load
        regular_file(path)
        return read(path, options)


def save(model: LatentMDP, path: PathLike) -> None:
    """Write a model to `.npz`, `.json` or `.csv`, all or nothing; `load` gives back an equal one.

    (CSV holds less: see `latentmdp.formats.csv`.)
    """
    if not isinstance(model, LatentMDP):
        raise ModelError(f"save writes a LatentMDP; found {type(model).__name__}")
    with _naming(path):
        _format(path, MODEL_FORMATS, "a model").save(model, path)


def not_held(model: LatentMDP, path: PathLike) -> list[str]:
    """What of the model a file with this ending cannot hold (names and layout, in CSV)."""
    if as_path(path).suffix.lower() != ".csv":
        return []
    return not_in_csv(model)


def load_policy(path: PathLike) -> PolicyGraph:
    """The policy in a file: `.json`, `.npz`, or a Markov policy's `.csv` (step, state, action)."""
    with _naming(path):
        read = _format(path, POLICY_FORMATS, "a policy").load
        regular_file(path)
        return read(path)


def save_policy(policy: PolicyGraph, path: PathLike) -> None:
    """Write a policy to `.json`, `.npz` or, if it is Markov, `.csv`, all or nothing."""
    if not isinstance(policy, PolicyGraph):
        raise ModelError(f"save_policy writes a PolicyGraph; found {type(policy).__name__}")
    with _naming(path):
        _format(path, POLICY_FORMATS, "a policy").save(policy, path)


def _format(path: PathLike, formats: dict[str, Format], what: str) -> Format:
    ending = as_path(path).suffix.lower()
    if ending not in formats:
        known = ", ".join(formats)
        found = f"it ends in {ending!r}" if ending else "it has none"
        raise ModelError(f"the file name of {what} must end in one of {known}; {found}")
    return formats[ending]


@contextmanager
def _naming(path: PathLike) -> Iterator[None]:
    """Whatever is refused inside, the sentence begins with a file's name."""
    try:
        yield
    except FileError:
        raise
    except ModelError as error:
        raise refusal(path, str(error)) from None
