"""Every Python block of README and docs runs; every `latentmdp` line of a shell block exits with 0.

The blocks of one page share a namespace and a folder, from top to bottom.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import matplotlib
import pytest
from places import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
LONG = ("figures.md", "how_to_add_an_algorithm.md")  # 27 s of Python


def blocks(page, *languages):
    """Contents of the page's fenced blocks in one of the languages."""
    text = page.read_text(encoding="utf-8")
    return [
        code for lang, code in re.findall(r"```(\w+)\n(.*?)```", text, re.S) if lang in languages
    ]


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.slow) if page.name in LONG else page for page in PAGES],
    ids=NAMES,
)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "docs"}
    for i, code in enumerate(blocks(page, "python")):
        exec(compile(code, f"{page.name}, block {i + 1}", "exec"), namespace)
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_shell_lines_run(page, tmp_path):
    bin_ = str(Path(sys.executable).parent)
    env = os.environ | {"PATH": bin_ + os.pathsep + os.environ["PATH"]}
    for code in blocks(page, "sh", "bash"):
        for line in code.replace("\\\n", " ").splitlines():
            line = line.removeprefix("$ ").strip()
            if line.startswith("latentmdp "):
                done = subprocess.run(
                    shlex.split(line, comments=True), cwd=tmp_path, env=env, capture_output=True
                )
                assert done.returncode == 0, f"{line}\n{done.stderr.decode()}"


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not target.startswith(("http://", "https://", "mailto:")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_navigation_names_each_page_once():
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = re.findall(r"^ +- .*: (\S+\.md)$", text, re.M)
    assert len(named) > 20
    assert sorted(set(named)) == sorted(named)
