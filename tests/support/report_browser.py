"""A browser that is watched, and the page it opens; for the tests of the report in Chromium."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import latentmdp as lm
from latentmdp.learning.learn import learn
from latentmdp.report import write_report

PLACES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
NAMELESS = """() => [...document.querySelectorAll("button, select, input")].filter((x) =>
  !(x.getAttribute("aria-label") || x.innerText.trim() || x.labels?.length)).length"""
LOW_CONTRAST = """() => {
  const rgb = (c) => (c.match(/[\\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
  const linear = (v) => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const bright = ([r, g, b]) => .2126 * linear(r) + .7152 * linear(g) + .0722 * linear(b);
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = rgb(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] === 1) return c;
    }
    return [255, 255, 255];
  };
  const texts = "p, h1, h2, h3, td, th, button, a, dt, dd, label, summary, span, output, select";
  return [...document.querySelectorAll(texts)].filter((e) => {
    const off = e.closest(".legend [aria-pressed=false]") || !e.getClientRects().length;
    if (off || !e.innerText?.trim()) return false;
    const both = [bright(rgb(getComputedStyle(e).color)), bright(behind(e))];
    return (Math.max(...both) + .05) / (Math.min(...both) + .05) < 4.5;
  }).map((e) => e.tagName + " " + e.innerText.slice(0, 40));
}"""
BROKEN_NUMBERS = """() => {
  const broken = /NaN|Infinity|undefined/;
  const bad = (e) => [...e.attributes].some((a) => broken.test(a.value));
  const drawn = [...document.querySelectorAll("svg *")].filter(bad).map((e) => e.outerHTML);
  return broken.test(document.querySelector("main").innerText) ? [...drawn, "text"] : drawn;
}"""
SIZES = {"desktop": (1280, 900), "phone": (390, 844)}


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="needs Playwright")
    asked = os.environ.get("LATENTMDP_CHROMIUM")
    found = asked or next(filter(None, map(shutil.which, PLACES)), None)
    if not found:
        pytest.skip("needs a browser: apt-get install chromium")
    with api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def maze():
    return lm.make("maze:size=4,goals=3,horizon=10,seed=1,walls=2")


@pytest.fixture(scope="module")
def run(maze):
    return learn(maze, "mvp", episodes=20000, optimal=(0.5, 1.0), audit=True)


@pytest.fixture(scope="module")
def plan(maze):
    from latentmdp.planning import plan

    return plan(maze, "history", gap=0.05, time_limit=5)


@pytest.fixture(scope="module")
def report(run, maze, plan, tmp_path_factory):
    from latentmdp.theory.auditing.audit import audit

    others = [learn(maze, "random", episodes=20000, optimal=(0.5, 1.0), seed=s) for s in range(2)]
    path = tmp_path_factory.mktemp("report") / "report.html"
    found = audit(run, variance=(0.1, 0.25))
    return write_report([run, *others], path, plan=plan, audit=found, title="A maze")


class Watched:
    """A page, and everything it said or asked for."""

    def __init__(self, browser, path, size="desktop", **options):
        width, height = SIZES[size]
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, accept_downloads=True, **options
        )
        self.page = self.context.new_page()
        self.page.set_default_timeout(10_000)
        self.said, self.asked = [], []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(Path(path).as_uri())

    def __enter__(self):
        return self.page

    def __exit__(self, kind, *_):
        self.context.close()
        if kind is not None:
            return
        assert self.said == []
        assert len(self.asked) == 1, self.asked
        assert self.asked[0].startswith("file:")


def transcript(page):
    """Rows of the episode's table: `(state, action, next, symbol, belief after)`."""
    rows = page.eval_on_selector_all(
        "#explore-transcript tbody tr", "r => r.map(x => ({...x.dataset}))"
    )
    keys = ("state", "action", "next", "symbol")
    return [(*(int(row[key]) for key in keys), np.array(json.loads(row["belief"]))) for row in rows]
