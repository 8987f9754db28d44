"""A first call says that kernels are being compiled; later ones say nothing."""

import os
import pty
import subprocess
import sys

from kernel_package import ASK, Package
from latentmdp._notice import CompileNotice


def test_one_plain_line_and_only_where_something_is_compiled(tmp_path):
    package = Package(tmp_path, 3)
    line = f"latentmdp: compiling kernels, once (they are kept in {package.cache})\n"
    assert package.ask(env={"LATENTMDP_QUIET": "1"}).stderr == ""
    assert package.ask().stderr == ""
    for file in package.cache.rglob("*.nbi"):
        file.unlink()
    assert package.ask().stderr == line
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
    clear, line = "\r\x1b[K", "latentmdp: compiling kernels, once: {} so far"
    assert said == clear + line.format(1) + clear + clear + line.format(2) + clear


def test_those_who_draw_on_the_terminal_are_told(monkeypatch, capsys):
    monkeypatch.delenv("LATENTMDP_QUIET", raising=False)
    notice, said = CompileNotice(), []
    notice.show = said.append
    notice.begin(None, kernels=0)
    for _ in range(2):
        notice.begin(None)
        notice.end()
    notice.end()
    once = "compiling kernels, once"
    assert said == [once, f"{once}: 1 so far", f"{once}: 2 so far", ""]
    assert capsys.readouterr().err == ""
