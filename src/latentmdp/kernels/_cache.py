"""`@kernel`: Numba's `njit` with an on-disk cache that notices every edit.

Numba's own cache looks only at the file a function lives in: after an edit in a file it *imports*,
callers silently keep the old machine code. Here the cache folder is named by a digest of the
file's source, of the kernel files it imports (transitively), and of the versions that matter.

A file that is edited while a process runs must not mislead it: what was imported before the edit
would be compiled with what is imported after it and kept under the new digest for good. So the
sources are read once at the start, and machine code of anything edited since is not kept.
"""

import atexit
import gc
import hashlib
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import numba
import numpy as np
from numba.core import event


def _defer_blas_check() -> None:
    """Let Numba look for SciPy's BLAS when a function first needs it, not at every start (0.2 s).

    SciPy is among our requirements, so the check, which sets one flag, would pass.
    """
    from numba.np import linalg

    check = linalg.ensure_blas
    linalg.ensure_blas = lambda: None
    try:
        from numba.np import arraymath
    finally:
        linalg.ensure_blas = check
    arraymath.ensure_blas = check


class _NoCollection(event.Listener):
    """Python's garbage collector rests while Numba compiles: a tenth of the time is saved."""

    depth, was_on = 0, False

    def on_start(self, event: Any) -> None:
        if self.depth == 0:
            self.was_on = gc.isenabled()
            gc.disable()
        self.depth += 1

    def on_end(self, event: Any) -> None:
        self.depth -= 1
        if self.depth == 0 and self.was_on:
            gc.enable()


class _CtrlCWaits(event.Listener):
    """Ctrl-C takes effect after the kernel that is being compiled or loaded.

    In the middle, Python would drop it or break Numba's books: its C code calls Python back.
    """

    depth, caught = 0, False
    before: Any = None

    def on_start(self, event: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # Ctrl-C comes to the main thread alone
        self.depth += 1
        if self.depth == 1:
            self.before = signal.getsignal(signal.SIGINT)
            if callable(self.before):
                signal.signal(signal.SIGINT, self._catch)

    def _catch(self, number: int, frame: FrameType | None) -> None:
        self.caught = True

    def on_end(self, event: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        self.depth -= 1
        if self.depth == 0 and callable(self.before):
            signal.signal(signal.SIGINT, self.before)
            if self.caught:
                self.caught = False
                signal.raise_signal(signal.SIGINT)


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


compiling = _Stopwatch()
_defer_blas_check()
event.register("numba:compile", _NoCollection())
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
def _cache_folder(file: Path) -> str:
    """A writable folder whose name changes with anything that changes the machine code."""
    digest = hashlib.sha256()
    checked = str(numba.config.BOUNDSCHECK)  # type: ignore[attr-defined]
    for part in (sys.version, numba.__version__, np.__version__, checked):
        digest.update(part.encode())
    for source in sorted(_sources(file)):
        content = source.read_bytes()
        if content != _AT_START.get(source, content):
            return _throwaway()
        digest.update(source.name.encode() + b"\0" + content)
    name = f"{file.stem}-{digest.hexdigest()[:16]}"
    home = os.environ.get("LATENTMDP_CACHE_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"),
        "latentmdp",
    )
    for base in (home, os.path.join(tempfile.gettempdir(), f"latentmdp-{os.getuid()}")):
        folder = os.path.join(base, name)
        try:
            os.makedirs(folder, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return folder
        except OSError:
            continue
    return _throwaway()


def is_cold(name: str) -> bool:
    """Whether no kernel of the file `name.py` has been compiled yet."""
    folder = _cache_folder(Path(__file__).with_name(f"{name}.py"))
    return not any(Path(folder).rglob("*.nbi"))


def _throwaway() -> str:
    """A folder that ends with the process."""
    folder = tempfile.mkdtemp(prefix="latentmdp-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


_NJIT: Any = numba.njit  # its type does not know all options
NEWEST = (0, 68)  # Numba whose inner parts `_compiler.py` has been tried with (and 0.62)


def stages(inside: bool = False) -> dict[str, Any]:
    """The option by which Numba compiles by our own stages; none where it is newer than we know.

    `inside`: for calls from kernels alone.
    """
    if numba.version_info.short > NEWEST:
        return {}
    from latentmdp.kernels._compiler import HelperCompiler, KernelCompiler

    return {"pipeline_class": HelperCompiler if inside else KernelCompiler}


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function` with Numba, cached on disk; see the module's docstring."""
    return _compiled(function, no_cfunc_wrapper=True, **stages())


def plain_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """`njit(cache=True)` and nothing else, in the same folder; NUMBA_BOUNDSCHECK=1 has effect."""
    return _compiled(function)


def _compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    before = numba.config.CACHE_DIR  # type: ignore[attr-defined]
    numba.config.CACHE_DIR = _cache_folder(Path(function.__code__.co_filename))  # type: ignore[attr-defined]
    try:
        return _NJIT(cache=True, **options)(function)
    finally:
        numba.config.CACHE_DIR = before  # type: ignore[attr-defined]


def helper(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function` for calls from kernels alone: no entry from Python, a faster compile.

    A call from Python would jump to nowhere, so overloads are hidden from Python's side of Numba's
    dispatcher, which then asks for a compilation, and that is refused.
    """
    options = stages(inside=True)
    compiled = _NJIT(no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)(function)

    def remember(result: Any) -> None:
        compiled.overloads[tuple(result.signature.args)] = result

    def refuse(*arguments: Any, **options: Any) -> None:
        raise TypeError(f"{function.__name__} is a @helper: only kernels can call it")

    if not numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        compiled.add_overload, compiled._compile_for_args = remember, refuse
    return compiled
