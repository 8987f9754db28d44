"""Charts, kinds of models, hostile names, colours, sizes and print, in a real browser."""

import os
from pathlib import Path

import numpy as np
import pytest
from report_browser import (  # noqa: F401  # fixtures
    BROKEN_NUMBERS,
    LOW_CONTRAST,
    NAMELESS,
    SIZES,
    Watched,
    browser,
    maze,
    plan,
    report,
    run,
    transcript,
)

import latentmdp as lm
from latentmdp.learning.learn import learn
from latentmdp.report import write_report
from latentmdp.report.replay import page_episode

pytestmark = pytest.mark.browser


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


def test_an_open_optimum_shades_the_curve_up_to_the_other_end(browser, maze, tmp_path):
    """In the picture, under the pointer, in the table below and in words for those who listen."""
    for name, optimal in (("open", (0.999, 1.0)), ("closed", (1.0, 1.0))):
        run = lm.learn(maze, "random", 20_000, optimal=optimal)
        write_report(run, tmp_path / f"{name}.html", phases=1)
        low, high = run.regret_bounds
        with Watched(browser, tmp_path / f"{name}.html") as page:
            chart = page.locator("#chart-regret svg[role=img]")
            chart.scroll_into_view_if_needed()
            shades = page.locator("#chart-regret polygon.bracket")
            assert shades.count() == (name == "open")
            said = chart.get_attribute("aria-label")
            chart.focus()
            page.keyboard.press("End")
            tip = page.locator("#chart-regret .tip").inner_text()
            page.locator("#chart-regret details summary").click()
            below = page.locator("#chart-regret table").inner_text()
            ends = f"{low:,.0f} to {high:,.0f}"
            for text in (said, tip, below):
                assert (ends in text) == (name == "open")
            card = page.locator(".card .big").inner_text()
            assert (" to " in card) == (name == "open")
