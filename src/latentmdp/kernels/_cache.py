"""`@kernel`: Numba's `njit` with an on-disk cache that notices every edit.

Numba's own cache looks only at the file a function lives in: after an edit in a file it *imports*,
callers silently keep the old machine code. Here the cache folder is named by a digest of the
file's source, of the kernel files it imports (transitively), and of the versions that matter.

A file that is edited while a process runs must not mislead it: what was imported before the edit
would be compiled with what is imported after it and kept under the new digest for good. So the
sources are read once at the start, and machine code of anything edited since is not kept.

What lies in the folder is checked before Numba reads it (`_sealed.py`). Where there is no folder of
our own, nothing is kept. A cache that cannot be read or written costs time, never an answer.
"""

import hashlib
import os
import re
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core import event
from numba.core.errors import NumbaError

from latentmdp._interrupts import interrupts_held
from latentmdp._notice import notice
from latentmdp._sealed import Sealing, discard, sealed_folder
from latentmdp.errors import KernelCacheWarning


class _CtrlCWaits(event.Listener):
    """Ctrl-C takes effect after the kernel that is being compiled or loaded.

    In the middle, Python would drop it or break Numba's books: its C code calls Python back.
    """

    depth = 0
    held: Any = None

    def on_start(self, event: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # Ctrl-C comes to the main thread alone
        self.depth += 1
        if self.depth == 1:
            self.held = interrupts_held()
            self.held.__enter__()

    def on_end(self, event: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        self.depth -= 1
        if self.depth == 0:
            self.held.__exit__(None, None, None)


class _Stopwatch(event.Listener):
    """How long kernels have taken in this process to be compiled or loaded."""

    depth, seconds, begun = 0, 0.0, 0.0

    def on_start(self, event: Any) -> None:
        if self.depth == 0:
            self.begun = time.perf_counter()
        self.depth += 1

    def on_end(self, event: Any) -> None:
        self.depth -= 1
        if self.depth == 0:
            self.seconds += time.perf_counter() - self.begun


class _Compiling(event.Listener):
    """Says that kernels are compiled; holds their folder while Numba writes to it."""

    def on_start(self, event: Any) -> None:
        if event.data["dispatcher"] in _kernels:
            folder = _kernels[event.data["dispatcher"]]
            notice.begin(folder and folder.parent)

    def on_end(self, event: Any) -> None:
        if event.data["dispatcher"] in _kernels:
            notice.end()
            folder = _kernels[event.data["dispatcher"]]
            if folder is not None:  # writing comes next
                _saving.now = Sealing(folder)


_kernels: dict[Any, Path | None] = {}  # Numba's function of each kernel: where its code is kept
_saving = threading.local()  # `now` is what this thread has begun to seal

compiling = _Stopwatch()
event.register("numba:compile", _Compiling())
event.register("numba:compiler_lock", compiling)
event.register("numba:compiler_lock", _CtrlCWaits())
_AT_START = {file: file.read_bytes() for file in Path(__file__).parent.glob("*.py")}


@cache
def _imports(file: Path) -> frozenset[Path]:
    """The kernel files that a kernel file names in its imports."""
    text = file.read_text(encoding="utf-8")
    names = re.findall(r"^\s*(?:from|import) latentmdp\.kernels\.(\w+)", text, re.M)
    return frozenset(file.with_name(f"{name}.py") for name in names)


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
    """A folder whose name changes with anything that changes the machine code; none, if need be."""
    digest = hashlib.sha256()
    checked = str(numba.config.BOUNDSCHECK)  # type: ignore[attr-defined]
    for part in (sys.version, numba.__version__, llvmlite.__version__, np.__version__, checked):
        digest.update(part.encode())
    for source in sorted(_sources(file)):
        content = source.read_bytes()
        if content != _AT_START.get(source, content):
            return None
        digest.update(source.name.encode() + b"\0" + content)
    name = f"{file.stem}-{digest.hexdigest()[:16]}"
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


def _reason(error: Exception, place: Path) -> str:
    """What went wrong, with the path."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or place}: {error.strerror}"
    return str(error) or type(error).__name__


def _warn_not_kept(error: Exception, place: Path) -> None:
    _warn(f"compiled kernels cannot be kept in {place.parent}: {_reason(error, place)}")


@cache
def _warn(text: str) -> None:
    """Once for each trouble."""
    warnings.warn(text, KernelCacheWarning, stacklevel=2)


def is_cold(name: str) -> bool:
    """Whether no kernel of the file `name.py` has been compiled yet, and one could be kept."""
    folder = _cache_folder(Path(__file__).with_name(f"{name}.py"))
    return folder is not None and not any(folder.rglob("*.nbi"))


_deciding = threading.RLock()


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


_NJIT: Any = numba.njit  # its type does not know all options


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """`njit(cache=True)` and nothing else, in a cache folder of its file; see the module."""
    return _compiled(function)


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    with keeping(Path(function.__code__.co_filename)) as folder:
        try:
            compiled = _NJIT(cache=folder is not None)(function)
        except RuntimeError:  # Numba finds no place to keep it
            compiled, folder = _NJIT()(function), None
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return compiled
    if folder is not None and folder not in Path(compiled.stats.cache_path).parents:
        compiled, folder = _NJIT()(function), None  # it would be kept elsewhere
    _kernels[compiled] = folder
    if folder is not None:
        compiled.compile = _forgiving(compiled, folder)
    return compiled


def _forgiving(compiled: Any, folder: Path) -> Callable[[Any], Any]:
    """Numba's `compile`, which loads, or compiles and saves; it survives a failing disk."""
    plain = compiled.compile

    def load_or_compile(signature: Any) -> Any:
        for _ in range(2):
            known = len(compiled.signatures)
            try:
                return plain(signature)
            except NumbaError:
                raise  # the kernel itself is at fault
            except Exception as error:
                if len(compiled.signatures) == known:  # it could not be loaded
                    discard(folder)
                else:
                    _warn_not_kept(error, folder)
            finally:
                _seal(folder)
        return plain(signature)

    return load_or_compile


def _seal(folder: Path) -> None:
    """Seal what this thread has just written, if it has."""
    sealing = _saving.__dict__.pop("now", None)
    if sealing is not None:
        try:
            sealing.end()
        except OSError as error:
            _warn_not_kept(error, folder)


def cached_cfunc(signature: Any, function: Callable[..., Any]) -> Any:
    """Compile a function with a C signature, at once; cached like a kernel."""
    with keeping(Path(function.__code__.co_filename)) as folder:
        if folder is not None:
            _saving.now = Sealing(folder)
            try:
                return numba.cfunc(signature, cache=True)(function)
            except NumbaError:
                raise
            except Exception as error:
                _warn_not_kept(error, folder)
            finally:
                _seal(folder)
        return numba.cfunc(signature)(function)
