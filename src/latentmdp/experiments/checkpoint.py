"""Checkpoints of unfinished runs, in the study's folder."""

from contextlib import ExitStack, suppress
from pathlib import Path

from latentmdp._version import __version__
from latentmdp.errors import ModelError
from latentmdp.experiments.store import TroubleError
from latentmdp.experiments.study_run import Plain
from latentmdp.learning.run import Run, load_run
from latentmdp.learning.saved.folder import locked


class Checkpoint:
    """The state of an unfinished run, in the study's folder where all workers can read it.

    Its folder is created and locked at the first save. If another process still holds the lock,
    such as a worker whose driver was killed, this run starts from the beginning and saves no
    checkpoint; its result is the same.
    """

    def __init__(self, task: Plain, held: ExitStack) -> None:
        folder = Path(task["folder"])
        # another version may continue with other results
        name = f"{task['key']}-{__version__}"
        self._place: Path | None = folder / "checkpoints" / name if folder.is_dir() else None
        self._held, self._locked = held, False

    def load(self) -> Run | None:
        """The run as it was saved; None if there is none that can be read."""
        if self._place is None or not self._place.is_dir() or not self._lock():
            return None
        with suppress(ModelError):
            return load_run(self._place)
        return None

    def save(self, run: Run) -> None:
        """Save the run so far."""
        if self._place is None or not self._lock():
            return
        try:
            run.checkpoint(self._place)
        except ModelError as error:
            raise TroubleError(str(error)) from None

    def _lock(self) -> bool:
        if not self._locked and self._place is not None:
            try:
                self._held.enter_context(locked(self._place))
            except ModelError:
                self._place = None
                return False
            self._locked = True
        return self._locked
