"""All kernels at once: load them, and note which tasks have compiled theirs ahead."""

import os
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path

import numba

from latentmdp.runtime.kernel_cache import KERNELS, SOURCES, folder_for
from latentmdp.runtime.sealed import Sealing


def load_all() -> None:
    """Load every kernel file, so that all kernels without machine code are counted."""
    for file in sorted(KERNELS.rglob("[!_]*.py")):
        name = ".".join(file.relative_to(KERNELS).with_suffix("").parts)
        import_module(f"latentmdp.kernels.{name}")


@cache
def notes() -> Path | None:
    """A folder of notes beside those of kernels; an edit of any kernel file makes another one.

    None if nothing is compiled (`NUMBA_DISABLE_JIT`), or nothing can be kept.
    """
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return None
    return folder_for("tasks", SOURCES)


def read_note(task: str) -> str | None:
    """What was noted about a task, if anything that can be read."""
    folder = notes()
    if folder is None:
        return None
    try:
        return (folder / task).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None


def write_note(task: str, text: str = "") -> None:
    """Note that a task has compiled its kernels, if that can be written; else it is done again.

    A note appears whole, or not at all.
    """
    folder = notes()
    if folder is None:
        return
    with suppress(OSError):
        sealing = Sealing(folder)
        try:
            new = folder / f"{task}.new"
            try:
                new.write_text(text, encoding="utf-8")
                os.replace(new, folder / task)
            finally:
                new.unlink(missing_ok=True)
        finally:
            sealing.end()
