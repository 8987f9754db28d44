"""A first call says that kernels are being compiled, and how far it is; later ones say nothing."""

import os
import pty
import subprocess
import sys

from kernel_package import ASK, HEAD, Package

from latentmdp.runtime.notice import CompileNotice

ONCE = "compiling kernels, once: "


def test_one_plain_line_and_only_where_something_is_compiled(tmp_path):
    package = Package(tmp_path, 3)
    line = f"latentmdp: {ONCE}at most {{}} (they are kept in {package.cache})\n"
    assert package.ask(env={"LATENTMDP_QUIET": "1"}).stderr == ""
    assert package.ask().stderr == ""
    package.kept("k0").index.unlink()
    assert package.ask().stderr == line.format(1)
    for file in package.cache.rglob("*.nbi"):
        file.unlink()
    assert package.ask().stderr == line.format(3)
    assert package.ask().stderr == ""


def test_a_terminal_counts_and_is_left_clean(tmp_path):
    package = Package(tmp_path, 2)
    main, side = pty.openpty()
    env = os.environ | {
        "PYTHONPATH": str(package.root), "LATENTMDP_CACHE_DIR": str(package.cache),
        "LATENTMDP_QUIET": "",
    }  # fmt: skip
    command = [sys.executable, "-c", ASK.format(names=package.names)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=side, text=True, env=env)
    os.close(side)
    said = os.read(main, 10_000).decode()
    os.close(main)
    assert done.stdout == "100 101\n"
    clear, line = "\r\x1b[K", f"latentmdp: {ONCE}{{}} of at most 2"
    assert said == clear + line.format(0) + clear + clear + line.format(1) + clear


def test_those_who_draw_on_the_terminal_are_told(monkeypatch, capsys):
    monkeypatch.delenv("LATENTMDP_QUIET", raising=False)
    notice, said = CompileNotice(), []
    notice.show = said.append
    notice.begin(0, 3, None)
    notice.begin(0, 3, None)  # the first one calls it
    notice.end(1, 3)
    notice.end(2, 3)
    assert said == [f"{ONCE}0 of at most 3"] * 2 + [f"{ONCE}1 of at most 3", ""]
    assert capsys.readouterr().err == ""


COUNT = """
import subprocess, sys
from latentmdp.runtime import kernel_cache as _cache
from latentmdp.kernels import a, b
counts = [_cache.progress()]
a.outer(1)
counts.append(_cache.progress())
if sys.argv[1] == "other":
    code = "from latentmdp.kernels import b; b.alone(1)"
    subprocess.run([sys.executable, "-c", code], check=True)
    counts.append(_cache.progress())
else:
    a.outer(1.5)
    counts.append(_cache.progress())
print(counts)
"""


def test_what_is_counted(tmp_path):
    """Kernels without code, of all files that are loaded; also those that other kernels call.

    What another process compiles counts; what is compiled again for other types counts once.
    """
    package = Package(tmp_path, 0)
    functions = (
        "@kernel\ndef inner(x):\n    return x\n@kernel\ndef outer(x):\n    return inner(x)\n"
    )
    (package.kernels / "a.py").write_text(HEAD + functions)
    alone = "@kernel\ndef alone(x):\n    return x\n@kernel\ndef unused(x):\n    return x\n"
    (package.kernels / "b.py").write_text(HEAD + alone)
    for argument, counts in (
        ("other", [(0, 4), (2, 4), (3, 4)]),
        ("types", [(0, 1), (0, 1), (2, 3)]),  # `unused` is left; then the other two, for floats
    ):
        done = package.run(COUNT, (argument,))
        assert done.stdout == f"{counts}\n", done.stderr
