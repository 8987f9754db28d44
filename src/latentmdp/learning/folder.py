"""A run's folder: the model beside the run, the two held together, one writer at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from latentmdp.errors import ModelError

if TYPE_CHECKING:
    from latentmdp.model import LatentMDP


def made(folder: str | Path) -> Path:
    """The folder, made if it is not there."""
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelError(
            f"{place} must be a folder that can be written: {error.strerror}"
        ) from None
    return place


def digest(model: LatentMDP) -> str:
    """Of all that a run's bits depend on; names and layout are not among it."""
    return model.digest


_written: dict[Path, tuple[int, str]] = {}  # what this process wrote: when, which model


def write_model(place: Path, model: LatentMDP) -> None:
    """Write `model.npz`, unless it is there already from an earlier checkpoint of this process."""
    from latentmdp.formats import save

    file, which = (place / "model.npz").absolute(), digest(model)
    when = file.stat().st_mtime_ns if file.exists() else 0
    if _written.get(file) != (when, which):
        save(model, file)
        _written[file] = (file.stat().st_mtime_ns, which)


def check_model(place: Path, model: LatentMDP, expected: str) -> None:
    """Refuse a model that is not the run's own."""
    if digest(model) != expected:
        raise ModelError(
            f"{place / 'model.npz'} must be the model of run.npz beside it; it is another one"
        )


@contextmanager
def locked(place: Path) -> Iterator[None]:
    """Hold a folder against other processes; the lock ends with the process, however it ends."""
    try:
        import fcntl
    except ImportError:  # not on this system: two writers are then the user's own affair
        yield
        return
    descriptor = os.open(made(place), os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise ModelError(f"{place} must not be in use; another process is writing there") from None
    except OSError:
        pass  # a file system without locks
    try:
        yield
    finally:
        os.close(descriptor)
