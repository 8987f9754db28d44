"""The on-disk cache of compiled kernels notices edits anywhere, and starting stays light."""

import ast
import os
import signal
import subprocess
import sys

import numba
import pytest
from kernel_package import HEAD, Package
from numba.core.codegen import JITCodeLibrary

from latentmdp.runtime import kernel_cache as _cache

KERNELS = sorted(_cache.KERNELS.rglob("*.py"))


def imported_by(file):
    """The slow twin: kernel files named by any import statement of the syntax tree."""
    modules = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom):
            modules |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}

    def name(path):
        return ".".join(path.relative_to(_cache.KERNELS).with_suffix("").parts)

    return {path for path in KERNELS if f"latentmdp.kernels.{name(path)}" in modules}


@pytest.mark.parametrize(
    "file", KERNELS, ids=lambda file: "-".join(file.relative_to(_cache.KERNELS).parts)
)
def test_imports_are_those_of_the_syntax_tree(file):
    assert _cache._imports(file) == imported_by(file)


def test_an_edit_of_an_imported_file_changes_the_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LATENTMDP_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(_cache, "KERNELS", tmp_path)
    top, middle, bottom, other = (tmp_path / f"{name}.py" for name in "abcd")
    top.write_text("from latentmdp.kernels.b import f\n")
    middle.write_text("from latentmdp.kernels.c import g\n")
    for file in (bottom, other):
        file.write_text("")

    def folder():
        _cache._imports.cache_clear()
        _cache._cache_folder.cache_clear()
        return _cache._cache_folder(top)

    before = folder()
    other.write_text("x = 1\n")
    assert folder() == before
    bottom.write_text("x = 1\n")
    assert folder() != before


def test_code_that_numba_will_not_take_up_is_not_counted(tmp_path):
    """The same source, saved again: Numba goes by its time, too, and compiles anew."""
    package = Package(tmp_path, 0)
    low = package.kernels / "low.py"
    low.write_text(HEAD + "@kernel\ndef f():\n    return 1\n")
    count_and_call = """
from latentmdp.runtime import kernel_cache as _cache
from latentmdp.kernels.low import f
found = _cache.with_code(), _cache.progress()[1]
print(*found, f(), sum(f.stats.cache_misses.values()))
"""

    def run():
        done = package.run(count_and_call)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    with_code, cold, answer, compiled = range(4)
    first, again = run(), run()
    assert (first[cold], first[compiled]) == ("1", "1")
    assert (again[cold], again[compiled]) == ("0", "0")
    assert int(again[with_code]) == int(first[with_code]) + 1
    os.utime(low, ns=(0, low.stat().st_mtime_ns + 10**9))
    assert run() == first
    assert first[answer] == "1"


def test_an_edit_under_a_running_process_leaves_no_stale_code(tmp_path):
    """`low` is imported, edited, and compiled into `high`: later processes must see the edit."""
    package = Package(tmp_path, 0)
    low, high = package.kernels / "low.py", package.kernels / "high.py"
    low.write_text(HEAD + "@kernel\ndef f():\n    return 1\n")
    high.write_text(
        HEAD + "from latentmdp.kernels.low import f\n@kernel\ndef g():\n    return f()\n"
    )
    imported_then_edited = f"""
import pathlib
import latentmdp.kernels.low
path = pathlib.Path({str(low)!r})
path.write_text(path.read_text().replace("return 1", "return 22"))
from latentmdp.kernels.high import g
print(g())
"""
    found = []
    for code in (imported_then_edited, "from latentmdp.kernels.high import g\nprint(g())"):
        done = package.run(code)
        assert done.returncode == 0, done.stderr
        found.append(int(done.stdout))
    assert found == [1, 22]


def test_ctrl_c_in_the_middle_of_a_compile_comes_after_it(monkeypatch):
    """At its worst: in Python that C code calls back, where exceptions are dropped."""
    asked = []

    def interrupted(library):
        asked.append(library)
        signal.raise_signal(signal.SIGINT)
        return False

    increase, before = numba.njit(lambda x: x + 1), signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patch:
        flag = property(interrupted, lambda library, value: None)
        patch.setattr(JITCodeLibrary, "_object_caching_enabled", flag, raising=False)
        with pytest.raises(KeyboardInterrupt):
            increase(1)
    assert asked
    assert signal.getsignal(signal.SIGINT) is before
    assert increase(1) == 2


def test_kernels_load_where_text_is_ascii_by_default():
    code = (
        "import importlib, pkgutil, latentmdp.kernels as k\n"
        "for module in pkgutil.walk_packages(k.__path__, k.__name__ + '.'):\n"
        "    importlib.import_module(module.name)\n"
    )
    env = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert (done.returncode, done.stderr) == (0, "")


def test_indices_are_checked_where_numba_is_asked_to(tmp_path):
    """Also where machine code without checks is on the disk already."""
    code = """
import numpy as np
from latentmdp.kernels.simulation.chain import find_successor
numbers = np.arange(4)
try:
    find_successor(numbers, numbers, 10, 11, 0, 0)
    print("read outside")
except IndexError:
    print("refused")
"""
    said = []
    for checked in ("0", "1"):
        environment = os.environ | {
            "NUMBA_BOUNDSCHECK": checked, "LATENTMDP_CACHE_DIR": str(tmp_path)
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        said.append(done.stdout.strip())
    assert said == ["read outside", "refused"]
