"""What the explorer says actions are worth, against the library and a recursion over histories.

The page's scripts run in a real browser.
"""

import re
from importlib.resources import files
from types import SimpleNamespace

import brute
import numpy as np
import pandas as pd
import pytest
from q_twin import best_node, expand, optimal_from, optimal_q
from report_browser import BROKEN_NUMBERS, Watched, browser, transcript  # noqa: F401  # a fixture
from strategies import random_masked, random_model, random_policy

import latentmdp as lm
from latentmdp.advice import BeliefValues
from latentmdp.advice.values import following
from latentmdp.fitting.deciding.decision import decide
from latentmdp.model.time_augmented import step_dependent
from latentmdp.policy.graph import fitted
from latentmdp.report import write_report
from latentmdp.report.fit_page import write_fit_page
from latentmdp.report.frame import render_page
from latentmdp.report.html import tag
from latentmdp.report.phases import plan_phase, slim
from latentmdp.report.replay import page_episode
from latentmdp.report.world import world
from latentmdp.report.write import SCRIPTS

pytestmark = pytest.mark.browser
NUMBERS = ("data", "random", "episode", "values", "svg", "action_bars")
PLAY = """(jobs) => jobs.map(({ data, phase, context, seed, overrides }) => {
  const model = readModel({ ...data, userUnits: false });
  const policy = readPolicy(phase.policy, model);
  const tables = valueTables(model, policy, phase.value);
  const chosen = new Map(overrides);
  const entries = playEpisode(model, policy, context, seed, chosen, resumption(model, tables));
  return entries.slice(0, -1).map((at) => (
    { ...at, belief: Array.from(at.belief), ranges: actionRanges(model, tables, at) }));
})"""


def in_browser(browser, function, argument, **constants):
    """The result of a function that sees the page's scripts; `constants` replace theirs."""
    folder = files("latentmdp.report") / "page"
    source = "\n".join((folder / f"{name}.js").read_text("utf-8") for name in NUMBERS)
    for name, value in constants.items():
        source, found = re.subn(rf"const {name} = [^;]*;", f"const {name} = {value};", source)
        assert found == 1
    page = browser.new_page()
    try:
        return page.evaluate(
            f"(argument) => {{ {source}\n return ({function})(argument); }}", argument
        )
    finally:
        page.close()


def page_bounds(values, step, state, belief):
    """`(A, 2)` as the page has them: below, the policy's own nodes alone."""
    model, best = values.model, values.vectors.best
    found = values.q(step, state, belief)
    last = step == model.H - 1
    for a in model.actions_in(state, step):
        row = model.row(0 if last else step, np.arange(model.M), state, a)
        low = np.asarray(belief) @ (model.last_row_reward if last else model.row_reward)[row]
        seen = following(model, step, state, int(a), np.asarray(belief))
        for nxt, after in zip(seen.next.tolist(), seen.weight, strict=True):
            if step + 1 < model.H:
                low += model.discount * best(step + 1, nxt, after)[0]
        assert low <= found[a, 0] + 1e-9  # advice may know more continuations
        found[a, 0] = low
    return found


def random_timed(rng):
    M, S, A, H = (int(rng.integers(1, k + 1)) for k in (3, 2, 2, 3))
    P = rng.dirichlet(np.full(S, 0.5), (H, M, S, A))
    R = rng.integers(-2, 3, (H, M, S, A)) / 2
    w, nu = rng.dirichlet(np.ones(M)), rng.dirichlet(np.ones(S), M)
    model = lm.LatentMDP.from_arrays(P, R, w, nu, H, max_return=None, terminal=rng.random((M, S)))
    return step_dependent(model.time_augmented())  # what the page shows: as learners see rewards


def random_job(seed):
    """A tiny model, a policy, an upper bound on the optimum, an episode with deviations."""
    rng = np.random.default_rng(seed)
    draw = (random_model, random_model, random_masked, random_timed)[seed % 4]
    model = draw(rng)
    while seed % 8 and 1 in (model.M, model.H):  # mostly there is something to find out
        model = draw(rng)
    good = seed % 4 == 2 or rng.random() < 0.7
    rows = model.time_augmented() if draw is random_timed else model
    sizes = SimpleNamespace(H=model.H, S=model.S, A=model.A, symbol=rows.symbol)
    policy = lm.plan(model, gap=None).policy if good else random_policy(rng, sizes)
    d = brute.Dense(rows)
    first = (rows.w[:, None] * rows.nu).T
    optimum = sum(optimal_from(d, 0, s, first[s].tolist()) for s in range(rows.S) if first[s].sum())
    bound = None if rng.random() < 0.3 else optimum + rng.choice([0.0, 0.0, 0.01, 1.0])
    shown = fitted(step_dependent(rows), slim(model, policy))
    if shown.is_markov:  # the page gets its table alone
        shown = fitted(step_dependent(rows), lm.PolicyGraph.from_table(shown.table))
    context = int(rng.choice(model.M, p=model.w))
    overrides = [[t, int(rng.integers(model.A))] for t in range(model.H) if rng.random() < 0.4]
    if draw is random_masked:
        overrides = []
    phase = plan_phase(rows, shown if rows is model else policy, lm.evaluate(model, policy).value)
    job = {
        "data": world(rows, bound), "phase": phase, "context": context, "seed": seed,
        "overrides": overrides,
    }  # fmt: skip
    return model, d, shown, job


def test_ranges_enclose_the_value_of_each_action(browser):
    """And deviating is worth what the best continuation earns, not what the default node does."""
    made = [random_job(seed) for seed in range(240)]
    played = in_browser(browser, PLAY, [job for *_, job in made])
    beyond, resumed, capped = 0, 0, 0
    for (model, d, policy, job), entries in zip(made, played, strict=True):
        values, alpha = BeliefValues(model, policy), lm.evaluate(model, policy).alpha
        slack = (
            None
            if job["data"]["optimum"] is None
            else job["data"]["optimum"] - job["phase"]["value"]
        )
        off = False
        for at in entries:
            t, s, belief = at["t"], at["state"], at["belief"]
            numbered = s if d.S == model.S else t * model.S + s
            own = float(np.dot(alpha[at["node"]], belief))
            if off and at["t"] > 0 and entries[t - 1]["action"] != entries[t - 1]["asked"]:
                resumed += 1
                assert own == pytest.approx(best_node(policy, alpha, t, s, belief), abs=1e-9)
            bounds = page_bounds(values, t, s, belief)
            most = np.inf
            if not off and slack is not None:
                most = own + max(slack, 0.0) / (at["chance"] * model.discount**t)
            assert (at["chance"] == 0.0) == off
            for a in d.actions(numbered):
                lower, upper = at["ranges"][a]["lower"], at["ranges"][a]["upper"]
                right = optimal_q(d, t, numbered, a, belief)
                assert lower == pytest.approx(bounds[a, 0], abs=1e-9)
                assert upper == pytest.approx(max(lower, min(bounds[a, 1], most)), abs=1e-7)
                assert lower - 1e-9 <= right <= upper + 1e-7
                capped += most < bounds[a, 1] - 1e-6
                now, after = expand(d, numbered, a, belief)
                if t + 1 < model.H:
                    for (_, y), weights in after.items():
                        node = policy.default[t + 1, y % model.S]
                        now += model.discount * float(np.dot(alpha[node], weights))
                assert lower >= now - 1e-9
                beyond += lower > now + 1e-6
            assert at["ranges"][at["asked"]]["lower"] >= own - 1e-9
            off = off or at["action"] != at["asked"]
    assert beyond > 50
    assert resumed > 15
    assert capped > 5


def clinic(horizon=4):
    """Costs alone; without treatment nothing is lost but time, the wrong one makes it worse."""
    P = np.zeros((2, 3, 3, 3))
    P[:, 2, :, 2] = 1.0
    for m, right in enumerate((1, 2)):
        P[m, 0, 0] = ([0.6, 0.2, 0.2], [0.3, 0.65, 0.05])[m]
        P[m, 0, right], P[m, 0, 3 - right] = [0.2, 0.1, 0.7], [0.2, 0.75, 0.05]
        P[m, 1, 0] = [0.1, 0.85, 0.05]
        P[m, 1, right], P[m, 1, 3 - right] = [0.5, 0.4, 0.1], [0.0, 1.0, 0.0]
    cost = [[1.0, 1.5, 1.5], [4.0, 4.5, 4.5], [0.0, 0.0, 0.0]]
    return lm.LatentMDP.from_arrays(
        P, -np.array([cost] * 2), [0.6, 0.4], [[1, 0, 0]] * 2, horizon, max_return=None,
        state_names=["ill", "worse", "well"], action_names=["rest", "antibiotic", "steroid"],
        context_names=["bacterial", "inflammatory"],
    )  # fmt: skip


@pytest.fixture(scope="module")
def clinic_page(tmp_path_factory):
    """The page of a log of random treatments; `(path, fit, policy with memory)`."""
    model, rng = clinic(), np.random.default_rng(0)
    logs = [
        lm.rollout(model, rng.integers(0, 3, (4, 3)), episodes=20, seed=i).assign(
            episode=lambda log, i=i: log["episode"] + 20 * i
        )
        for i in range(60)
    ]
    fit = lm.fit(pd.concat(logs), step="step", next_state="next_state", context="context")
    decision = decide(fit, draws=20, time_limit=4.0)
    path = tmp_path_factory.mktemp("fit") / "page.html"
    write_fit_page(path, fit, fit.summary(), decision)
    return path, fit.model, slim(fit.model, decision.memory.policy)


def shown_numbers(page):
    """`(actions, 2)`: the least and the most that stand beside each action."""
    texts = [x.inner_text().replace("\u2212", "-") for x in page.locator(".action .numbers").all()]
    found = [[float(x) for x in re.findall(r"-?[\d.]+", text)] for text in texts]
    return np.array([(x[0], x[-1]) for x in found])


def test_the_fit_page_does_not_overstate_the_price_of_deviating(browser, clinic_page):
    path, model, policy = clinic_page
    d, alpha = brute.Dense(model), lm.evaluate(model, policy).alpha
    with Watched(browser, path) as page:
        numbers = shown_numbers(page)
        right = [optimal_q(d, 0, 0, a, model.w.tolist()) for a in range(3)]
        assert (numbers[:, 0] <= np.array(right) + 6e-4).all()
        assert (numbers[:, 1] >= np.array(right) - 6e-4).all()
        overstated = 0
        for a in set(range(3)) - {int(policy.action[policy.root[0]])}:
            by_default, after = expand(d, 0, a, model.w.tolist())
            for (_, y), weights in after.items():
                by_default += float(np.dot(alpha[policy.default[1, y]], weights))
            assert numbers[a, 0] > right[a] - 0.1  # the least is close to what is right
            overstated += by_default < right[a] - 0.5
        assert overstated > 0  # a case in which the default node would have said something else


def test_bars_of_costs_are_drawn_from_zero(browser, clinic_page):
    """All on one scale, from the most negative number at the left to zero at the right."""
    path, model, policy = clinic_page
    values = BeliefValues(model, policy)
    boxes = """rows => rows.map((row) => {
      const track = row.querySelector(".worth").getBoundingClientRect();
      const bars = [...row.querySelectorAll(".real, .open")].map((x) => x.getBoundingClientRect());
      return [Math.min(...bars.map((b) => b.left)), Math.max(...bars.map((b) => b.right))].map(
        (x) => (x - track.left) / track.width);
    })"""
    with Watched(browser, path) as page:
        page.locator("#explore-context").select_option("1")
        first, steps = page_episode(model, policy, 1, 1)
        belief = lm.initial_belief(model, first)
        for t, step in enumerate(steps):
            bounds = page_bounds(values, t, step.state, belief)
            if bounds.min() < 0:
                ends = np.array(page.eval_on_selector_all(".action", boxes))
                assert (ends[:, 1] - ends[:, 0] > 0.05).all()
                assert np.allclose(ends[:, 1], 1.0, atol=0.03)
                assert np.allclose(ends[:, 0], 1 - bounds[:, 0] / bounds[:, 0].min(), atol=0.03)
            shown = page.eval_on_selector_all(".action", "rows => rows.map(r => +r.dataset.lower)")
            assert shown == pytest.approx(bounds[:, 0].tolist(), abs=1e-9)
            belief = step.belief
            page.locator("#explore-forward").click()


def test_the_episode_goes_on_from_the_belief_after_another_action(browser, clinic_page):
    path, model, policy = clinic_page
    with Watched(browser, path) as page:
        for context in range(2):
            page.locator("#explore-context").select_option(str(context))
            for seed in (1, 2):
                page.locator("#explore-seed").fill(str(seed))
                page.locator("#explore-seed").press("Enter")
                page.locator("#explore-first").click()
                for action in range(3):
                    page.locator(".action").nth(action).click()
                    _, steps = page_episode(model, policy, context, seed, {0: action})
                    assert [row[:3] for row in transcript(page)] == [
                        (step.state, step.action, step.next) for step in steps
                    ]


@pytest.fixture(scope="module")
def crowded(tmp_path_factory):
    """30 contexts, long names, large costs, hidden rewards, a discount, an unavailable action."""
    rng = np.random.default_rng(0)
    P, R = rng.dirichlet(np.full(6, 0.3), (30, 6, 5)), 700.0 - 1000.0 * rng.random((30, 6, 5))
    model = lm.LatentMDP.from_arrays(
        P, R, np.full(30, 1 / 30), np.full((30, 6), 1 / 6), 6, max_return=None, discount=0.9,
        observe_rewards=False, allowed=np.tile([True, True, False, True, True], (6, 1)),
        state_names=[f"a long name of state number {i}, with details" for i in range(6)],
        action_names=[f"administer treatment number {i} twice a day" for i in range(5)],
        context_names=[f"a rare disease with a long Latin name {i}" for i in range(30)],
    )  # fmt: skip
    policy = lm.PolicyGraph.from_belief(model, lambda t, s, b: int(np.argmax(b)) % 2, max_nodes=999)
    phase = plan_phase(model, policy, lm.evaluate(model, policy).value)
    source = {"name": "plan", "model": 0, "total": 1, "best": None, "phases": [phase]}
    data = {"plans": [], "sources": [source], "models": [world(model) | {"userUnits": False}]}
    explorer = [("explore", "Explorer", tag("div", id="explorer"))]
    path = tmp_path_factory.mktemp("crowded") / "page.html"
    path.write_text(render_page("Crowded", "", explorer, data, SCRIPTS), encoding="utf-8")
    return path


def test_a_crowded_model_is_told_apart_and_its_words_are_right(browser, crowded):
    with Watched(browser, crowded) as page:
        for _ in range(3):
            page.locator("#explore-forward").click()
        assert page.evaluate(BROKEN_NUMBERS) == []
        for what in (".belief", ".action"):  # the numbers are not cut off
            names = [x.inner_text() for x in page.locator(f"{what} .who").all()]
            assert len({re.match(r"\W*\d+", name)[0] for name in names}) == len(names)
        assert "administer treatment number" in page.locator(".action").first.get_attribute("title")
        assert "discounted by 0.9 a step" in page.locator("#explorer").inner_text()
        assert "discounted total reward" in page.locator(".transport").inner_text()
        assert "which it does not see" in page.locator(".now").inner_text()
        page.locator("#explore-last").click()
        assert "The true context was a rare disease" in page.locator(".now").inner_text()


BARS = """(actions) => {
  const settings = { least: 1e-6, markov: true, unit: 1, discount: 1 };
  const action = { name: "a", brief: "a", available: true, hoped: null };
  const { rows, keys } = actionBars(actions.map((x) => ({ ...action, ...x })), settings);
  const ends = ({ left, width }) => [parseFloat(left), parseFloat(left) + parseFloat(width)];
  const bars = (row) => [...row.querySelectorAll(".real, .open")];
  const drawn = rows.slice(0, actions.length).map(
    (row) => Object.fromEntries(bars(row).map((x) => [x.className, ends(x.style)])));
  return [drawn, keys.map((x) => x.textContent).join(" ")];
}"""


def test_what_is_certain_is_solid_and_the_rest_is_open(browser):
    """On a scale from -4 to 4: 0 lies in the middle."""
    ends = [(-4, -2), (1, 4), (-1, 2), (3, 3), (-2, -2), (None, -2), (None, 2), (-1, None),
            (1, None)]  # fmt: skip
    expected = [
        {"open": [0, 25], "real": [25, 50]}, {"real": [50, 62.5], "open": [62.5, 100]},
        {"open": [37.5, 75]}, {"real": [50, 87.5]}, {"real": [25, 50]}, {"real": [25, 50]},
        {"open": [50, 75]}, {"open": [37.5, 50]}, {"real": [50, 62.5]},
    ]  # fmt: skip
    drawn, words = in_browser(browser, BARS, [{"lower": low, "upper": high} for low, high in ends])
    assert drawn == expected
    assert "too large" not in words
    drawn, words = in_browser(browser, BARS, [{"lower": 0, "upper": 0}, {"lower": 0, "upper": 0}])
    assert drawn == [{}, {}]
    for end, other in (("lower", "most"), ("upper", "least")):
        _, words = in_browser(browser, BARS, [{"lower": None, "upper": None, end: 1}])
        assert f"too large for this page to say what actions are worth at {other}." in words


@pytest.mark.parametrize("end", ["lower", "upper"])
def test_tables_end_where_they_would_be_too_large(browser, end):
    model, _, policy, job = random_job(4)
    name = "MOST_NUMBERS" if end == "lower" else "MOST_WORK"
    size = policy.N * model.M if end == "lower" else len(model.next) * model.H
    for most in (size, size - 1):
        (entries,) = in_browser(browser, PLAY, [job], **{name: most})
        known = {at["ranges"][a][end] is not None for at in entries for a in range(model.A)}
        assert known == {most == size}


def test_names_lose_the_words_that_all_begin_with(browser):
    brief = "(sets) => sets.map((x) => x.map((_, i) => briefly((j) => x[j], x.length)(i)))"
    sets = [
        ["a machine in state good", "a machine in state bad"], ["left", "right"],
        ["no common beginning here", "and none here either"], ["only one very long name of one"],
        ["treatment-with-aspirin-1", "treatment-with-aspirin-2"], ["twice the same name"] * 2,
    ]  # fmt: skip
    assert in_browser(browser, brief, sets) == [
        ["…good", "…bad"], *sets[1:4], ["…1", "…2"], ["…name"] * 2
    ]  # fmt: skip


def test_bars_cross_zero_where_values_do(browser, tmp_path):
    """In user units of a normalised model; hopes are drawn on the same scale."""
    base = lm.make("garnet:states=3,actions=3,contexts=2,horizon=4,seed=1")
    raw = lm.LatentMDP.from_arrays(
        base.P, base.R * 400.0 - 65.0, base.w, base.nu, base.H, max_return=None
    )
    run = lm.learn(raw.normalized(), "mvp", episodes=3000, optimal=(0.1, 1.0), bonus_scale=0.01)
    path = write_report(run, tmp_path / "r.html", plan=lm.plan(raw.normalized()))
    values = BeliefValues(raw, run.policy)
    with Watched(browser, path) as page:
        first, steps = page_episode(run.model, run.policy, 0, 1)
        belief, crossed = lm.initial_belief(raw, first), 0
        for t, step in enumerate(steps):
            rows = page.locator(".action").all()
            found = np.array(
                [[float(x.get_attribute(f"data-{e}")) for e in ("lower", "upper")] for x in rows]
            )
            bounds = page_bounds(values, t, step.state, belief)
            assert np.allclose(found[:, 0], bounds[:, 0], atol=1e-6)
            assert (found[:, 1] <= bounds[:, 1] + 1e-6).all()
            crossed += page.locator(".worth .zero").count() > 0
            belief = step.belief
            page.locator("#explore-forward").click()
        assert crossed > 0
