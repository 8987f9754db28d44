"""A run's folder: the model beside the run, the two held together, one writer at a time."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.errors import ModelError
from latentmdp.formats import load
from latentmdp.formats.npz import model_writer
from latentmdp.learning.saved.checks import checked_folder, checked_run
from latentmdp.learning.saved.state import State, load_state, refusing_misfits, state_writer
from latentmdp.learning.session import COLUMNS
from latentmdp.runtime.files import (
    HAS_LOCKS,
    PathLike,
    Writer,
    lock_file,
    make_folder,
    reason,
    refusal,
    shown,
    write_together,
)

if TYPE_CHECKING:
    from latentmdp.model.latent_mdp import LatentMDP


MODEL_FILE, NEXT_MODEL_FILE, RUN_FILE = "model.npz", "model-next.npz", "run.npz"
# model files of this process: time of writing, and the model; equal digests are not enough, since
# names and units are not part of them
_written: dict[Path, tuple[int, weakref.ref[LatentMDP]]] = {}


def write_run(
    place: Path, model: LatentMDP, state: State, more: Mapping[str, Writer] | None = None
) -> None:
    """Write a run's files, and `more` beside them: all are on disk before one takes its name.

    `run.npz` names its model by a digest. A new model is written as `model-next.npz` and renamed
    when `run.npz` is in place: at every moment there is a whole run to read.
    """
    file = (place / MODEL_FILE).absolute()
    when = file.stat().st_mtime_ns if file.exists() else 0
    targets: list[tuple[PathLike, Writer]] = [(place / RUN_FILE, state_writer(state))]
    targets += [(place / name, write) for name, write in (more or {}).items()]
    written, of = _written.get(file, (-1, None))
    if written == when and of is not None and of() is model:  # from an earlier checkpoint
        write_together(targets)
        return
    write_together([(place / NEXT_MODEL_FILE, model_writer(model)), *targets])
    try:
        os.replace(place / NEXT_MODEL_FILE, file)
    except OSError as error:
        raise refusal(file, f"cannot be written: {reason(error)}") from None
    _written[file] = (file.stat().st_mtime_ns, weakref.ref(model))


def read_run(place: Path) -> tuple[LatentMDP, State, dict[str, Any]]:
    """The model, the checked state of a run, and `optimal` and `seconds_optimal` beside it.

    Another process may write a run there meanwhile: then the new one is read.
    """
    while True:
        before = _version(place)
        try:
            return _read_run(place)
        except ModelError:
            if _version(place) == before:
                raise


def _version(place: Path) -> tuple[int, ...]:
    """What changes when a run is written."""
    try:
        found = os.stat(place / RUN_FILE)
    except OSError:
        return ()
    return found.st_ino, found.st_mtime_ns, found.st_size


def _read_run(place: Path) -> tuple[LatentMDP, State, dict[str, Any]]:
    with refusing_misfits(place / RUN_FILE, "run"):
        state = load_state(place / RUN_FILE, "run")
        more = checked_folder(state)
        model = _read_model(place, more["model"])
        return model, checked_run(state, model), more


def _read_model(place: Path, expected: str) -> LatentMDP:
    """The run's own model; it has its first name still if a process was killed in between."""
    with suppress(ModelError):
        waiting = load(place / NEXT_MODEL_FILE)
        if waiting.digest == expected:
            return waiting
    model = load(place / MODEL_FILE)
    if model.digest != expected:
        raise refusal(
            place / MODEL_FILE, "must be the model of run.npz beside it; it is another one"
        )
    return model


def refuse_other(
    place: Path, model: LatentMDP, spec: dict[str, Any], state: State | None = None,
    force: str = "overwrite=True",
) -> None:  # fmt: skip
    """Refuse a folder that holds another run than this one, or more of it than `state` has.

    `force` is how a person says that what is there may be lost.
    """
    try:
        if not (place / RUN_FILE).exists():
            if (place / MODEL_FILE).exists() and load(place / MODEL_FILE).digest != model.digest:
                raise ModelError("another model")
            return
        try:
            held, old, _ = read_run(place)
        except ModelError as error:
            raise ModelError(f"a run that cannot be read ({error})") from None
        same_units = (held.reward_scale, held.reward_shift) == (
            model.reward_scale, model.reward_shift,
        )  # fmt: skip
        if held.digest != model.digest or not same_units or old["spec"] != spec:
            raise ModelError("another run")
        if state is not None and not _continues(state, old):
            raise ModelError("more of this run, or another one")
    except ModelError as error:
        raise ModelError(
            f"{shown(place)} must be free for this run; it holds {error}: choose another folder, "
            f"or {force} to lose what is there"
        ) from None


def _continues(state: State, old: State) -> bool:
    """Whether every phase of the old state is one of the new one too."""
    phases = len(old["table"]["episode"])
    kept = all(
        np.array_equal(state["table"][name][:phases], old["table"][name]) for name in COLUMNS
    )
    return kept and state["done"] + state["pending"] >= old["done"] + old["pending"]


@contextmanager
def locked(place: Path) -> Iterator[None]:
    """Hold a folder against other processes; the lock ends with the process, however it ends."""
    if not HAS_LOCKS:  # two writers are then the user's own affair
        yield
        return
    descriptor = os.open(make_folder(place), os.O_RDONLY)
    try:
        if lock_file(descriptor) is False:
            raise ModelError(f"{place} must not be in use; another process is writing there")
        yield
    finally:
        os.close(descriptor)
