"""All kernels at once: load them, and note which tasks have compiled theirs ahead."""

from functools import cache
from importlib import import_module
from pathlib import Path

import numba

from latentmdp._sealed import Sealing
from latentmdp.kernels._cache import SOURCES, folder_for


def load_all() -> None:
    """Load every kernel file, so that all kernels without machine code are counted."""
    for file in sorted(Path(__file__).parent.glob("[!_]*.py")):
        import_module(f"latentmdp.kernels.{file.stem}")


@cache
def notes() -> Path | None:
    """A folder of notes beside those of kernels; an edit of any kernel file makes another one.

    None if nothing is compiled (`NUMBA_DISABLE_JIT`), or nothing can be kept.
    """
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return None
    return folder_for("tasks", SOURCES)


def read_note(task: str) -> str | None:
    """What was noted about a task, if anything."""
    folder = notes()
    if folder is None or not (folder / task).exists():
        return None
    return (folder / task).read_text(encoding="utf-8")


def write_note(task: str, text: str = "") -> None:
    """Note that a task has compiled its kernels."""
    folder = notes()
    if folder is not None:
        sealing = Sealing(folder)
        try:
            (folder / task).write_text(text, encoding="utf-8")
        finally:
            sealing.end()
