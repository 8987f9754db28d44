"""Models and policies in files: one registry, chosen by the file's ending.

Reading never runs code from a file, checks the sizes that a file claims before it takes memory, and
never changes the file; a file that cannot be read raises one `ModelError` that names it.
Writing is all or nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

from latentmdp.errors import ModelError
from latentmdp.formats.csv import load_csv, not_in_csv, save_csv
from latentmdp.formats.document import Options
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
from latentmdp.formats.pomdp.export import not_in_pomdp
from latentmdp.formats.pomdp.text_write import first_state_is_known
from latentmdp.model.horizons import is_infinite
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.policy.graph import PolicyGraph
from latentmdp.runtime.files import FileError, PathLike, as_path, refusal, regular_file
from latentmdp.tables.outcome_table import starting_at

__all__ = [
    "ENDINGS", "POLICY_ENDINGS", "horizon_to_give", "load", "load_policy", "not_held", "save",
    "save_policy",
]  # fmt: skip


class Format(NamedTuple):
    """How a format is read and written; None: it is only read."""

    load: Callable[..., Any]
    save: Callable[..., None] | None


def _late(name: str) -> Callable[..., Any]:
    """A function `module.function` of this package, imported at first use: SciPy loads slowly."""
    module, function = name.rsplit(".", 1)

    def call(*arguments: Any) -> Any:
        return getattr(import_module(f"latentmdp.formats.{module}"), function)(*arguments)

    return call


MODEL_FORMATS = {
    ".npz": Format(load_npz, save_npz),
    ".json": Format(load_json, save_json),
    ".csv": Format(load_csv, save_csv),
    ".pomdpx": Format(_late("pomdp.read.load_pomdpx"), _late("pomdp.pomdpx_write.save_pomdpx")),
    ".pomdp": Format(_late("pomdp.read.load_pomdp"), _late("pomdp.text_write.save_pomdp")),
}
POLICY_FORMATS = {
    ".npz": Format(load_policy_npz, save_policy_npz),
    ".json": Format(load_policy_json, save_policy_json),
    ".csv": Format(load_policy_csv, save_policy_csv),
    ".policyx": Format(_late("pomdp.policyx.load_policyx"), None),
}
ENDINGS = tuple(MODEL_FORMATS)
POMDP_ENDINGS = (".pomdpx", ".pomdp")
POLICY_ENDINGS = tuple(ending for ending, entry in POLICY_FORMATS.items() if entry.save)


def load(
    path: PathLike,
    observe_rewards: bool | None = None,
    horizon: int | None = None,
    discount: float | None = None,
    normalize: bool | float = False,
    start: Any = None,
) -> LatentMDP:
    """The model in a file (`.npz`, `.json`, `.csv`, `.pomdpx`, `.pomdp`), with any finite rewards.

    An option that is None is taken from the file; without `observe_rewards` rewards are observed,
    without `discount` it is 1. A CSV's horizon must be given, and that of a POMDP whose discount is
    1; other POMDPs have no last step (`math.inf`). A POMDP's rewards are hidden. `normalize=1e-6`
    rescales rows whose sum differs from 1 by at most that, with a warning; `normalize=True` all of
    them, and the weights too. `start`: the first state, by name or number, or a mapping from states
    to probabilities; a CSV then needs no `initial.csv`.

    >>> import os, tempfile
    >>> from latentmdp import make
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = os.path.join(folder, "bandit.npz")
    ...     save(make("bandit"), file)
    ...     load(file) == make("bandit")
    True
    """
    options = Options(observe_rewards, horizon, discount, normalize, start)
    with _naming(path):
        read = _format(path, MODEL_FORMATS, "a model").load
        regular_file(path)
        model = read(path, options)
        return model if start is None else starting_at(model, start)


def save(model: LatentMDP, path: PathLike) -> None:
    """Write a model to a file, all or nothing; `load` gives back an equal one.

    (CSV holds less: see `latentmdp.formats.csv`. `.pomdpx` and `.pomdp` hold it as a POMDP for
    other solvers, with the step in the state: see `latentmdp.formats.pomdp.export`.)
    """
    if not isinstance(model, LatentMDP):
        raise ModelError(f"save writes a LatentMDP; found {type(model).__name__}")
    with _naming(path):
        write = _writer(path, MODEL_FORMATS, "a model")
        as_pomdp = as_path(path).suffix.lower() in POMDP_ENDINGS
        write(_stationary(model) if as_pomdp else model, path)


def _stationary(model: LatentMDP) -> LatentMDP:
    """The model with the step in its state where it depends on the step."""
    return model.time_augmented() if model.changes_with_step else model


def not_held(model: LatentMDP, path: PathLike) -> list[str]:
    """The parts of the model that a file with this ending cannot store (in CSV: names, layout)."""
    asked = {".csv": not_in_csv} | dict.fromkeys(POMDP_ENDINGS, not_in_pomdp)
    ending = as_path(path).suffix.lower()
    return asked[ending](model) if ending in asked else []


def horizon_to_give(model: LatentMDP, path: PathLike) -> int | None:
    """The horizon to give when the model is read from such a file; None: none has to be given.

    POMDP files do not contain it. A `.pomdp` has one step more than the model if there are several
    first states, because it has no observation before the first action.
    """
    ending = as_path(path).suffix.lower()
    if ending not in POMDP_ENDINGS or is_infinite(model.horizon):
        return None
    shown_first = ending == ".pomdp" and not first_state_is_known(_stationary(model))
    return int(model.horizon) + shown_first


def load_policy(path: PathLike, model: LatentMDP | None = None) -> PolicyGraph:
    """The policy in a file: `.json`, `.npz`, or a Markov policy's `.csv` (step, state, action).

    `.policyx`, the alpha vectors of SARSOP, is made a policy for `model`, which must be given; of
    the others it is checked that they fit a `model` that is given.
    """
    with _naming(path):
        read = _format(path, POLICY_FORMATS, "a policy").load
        regular_file(path)
        if as_path(path).suffix.lower() == ".policyx":
            return read(path, model)
        policy = read(path)
        return policy if model is None else policy.for_model(model)


def save_policy(policy: PolicyGraph, path: PathLike) -> None:
    """Write a policy to `.json`, `.npz` or, if it is Markov, `.csv`, all or nothing."""
    if not isinstance(policy, PolicyGraph):
        raise ModelError(f"save_policy writes a PolicyGraph; found {type(policy).__name__}")
    with _naming(path):
        _writer(path, POLICY_FORMATS, "a policy")(policy, path)


def _format(path: PathLike, formats: dict[str, Format], what: str) -> Format:
    ending = as_path(path).suffix.lower()
    if ending not in formats:
        known = ", ".join(formats)
        found = f"it ends in {ending!r}" if ending else "it has none"
        raise ModelError(f"the file name of {what} must end in one of {known}; {found}")
    return formats[ending]


def _writer(path: PathLike, formats: dict[str, Format], what: str) -> Callable[..., None]:
    """The function that writes such a file; ModelError names the endings that can be written."""
    save = _format(path, formats, what).save
    if save is None:
        others = ", ".join(ending for ending, entry in formats.items() if entry.save)
        ending = as_path(path).suffix.lower()
        raise ModelError(f"{what} can be read from {ending}, not written; use one of {others}")
    return save


@contextmanager
def _naming(path: PathLike) -> Iterator[None]:
    """Errors raised inside begin with the name of the file."""
    try:
        yield
    except FileError:
        raise
    except ModelError as error:
        raise refusal(path, str(error)) from None
