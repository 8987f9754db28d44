"""`@kernel`: Numba's `njit` with an on-disk cache that notices every edit.

Numba's own cache looks only at the file a function lives in: after an edit in a file it *imports*,
callers silently keep the old machine code. Here the cache folder is named by a digest of the
file's source, of the kernel files it imports (transitively), and of the versions that matter.
"""

import ast
import hashlib
import os
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np

_HERE = Path(__file__).parent
_PACKAGE = "latentmdp.kernels."


@cache
def _sources(file: Path) -> frozenset[Path]:
    """The file and the kernel files it imports, transitively."""
    found, queue = {file}, [file]
    while queue:
        for node in ast.walk(ast.parse(queue.pop().read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            for name in names:
                if name.startswith(_PACKAGE):
                    path = _HERE / f"{name.removeprefix(_PACKAGE)}.py"
                    if path.exists() and path not in found:
                        found.add(path)
                        queue.append(path)
    return frozenset(found)


@cache
def _cache_folder(file: Path) -> str:
    """A writable folder whose name changes with anything that changes the machine code."""
    digest = hashlib.sha256()
    for part in (sys.version, numba.__version__, np.__version__):
        digest.update(part.encode())
    for source in sorted(_sources(file)):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
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
    return tempfile.mkdtemp(prefix="latentmdp-")


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function` with Numba, cached on disk; see the module's docstring."""
    before = numba.config.CACHE_DIR  # type: ignore[attr-defined]
    numba.config.CACHE_DIR = _cache_folder(Path(function.__code__.co_filename))  # type: ignore[attr-defined]
    try:
        return numba.njit(cache=True)(function)
    finally:
        numba.config.CACHE_DIR = before  # type: ignore[attr-defined]


def helper(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function` for calls from kernels alone: no entry from Python, a faster compile."""
    return numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)  # type: ignore[call-overload]
