"""What the tests of the report share: runs, their page, and a reader of pages."""

import base64
import json
from html.parser import HTMLParser

import numpy as np
import pytest

import latentmdp as lm
from latentmdp.learning.learn import learn
from latentmdp.report import write_report

HOSTILE = (
    "<script>alert(1)</script>", "</script><img src=x onerror=alert(2)>", "{{data}}", "<!--",
    '"\'&amp;', "line\u2028separator", "\\u003c", "]]>",
)  # fmt: skip


class Page(HTMLParser):
    """A page's scripts, texts and attributes."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.scripts, self.tags, self.texts, self.open = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "br", "hr", "input", "link"):
            self.open.append(tag)
        if tag == "script":
            self.scripts.append([dict(attrs), ""])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[-1][1] += data
        elif self.open and self.open[-1] != "style":
            self.texts.append(data)

    @property
    def data(self):
        return json.loads(self.scripts[0][1])


@pytest.fixture(scope="module")
def maze():
    return lm.make("maze:size=3,goals=2,horizon=6,seed=0")


@pytest.fixture(scope="module")
def runs(maze):
    found = [learn(maze, "mvp", episodes=3000, optimal=(0.5, 1.0), seed=s) for s in range(2)]
    return [*found, learn(maze, "random", episodes=3000, optimal=(0.5, 1.0))]


@pytest.fixture(scope="module")
def page(runs, tmp_path_factory):
    path = write_report(runs, tmp_path_factory.mktemp("report") / "report.html")
    return path.read_text(encoding="utf-8")


def decoded(packed):
    """Python twin of page/data.js."""
    if isinstance(packed, dict):
        return np.array(packed["values"])[decoded(packed["index"])]
    kind, text = packed.split(":")
    dtype = {"u8": "u1", "u16": "<u2", "u32": "<u4", "f64": "<f8", "q16": "<u2"}[kind]
    array = np.frombuffer(base64.b64decode(text), dtype=dtype)
    return array / 65535 if kind == "q16" else array
