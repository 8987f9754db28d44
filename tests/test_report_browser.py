"""The report in a real browser: offline, without errors, by mouse and keyboard, with true beliefs.

Needs Playwright (`pip install '.[dev]'`) and a Chromium; `LATENTMDP_CHROMIUM` names another one
than the usual places. Screenshots go to `LATENTMDP_SCREENSHOTS` if it is set.
"""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import latentmdp as lm
from latentmdp.learning.learn import learn
from latentmdp.report import write_report
from latentmdp.report.phases import choose_phases
from latentmdp.report.replay import page_episode

pytestmark = pytest.mark.browser

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
    from latentmdp.theory.audit import audit

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


def beliefs(page):
    """The numbers behind the bars."""
    rows = page.locator(".belief")
    return np.array([float(rows.nth(i).get_attribute("data-belief")) for i in range(rows.count())])


def shown_widths(page):
    """The bars' widths as parts of the whole, as drawn."""
    page.wait_for_timeout(400)  # the bars move
    return np.array(
        page.eval_on_selector_all(
            ".belief .bar",
            "bars => bars.map(b => b.firstChild.getBoundingClientRect().width / b.clientWidth)",
        )
    )


def transcript(page):
    """Rows of the episode's table: `(state, action, next, symbol, belief after)`."""
    rows = page.eval_on_selector_all(
        "#explore-transcript tbody tr", "r => r.map(x => ({...x.dataset}))"
    )
    keys = ("state", "action", "next", "symbol")
    return [(*(int(row[key]) for key in keys), np.array(json.loads(row["belief"]))) for row in rows]


def at_step(page):
    return int(page.locator("#explore-step").input_value())


def test_beliefs_are_the_librarys_own_for_every_context_and_policy(browser, report, run, maze):
    policies = [phase.policy for phase in run.phases]
    values = np.array([phase.value for phase in run.phases])
    chosen = choose_phases(np.array([phase.episode for phase in run.phases]), values, 12)
    with Watched(browser, report) as page:
        for phase, context, seed in ((0, 0, 5), (len(chosen) // 2, 1, 6), (len(chosen) - 1, 2, 7)):
            page.locator("#explore-phase").fill(str(phase))
            page.locator("#explore-context").select_option(str(context))
            page.locator("#explore-seed").fill(str(seed))
            page.locator("#explore-seed").press("Enter")
            page.locator("#explore-first").click()
            first, steps = page_episode(maze, policies[chosen[phase]], context, seed)
            found = transcript(page)
            assert len(found) == maze.H
            assert np.allclose(beliefs(page), lm.initial_belief(maze, first), atol=1e-15)
            for shown, expected in zip(found, steps, strict=True):
                assert shown[:4] == (
                    expected.state,
                    expected.action,
                    expected.next,
                    expected.symbol,
                )
                assert np.allclose(shown[4], expected.belief, atol=1e-12)
                page.locator("#explore-forward").click()
                assert beliefs(page).sum() == pytest.approx(1.0, abs=1e-12)
                assert np.allclose(beliefs(page), expected.belief, atol=1e-12)
            assert np.allclose(shown_widths(page), steps[-1].belief, atol=0.01)


def test_a_plan_with_memory_is_played_as_the_library_plays_it(browser, report, plan, maze):
    from latentmdp.report.phases import slim

    policy = slim(maze, plan.policy)
    assert lm.evaluate(maze, policy).value == pytest.approx(plan.lower, abs=1e-12)
    with Watched(browser, report) as page:
        page.locator("#explore-source").select_option(label="plan, history class")
        for context in range(maze.M):
            page.locator("#explore-context").select_option(str(context))
            for seed in (1, 2, 3):
                page.locator("#explore-seed").fill(str(seed))
                page.locator("#explore-seed").press("Enter")
                _, steps = page_episode(maze, policy, context, seed)
                assert [row[:3] for row in transcript(page)] == [
                    (step.state, step.action, step.next) for step in steps
                ]


def test_keyboard_alone_moves_the_explorer(browser, report, maze):
    with Watched(browser, report) as page:
        page.locator(".world").focus()
        for key, step in (
            ("ArrowRight", 1),
            ("ArrowRight", 2),
            ("ArrowLeft", 1),
            ("End", maze.H),
            ("Home", 0),
        ):
            page.keyboard.press(key)
            assert at_step(page) == step
        before = page.locator(".phase-text").inner_text()
        page.keyboard.press("PageUp")
        assert page.locator(".phase-text").inner_text() != before
        page.keyboard.press("n")
        assert page.locator("#explore-seed").input_value() == "2"
        page.keyboard.press(" ")
        for _ in range(50):
            page.wait_for_timeout(100)
            if at_step(page) > 1:
                break
        assert at_step(page) > 1
        page.keyboard.press(" ")
        stopped = at_step(page)
        page.wait_for_timeout(800)
        assert at_step(page) == stopped


def test_every_control_is_reached_by_tab_and_has_a_name(browser, report):
    with Watched(browser, report) as page:
        nameless = page.evaluate(NAMELESS)
        assert nameless == 0
        page.locator("#explore-source").focus()
        seen = []
        for _ in range(8):
            seen.append(page.evaluate("document.activeElement.id"))
            page.keyboard.press("Tab")
        assert seen[:5] == [
            "explore-source", "explore-phase", "explore-context", "explore-seed", "explore-another",
        ]  # fmt: skip


def test_clicking_another_action_plays_on_from_there(browser, report):
    with Watched(browser, report) as page:
        page.locator("#explore-forward").click()
        before = transcript(page)
        other = page.locator(".action:not(.chosen)").first
        name = other.locator(".who").inner_text()
        other.click()
        after = transcript(page)
        assert after[0][:3] == before[0][:3]
        assert after[1][1] != before[1][1]
        assert name in page.locator(".now").inner_text()
        assert "because you said so" in page.locator(".now").inner_text()
        page.locator(".action", has_text="→").click()  # back to the policy's own choice
        assert [row[:4] for row in transcript(page)] == [row[:4] for row in before]


def test_values_of_actions_are_the_librarys(browser, report, run, maze):
    """The number at the policy's own action is the belief-weighted alpha of its node."""
    policy = run.phases[-1].policy
    ev = lm.evaluate(maze, policy)
    with Watched(browser, report) as page:
        first, steps = page_episode(maze, policy, 0, 1)
        cursor, belief = policy.cursor(first), lm.initial_belief(maze, first)
        for step in steps[:-1]:
            shown = page.locator(".action.chosen .numbers").inner_text().split(" / ")
            assert float(shown[0]) == pytest.approx(belief @ ev.alpha[cursor.node], abs=6e-4)
            cursor.observe(step.symbol, step.next)
            belief = step.belief
            page.locator("#explore-forward").click()


def test_shades_show_what_they_say(browser, report, run, maze):
    """Darker cells for every kind; the learner's visits are those of its snapshot."""
    snapshot = run.phases[-1].counts.N.reshape(maze.M, maze.S, maze.A)
    with Watched(browser, report) as page:
        select = page.locator("#explore-heat")
        kinds = [o.get_attribute("value") for o in select.locator("option").all()]
        assert kinds == ["known", "known-all", "open", "route", "route-all", "none"]
        for kind in kinds:
            select.select_option(kind)
            shaded = page.locator(".picture rect[style*='fill-opacity']").count()
            assert (shaded > 0) == (kind != "none"), kind
            if kind == "known-all":
                most = snapshot.sum(axis=(0, 2)).max()
                assert f"{most:,}" in page.locator(".world .key").inner_text()
            if kind == "known":
                assert shaded == (snapshot[0].sum(axis=1) > 0).sum()


def test_charts_answer_to_pointer_keyboard_and_switches(browser, report):
    with Watched(browser, report) as page:
        chart = page.locator("#chart-regret svg[role=img]")
        chart.scroll_into_view_if_needed()
        box = chart.bounding_box()
        page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.5)
        tip = page.locator("#chart-regret .tip")
        assert tip.is_visible()
        assert "episodes" in tip.inner_text()
        assert "mvp" in tip.inner_text()
        chart.focus()
        page.keyboard.press("End")
        assert "20,000 episodes" in tip.inner_text()
        page.keyboard.press("ArrowLeft")
        assert "20,000 episodes" not in tip.inner_text()
        page.keyboard.press("Escape")
        assert not tip.is_visible()
        lines = page.locator("#chart-regret svg[role=img] path").count()
        page.locator("#chart-regret .legend button", has_text="random").click()
        assert page.locator("#chart-regret svg[role=img] path").count() == lines - 1
        page.locator("#chart-regret button", has_text="linear").click()
        assert (
            page.locator("#chart-regret button", has_text="linear").get_attribute("aria-pressed")
            == "true"
        )


def test_model_saved_from_the_page_is_the_model(browser, report, maze, tmp_path):
    with Watched(browser, report) as page:
        with page.expect_download() as download:
            page.locator("button[data-model]").click()
        assert download.value.suggested_filename == "model.json"
        download.value.save_as(tmp_path / "model.json")
    assert lm.load(tmp_path / "model.json") == maze


def rewards_tell(observe_rewards):
    """Contexts with one law of motion: only a reward, where it is seen, tells them apart."""
    P = np.full((3, 3, 2, 3), 1 / 3)
    R = np.zeros((3, 3, 2))
    R[1, 1], R[2, 1], R[2, 2] = 0.1, 0.1, 0.05
    nu = np.full((3, 3), 1 / 3)
    return lm.LatentMDP.from_arrays(
        P, R, [0.5, 0.3, 0.2], nu, 6, observe_rewards=observe_rewards
    )  # fmt: skip


KINDS = {
    "diagram": lambda: lm.make("troubleshoot:horizon=5"),
    "large": lambda: lm.make("garnet:states=50,horizon=6"),
    "line": lambda: lm.make("riverswim"),
    "tree": lambda: lm.make("hard"),
    "many contexts": lambda: lm.make("garnet:contexts=40,states=12,horizon=3"),
    "large grid": lambda: lm.make("maze:size=12,goals=30,horizon=9,walls=20"),
    "one step": lambda: lm.make("bandit").replace(horizon=1),
    "rewards seen": lambda: rewards_tell(True),
    "rewards hidden": lambda: rewards_tell(False),
}


@pytest.mark.parametrize("kind", KINDS)
def test_models_of_all_kinds_can_be_explored(browser, kind, tmp_path):
    model = KINDS[kind]().normalized()
    episodes = 1 if kind == "one step" else 100
    run = learn(model, "greedy", episodes=episodes, optimal=(0.1, 1.0))
    with Watched(browser, write_report(run, tmp_path / "r.html", phases=3)) as page:
        context = model.M - 1
        page.locator("#explore-context").select_option(str(context))
        first, steps = page_episode(model, run.policy, context, 1)
        found = transcript(page)
        for shown, expected in zip(found, steps, strict=True):
            assert shown[:4] == (expected.state, expected.action, expected.next, expected.symbol)
            assert np.allclose(shown[4], expected.belief, atol=1e-12)
        moved = not np.allclose(found[-1][4], lm.initial_belief(model, first))
        if kind.startswith("rewards"):
            assert moved == (kind == "rewards seen")
        for _ in range(model.H):
            page.locator("#explore-forward").click()
            assert page.locator(".picture svg").is_visible()
        assert "over" in page.locator(".now").inner_text()
        assert page.evaluate(BROKEN_NUMBERS) == []
        with page.expect_download() as download:
            page.locator("button[data-model]").click()
        download.value.save_as(tmp_path / "model.json")
    assert lm.load(tmp_path / "model.json") == model


def test_scaling_plots_answer_and_have_their_table(browser, run, tmp_path):
    """A study beside a run: hover snaps to the sizes measured; names are text."""
    spoil = "<img src=x onerror=\"document.title='broken'\">"
    rows = [
        {"algorithm": spoil, "x": x, "seed": seed, "regret": x * (1 + seed)}
        for x in (1e7, 1e8, 1e9)
        for seed in (0, 1)
    ]
    fits = [{"algorithm": spoil, "exponent": 1.0, "low": 0.9, "high": 1.1}]
    varied = {"parameter": "K", "label": "K", "model": "", "theorem_exponent": 0.5, "rows": rows,
              "fits": fits, "note": ""}  # fmt: skip
    study = {"format": "latentmdp-study", "version": 1, "title": "t", "command": "c",
             "versions": {}, "seconds": 1.0, "varied": [varied]}  # fmt: skip
    (tmp_path / "study.json").write_text(json.dumps(study), encoding="utf-8")
    path = write_report(run, tmp_path / "r.html", study=tmp_path, phases=1)
    for size in SIZES:
        with Watched(browser, path, size) as page:
            chart = page.locator("#chart-scaling-0-0 svg[role=img]")
            chart.scroll_into_view_if_needed()
            assert chart.locator("path").count() == len(rows) + 1  # dots, and the theorem's slope
            box = chart.bounding_box()
            page.mouse.move(box["x"] + box["width"] * 0.55, box["y"] + box["height"] * 0.5)
            tip = page.locator("#chart-scaling-0-0 .tip")
            assert "K = 10⁸" in tip.inner_text()
            assert "1.41 × 10⁸ (10⁸ – 2 × 10⁸)" in tip.inner_text()
            chart.focus()
            page.keyboard.press("End")
            assert "K = 10⁹" in tip.inner_text()
            page.keyboard.press("ArrowLeft")
            assert "K = 10⁸" in tip.inner_text()
            page.locator("#chart-scaling-0-0 summary").click()
            cells = page.locator("#chart-scaling-0-0 tbody tr").all_inner_texts()
            assert [cell.split("\t")[:2] for cell in cells] == [
                [f"K = 10{power}", f"1.41 × 10{power}"] for power in "⁷⁸⁹"
            ]
            assert page.title() != "broken"
            assert page.evaluate(NAMELESS) == 0
            assert page.evaluate(BROKEN_NUMBERS) == []
            assert page.evaluate(LOW_CONTRAST) == []


def test_hostile_names_run_nothing(browser, tmp_path):
    spoil = "document.title='broken'"
    bad = f'<img src=x onerror="{spoil}"></script><script>{spoil}</script>'
    P = np.tile(np.eye(2)[::-1], (2, 1, 1))[:, :, None, :]
    model = lm.LatentMDP.from_arrays(
        P, np.zeros((2, 2, 1)), [0.5, 0.5], [[1, 0], [0.5, 0.5]], 3, state_names=[bad, "b"],
        action_names=[bad], context_names=[bad, "{{data}}"],
    )  # fmt: skip
    run = learn(model, "greedy", episodes=20, optimal=(0.0, 0.0))
    with Watched(browser, write_report(run, tmp_path / "r.html", title=bad)) as page:
        assert page.title() == bad
        assert page.locator("img").count() == 0
        page.locator("#explore-last").click()
        assert bad in page.locator(".now").inner_text()
        assert page.locator(".belief .who").first.inner_text().removeprefix("★ ") == bad


def test_a_page_of_many_runs_opens_quickly(browser, tmp_path):
    model = lm.make("bandit:contexts=2,arms=2,horizon=3")
    found = [
        learn(model, "greedy", episodes=1000, bonus_scale=c / 50, optimal=(0.3, 0.9), seed=0)
        for c in range(1, 101)
    ]
    path = write_report(found, tmp_path / "many.html", phases=1)
    with Watched(browser, path) as page:
        took = page.evaluate("performance.timing.domComplete - performance.timing.navigationStart")
        assert took < 2000 * 3  # two seconds on a free machine
        assert page.locator("#chart-regret .legend button[aria-pressed=true]").count() < 12


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_looks(browser, report, size, scheme, tmp_path):
    folder = Path(os.environ.get("LATENTMDP_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    with Watched(browser, report, size, color_scheme=scheme) as page:
        for _ in range(3):
            page.locator("#explore-forward").click()
        page.evaluate("scrollTo(0, 0)")
        page.wait_for_timeout(600)
        wide, window = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide == window  # nothing sticks out
        tall = "Math.max(...[...document.querySelectorAll('tr')].map(row => row.offsetHeight))"
        assert page.evaluate(tall) < 200  # words are not squeezed into a narrow column
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(int(x) for x in paper[4:-1].split(",")) < 200) == (scheme == "dark")
        page.screenshot(path=folder / f"report-{size}-{scheme}.png", full_page=True)
        assert (folder / f"report-{size}-{scheme}.png").stat().st_size > 20_000


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(browser, report, scheme):
    """Every text is at least 4.5 times as bright or dark as what is behind it (WCAG AA)."""
    with Watched(browser, report, color_scheme=scheme) as page:
        assert page.evaluate(LOW_CONTRAST) == []


def test_prints_in_light_on_paper(browser, report, tmp_path):
    with Watched(browser, report, color_scheme="dark") as page:
        page.emulate_media(media="print")
        assert (
            page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        )
        for what in ("section > p", ".scroll", ".chart"):  # stay whole, a heading with its words
            style = f"getComputedStyle(document.querySelector('{what}')).breakInside"
            assert page.evaluate(style) == "avoid", what
        page.pdf(path=tmp_path / "report.pdf", format="A4")
        assert (tmp_path / "report.pdf").stat().st_size > 20_000
