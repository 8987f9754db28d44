"""The report in a real browser: offline, without errors, by mouse and keyboard, with true beliefs.

Needs Playwright (`pip install '.[dev]'`) and a Chromium; `LATENTMDP_CHROMIUM` names another one
than the usual places. Screenshots go to `LATENTMDP_SCREENSHOTS` if it is set.
"""

import numpy as np
import pytest
from report_browser import (  # noqa: F401  # fixtures
    NAMELESS,
    Watched,
    browser,
    maze,
    plan,
    report,
    run,
    transcript,
)

import latentmdp as lm
from latentmdp.report.phases import choose_phases
from latentmdp.report.replay import page_episode

pytestmark = pytest.mark.browser


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
    """The least at the policy's own action is the belief-weighted alpha of its node."""
    policy = run.phases[-1].policy
    ev = lm.evaluate(maze, policy)
    with Watched(browser, report) as page:
        first, steps = page_episode(maze, policy, 0, 1)
        cursor, belief = policy.cursor(first), lm.initial_belief(maze, first)
        for step in steps[:-1]:
            shown = page.locator(".action.chosen .numbers").inner_text().split(" to ")
            expected = belief @ ev.alpha[cursor.node]
            assert float(shown[0].split()[0]) == pytest.approx(expected, abs=6e-4)
            cursor.observe(step.next, symbol=step.symbol)
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


def test_the_explorer_speaks_in_user_units(browser, tmp_path):
    base = lm.make("garnet:states=3,actions=2,contexts=2,horizon=4")
    raw = lm.LatentMDP.from_arrays(
        base.P, base.R * 400.0 - 30.0, base.w, base.nu, base.H, max_return=None
    )
    learned = lm.learn(raw.normalized(), "greedy", episodes=300)
    path = lm.write_report(learned, tmp_path / "report.html")
    with Watched(browser, path) as page:
        worth = lm.evaluate(raw, learned.policy).value
        assert f"worth {worth:.4f} per episode" in page.locator(".phase-text").inner_text()
        assert "regret (user units)" in page.locator("#chart-regret").inner_text()
