"""Models and policies in files: one registry, chosen by the file's ending.

Reading never runs code from a file, never takes memory on a file's word, and never changes it; what
cannot be read is refused with one `ModelError` that names the file. Writing is all or nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from latentmdp.errors import ModelError
from latentmdp.formats.files import FileError, PathLike, as_path, refusal, regular_file

if TYPE_CHECKING:
    from latentmdp.model import LatentMDP
    from latentmdp.policy import PolicyGraph

__all__ = ["ENDINGS", "POLICY_ENDINGS", "load", "load_policy", "not_held", "save", "save_policy"]


class Format(NamedTuple):
    """Where a format's functions are, as `module.function`; they are imported at first use."""

    load: str
    save: str | None


MODEL_FORMATS = {
    ".npz": Format("npz.load_npz", "npz.save_npz"),
    ".json": Format("json.load_json", "json.save_json"),
    ".csv": Format("csv.load_csv", "csv.save_csv"),
    ".pomdpx": Format("from_pomdp.load_pomdpx", "pomdpx_write.save_pomdpx"),
    ".pomdp": Format("from_pomdp.load_pomdp", "pomdp_text_write.save_pomdp"),
}
POLICY_FORMATS = {
    ".npz": Format("policy.load_policy_npz", "policy.save_policy_npz"),
    ".json": Format("policy.load_policy_json", "policy.save_policy_json"),
    ".csv": Format("policy.load_policy_csv", "policy.save_policy_csv"),
    ".policyx": Format("policyx.load_policyx", None),
}
ENDINGS = tuple(MODEL_FORMATS)
POLICY_ENDINGS = tuple(ending for ending, entry in POLICY_FORMATS.items() if entry.save)


def load(
    path: PathLike,
    observe_rewards: bool | None = None,
    horizon: int | None = None,
    discount: float | None = None,
) -> "LatentMDP":
    """The model in a file (`.npz`, `.json`, `.csv`, `.pomdpx`, `.pomdp`), with any finite rewards.

    What is None is taken from the file; an absent `observe_rewards` means that rewards are seen,
    an absent `discount` 1. A CSV's or POMDP's horizon must be given; a POMDP's rewards are hidden.

    >>> import os, tempfile
    >>> from latentmdp import make
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = os.path.join(folder, "bandit.npz")
    ...     save(make("bandit"), file)
    ...     load(file) == make("bandit")
    True
    """
    from latentmdp.formats.document import Options

    options = Options(observe_rewards, horizon, discount)
    with _naming(path):
        read = _function(path, MODEL_FORMATS, "load", "a model")
        regular_file(path)
        return read(path, options)


def save(model: "LatentMDP", path: PathLike) -> None:
    """Write a model to a file, all or nothing; `load` gives back an equal one.

    (CSV holds less: see `latentmdp.formats.csv`. `.pomdpx` and `.pomdp` hold it as a POMDP for
    other solvers, with the step in the state: see `latentmdp.formats.pomdp_export`.)
    """
    from latentmdp.model import LatentMDP

    if not isinstance(model, LatentMDP):
        raise ModelError(f"save writes a LatentMDP; found {type(model).__name__}")
    with _naming(path):
        _function(path, MODEL_FORMATS, "save", "a model")(model, path)


def not_held(model: "LatentMDP", path: PathLike) -> list[str]:
    """What of the model a file with this ending cannot hold (names and layout, in CSV)."""
    from latentmdp.formats.csv import not_in_csv
    from latentmdp.formats.pomdp_export import not_in_pomdp

    asked = {".csv": not_in_csv, ".pomdp": not_in_pomdp, ".pomdpx": not_in_pomdp}
    ending = as_path(path).suffix.lower()
    return asked[ending](model) if ending in asked else []


def load_policy(path: PathLike, model: "LatentMDP | None" = None) -> "PolicyGraph":
    """The policy in a file: `.json`, `.npz`, or a Markov policy's `.csv` (step, state, action).

    `.policyx`, the alpha vectors of SARSOP, is made a policy for `model`, which must be given; of
    the others it is checked that they fit a `model` that is given.
    """
    with _naming(path):
        read = _function(path, POLICY_FORMATS, "load", "a policy")
        regular_file(path)
        if as_path(path).suffix.lower() == ".policyx":
            return read(path, model)
        policy = read(path)
        return policy if model is None else policy.for_model(model)


def save_policy(policy: "PolicyGraph", path: PathLike) -> None:
    """Write a policy to `.json`, `.npz` or, if it is Markov, `.csv`, all or nothing."""
    from latentmdp.policy import PolicyGraph

    if not isinstance(policy, PolicyGraph):
        raise ModelError(f"save_policy writes a PolicyGraph; found {type(policy).__name__}")
    with _naming(path):
        _function(path, POLICY_FORMATS, "save", "a policy")(policy, path)


def _function(
    path: PathLike, formats: dict[str, Format], verb: str, what: str
) -> Callable[..., Any]:
    ending = as_path(path).suffix.lower()
    if ending not in formats:
        known = ", ".join(formats)
        found = f"it ends in {ending!r}" if ending else "it has none"
        raise ModelError(f"the file name of {what} must end in one of {known}; {found}")
    where = getattr(formats[ending], verb)
    if where is None:
        others = ", ".join(name for name, entry in formats.items() if entry.save)
        raise ModelError(f"{what} can be read from {ending}, not written; use one of {others}")
    module, name = where.split(".")
    return getattr(import_module(f"latentmdp.formats.{module}"), name)


@contextmanager
def _naming(path: PathLike) -> Iterator[None]:
    """Whatever is refused inside, the sentence begins with a file's name."""
    try:
        yield
    except FileError:
        raise
    except ModelError as error:
        raise refusal(path, str(error)) from None
