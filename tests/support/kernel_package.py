"""A package of a few tiny kernels with the real cache around them, for tests in processes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import latentmdp

SOURCE = Path(latentmdp.__file__).parent
RUNTIME = ("interrupts", "notice", "sealed", "kernel_cache", "kernel_listeners")
NEEDED = ("errors", *(f"runtime/{name}" for name in RUNTIME))
HEAD = "from latentmdp.runtime.kernel_cache import kernel\n"
KERNEL = HEAD + "@kernel\ndef answer(x):\n    return x + {number}\n"
ASK = """
from importlib import import_module
modules = [import_module(f"latentmdp.kernels.{{name}}") for name in {names!r}]
print(*(module.answer(100) for module in modules))
"""


class Package:
    """Kernels `k0, k1, ...` that add their number, each with a cache folder of its own."""

    def __init__(self, place: Path, kernels: int) -> None:
        self.root, self.cache = place / "package", place / "cache"
        self.kernels = self.root / "latentmdp" / "kernels"
        self.temporary = place / "temporary"
        self.temporary.mkdir()
        for folder in (self.kernels.parent, self.kernels, self.kernels.parent / "runtime"):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "__init__.py").write_text("")
        for name in NEEDED:
            shutil.copy(SOURCE / f"{name}.py", self.kernels.parent / f"{name}.py")
        self.names = [f"k{i}" for i in range(kernels)]
        for i, name in enumerate(self.names):
            (self.kernels / f"{name}.py").write_text(KERNEL.format(number=i))

    def run(self, code: str, arguments: tuple[str, ...] = (), **how) -> subprocess.CompletedProcess:
        """Run the code in a process of its own."""
        env = os.environ | {
            "PYTHONPATH": str(self.root), "LATENTMDP_CACHE_DIR": str(self.cache),
            "LATENTMDP_QUIET": "", "TMPDIR": str(self.temporary),
        } | how.pop("env", {})  # fmt: skip
        return subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=env,
            timeout=100, **how,
        )  # fmt: skip

    def ask(self, **how) -> subprocess.CompletedProcess:
        """Call every kernel; see that the answers are right and that there is no traceback."""
        done = self.run(ASK.format(names=self.names), **how)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        assert [int(x) for x in done.stdout.split()] == [100 + i for i in range(len(self.names))]
        return done

    def kept(self, name: str, base: Path | None = None) -> "Kept":
        """What the cache has of a kernel."""
        (folder,) = (base or self.cache).glob(f"{name}-*[!k]")  # not its lock
        (index,) = folder.rglob("*.nbi")
        (code,) = folder.rglob("*.nbc")
        return Kept(folder, index, code, folder / "seals.json", Path(f"{folder}.lock"))


class Kept(NamedTuple):
    """A kernel's cache folder, Numba's index and machine code, and our own two files."""

    folder: Path
    index: Path
    code: Path
    seals: Path
    lock: Path


def without_override() -> None:
    """Before a program starts: root, too, keeps to the modes of files (Linux)."""
    if os.geteuid() == 0:
        import ctypes

        drop, override = 24, 1  # PR_CAPBSET_DROP, CAP_DAC_OVERRIDE
        assert ctypes.CDLL(None, use_errno=True).prctl(drop, override, 0, 0, 0) == 0
