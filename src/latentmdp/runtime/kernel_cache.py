"""`@kernel`: Numba's `njit` with an on-disk cache that notices every edit.

Numba's own cache looks only at the file a function lives in: after an edit in a file it *imports*,
callers silently keep the old machine code. Here the cache folder is named by a digest of the file,
of the kernel files it imports (transitively), and of the versions that matter; so what lies in it
is what Numba takes up.

A file that is edited while a process runs must not mislead it: what was imported before the edit
would be compiled with what is imported after it and kept under the new digest for good. So the
sources are read once at the start, and machine code of anything edited since is not kept.

What lies in the folder is checked when a kernel file is loaded, before Numba reads it, and sealed
as soon as Numba has written it (`runtime/sealed.py`). Where there is no folder of our own, or no
room for what is still to be compiled, nothing is written. What remains: a disk that fills up, or a
file that is damaged, in the seconds between these looks and Numba's own. That is Numba's exception,
in one call; the next start repairs it.
"""

import errno
import hashlib
import os
import re
import shutil
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core import event

from latentmdp.errors import KernelCacheWarning
from latentmdp.runtime.kernel_listeners import CtrlCWaits, compiling
from latentmdp.runtime.notice import notice
from latentmdp.runtime.sealed import Sealing, sealed_folder

ROOM = 2**25  # bytes on the disk; all kernels together take less than half of it
LARGEST_FILE = 2**20  # bytes; no file of a kernel is as large
KERNELS = Path(__file__).parents[1] / "kernels"
SOURCES = {file: file.read_bytes() for file in KERNELS.rglob("*.py")}  # at the start


# ---------------------------------------------------------------- the folder of a file


@cache
def _imports(file: Path) -> frozenset[Path]:
    """The kernel files that a kernel file names in its imports."""
    text = file.read_text(encoding="utf-8")
    names = re.findall(r"^\s*(?:from|import) latentmdp\.kernels\.([\w.]+)", text, re.M)
    return frozenset(KERNELS / f"{name.replace('.', '/')}.py" for name in names)


def _sources(file: Path) -> set[Path]:
    """The file and the kernel files it imports, transitively."""
    found, queue = {file}, [file]
    while queue:
        new = _imports(queue.pop()) - found
        found |= new
        queue += new
    return found


@cache
def _cache_folder(file: Path) -> Path | None:
    """Where the machine code of a kernel file is kept, if anywhere."""
    return folder_for(file.stem, _sources(file))


def folder_for(name: str, sources: Iterable[Path]) -> Path | None:
    """A folder whose name changes with anything that changes the machine code; none, if need be."""
    digest = hashlib.sha256()
    checked = str(numba.config.BOUNDSCHECK)  # type: ignore[attr-defined]
    for part in (sys.version, numba.__version__, llvmlite.__version__, np.__version__, checked):
        digest.update(part.encode())
    for source in sorted(sources):
        content = source.read_bytes()
        if content != SOURCES.get(source, content):
            return None
        # Numba compiles again, whatever the content, where the path or the time differs
        digest.update(f"{source}\0{source.stat().st_mtime_ns}\0".encode() + content)
    name = f"{name}-{digest.hexdigest()[:16]}"
    reasons = []
    for base in _bases():
        try:
            folder = sealed_folder(base, name)
        except OSError as error:
            reasons.append(_reason(error, base))
            continue
        if reasons and os.environ.get("LATENTMDP_CACHE_DIR"):
            _warn(f"compiled kernels are kept in {base}: {reasons[0]}")  # not where asked to
        return folder
    _warn(
        "compiled kernels cannot be kept, so they are compiled anew at every start: "
        f"{'; '.join(reasons)}; LATENTMDP_CACHE_DIR may name a folder of yours"
    )
    return None


def _bases() -> list[Path]:
    """Where to keep machine code: a person's cache, else their own temporary folder."""
    from platformdirs import user_cache_path

    asked = os.environ.get("LATENTMDP_CACHE_DIR")
    home = Path(asked) if asked else user_cache_path("latentmdp", appauthor=False)
    bases = [Path(os.path.realpath(home))]
    if hasattr(os, "geteuid"):
        bases.append(Path(tempfile.gettempdir(), f"latentmdp-{os.geteuid()}"))
    return bases


@cache
def _has_room(base: Path) -> bool:
    """Whether the disk takes what all kernels may need; a warning if not."""
    try:
        with tempfile.TemporaryFile(dir=base) as file:
            file.write(bytes(LARGEST_FILE))  # quotas, and limits on the size of files
        if shutil.disk_usage(base).free < ROOM:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(base))
    except OSError as error:
        _warn_not_kept(error, base)
        return False
    return True


def _warn_not_kept(error: OSError, base: Path) -> None:
    _warn(f"compiled kernels cannot be kept in {base}: {_reason(error, base)}")


def _reason(error: OSError, place: Path) -> str:
    """What went wrong in the folder; the same words for all files in it, to be said once."""
    return f"{place}: {error.strerror}" if error.strerror else str(error)


@cache
def _warn(text: str) -> None:
    """Once for each trouble."""
    warnings.warn(text, KernelCacheWarning, stacklevel=2)


# ---------------------------------------------------------------- kernels

_NJIT: Any = partial(numba.njit, error_model="numpy")
_kernels: dict[Any, Path | None] = {}  # Numba's function of each kernel: where its code is kept
_cold: set[Any] = set()  # those without machine code when they were loaded, or for new types
_deciding = threading.RLock()


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """`njit(cache=True, error_model="numpy")`, in a cache folder of its file; see the module.

    In that model a division by 0 gives inf or nan and cannot raise, so that Numba need not keep
    references for the way out: visits of a few rows take a third of the time.
    """
    with keeping(Path(function.__code__.co_filename)) as folder:
        is_cold = folder is None or _code_name(function) not in _names_when_loaded(folder)
        if folder is not None and is_cold and not _has_room(folder.parent):
            folder = None
        try:
            compiled = _NJIT(cache=folder is not None)(function)
        except RuntimeError:  # Numba finds no place to keep it
            compiled, folder = _NJIT()(function), None
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return compiled
    if folder is not None and folder not in Path(compiled.stats.cache_path).parents:
        compiled, folder = _NJIT()(function), None  # it would be kept elsewhere
    _kernels[compiled] = folder
    if is_cold:
        _cold.add(compiled)
    return compiled


@contextmanager
def keeping(file: Path) -> Iterator[Path | None]:
    """Inside, Numba keeps what it compiles in the folder of this kernel file; nowhere, if None.

    Numba has one setting for all threads: another thread that put it back would let Numba write
    beside the sources.
    """
    with _deciding:
        before = numba.config.CACHE_DIR  # type: ignore[attr-defined]
        folder = _cache_folder(file)
        numba.config.CACHE_DIR = str(folder or "")  # type: ignore[attr-defined]
        try:
            yield folder
        finally:
            numba.config.CACHE_DIR = before  # type: ignore[attr-defined]


def _code_name(function: Any) -> str:
    """How Numba's files of a function begin: `history_grid.locate-48`."""
    code = function.__code__
    return f"{Path(code.co_filename).stem}.{function.__qualname__}-{code.co_firstlineno}"


def _code_names(folder: Path) -> set[str]:
    """The beginnings of the index files in the folder, one for each function with code."""
    return {path.name.rsplit(".", 2)[0] for path in folder.glob("*/*.nbi")}


_names_when_loaded = cache(_code_names)


# ---------------------------------------------------------------- while Numba compiles


def with_code() -> int:
    """How many functions of the kernel files that are loaded have machine code on the disk."""
    folders = {folder for folder in _kernels.values() if folder is not None}
    return sum(len(_code_names(folder)) for folder in folders)


def progress() -> tuple[int, int]:
    """How many kernels have been compiled, and how many at most have to be.

    These are the kernels of all files loaded by now that had no machine code then. Those that
    another process has compiled since count as well.
    """
    cold = list(_cold)  # other threads may load more
    folders = {folder for kernel in cold if (folder := _kernels[kernel]) is not None}
    kept = set().union(*map(_code_names, folders))
    done = sum(bool(k.signatures) or _code_name(k.py_func) in kept for k in cold)
    return done, len(cold)


class _Compiling(event.Listener):
    """Says that kernels are compiled; holds their folder while Numba writes to it."""

    def on_start(self, event: Any) -> None:
        kernel = event.data["dispatcher"]
        if kernel in _kernels:
            _cold.add(kernel)  # it may have code, for arguments of other types
            folder = _kernels[kernel]
            notice.begin(*progress(), folder and folder.parent)

    def on_end(self, event: Any) -> None:
        folder = _kernels.get(event.data["dispatcher"])
        if event.data["dispatcher"] in _kernels:
            notice.end(*progress())
        if folder is not None:  # Numba writes there next
            try:
                _saving.sealing, _saving.until = Sealing(folder), _saving.depth
            except OSError as error:
                _warn_not_kept(error, folder.parent)


class _Saving(event.Listener, threading.local):
    """Seals what this thread has written when it leaves Numba's lock."""

    depth, until = 0, 0
    sealing: Sealing | None = None

    def on_start(self, event: Any) -> None:
        self.depth += 1

    def on_end(self, event: Any) -> None:
        self.depth -= 1
        if self.sealing is not None and self.depth < self.until:
            sealing, self.sealing = self.sealing, None
            try:
                sealing.end()
            except OSError as error:
                _warn_not_kept(error, sealing.folder.parent)


_saving = _Saving()
event.register("numba:compile", _Compiling())
for listener in (compiling, _saving, CtrlCWaits()):  # the last may raise
    event.register("numba:compiler_lock", listener)
