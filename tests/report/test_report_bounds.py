"""The bound on the optimum that pages ship, and episodes that go on from the belief."""

import numpy as np
import pytest
from report_pages import Page
from strategies import random_model, random_policy

import latentmdp as lm
from latentmdp.fitting.deciding.decision import decide
from latentmdp.report import write_report
from latentmdp.report.fit_page import write_fit_page
from latentmdp.report.replay import page_episode


def optimum_of(path):
    return Page(path.read_text(encoding="utf-8")).data["models"][0]["optimum"]


@pytest.mark.parametrize("units", ["user", "model"])
def test_the_best_plan_with_memory_bounds_the_optimum_in_model_units(tmp_path, units):
    base = lm.make("garnet:states=3,actions=2,contexts=2,horizon=3")
    raw = lm.LatentMDP.from_arrays(
        base.P, base.R * 400.0 - 30.0, base.w, base.nu, base.H, max_return=None
    )
    model = raw.normalized()
    run = lm.learn(model, "greedy", episodes=100, optimal=(0.1, 1.0))
    loose, tight = (lm.plan(model, gap=gap, work_limit=10**5) for gap in (0.5, None))
    markov = lm.plan(model, "markov")
    path = tmp_path / "r.html"
    write_report(run, path, plan=[loose, tight, markov], units=units)
    assert optimum_of(path) == pytest.approx(min(loose.upper, tight.upper), abs=1e-9)
    assert lm.evaluate(model, tight).value <= optimum_of(path) + 1e-9
    write_report(run, path, plan=markov, units=units)  # says nothing about policies with memory
    assert optimum_of(path) is None
    write_report(run, path, units=units)
    assert optimum_of(path) is None


@pytest.mark.parametrize("objective", ["mean", "quantile:0.2", "pessimistic"])
def test_the_page_of_a_fit_has_the_bound_of_the_fitted_model(tmp_path, objective):
    model = lm.make("bandit:arms=2,contexts=2,horizon=3")
    log = lm.rollout(model, np.zeros((3, model.S), dtype=int), episodes=60, seed=1)
    fit = lm.fit(log, step="step", next_state="next_state", context="context")
    decision = decide(fit, objective, draws=20, time_limit=4.0)
    path = tmp_path / "page.html"
    write_fit_page(path, fit, fit.summary(), decision)
    found = optimum_of(path)
    if objective == "pessimistic":  # planned on another model
        assert found is None
    else:
        assert lm.plan(fit.model, gap=None).lower <= found + 1e-9


@pytest.mark.parametrize("seed", range(20))
def test_episodes_go_on_at_the_best_node_for_the_belief(seed):
    """After each override; the node before it plays no part."""
    rng = np.random.default_rng(seed)
    model = random_model(rng, H=4)
    policy = random_policy(rng, model)
    alpha = lm.evaluate(model, policy).alpha
    overrides = {t: int(rng.integers(model.A)) for t in range(model.H) if rng.random() < 0.6}
    context = int(rng.choice(model.M, p=model.w))
    state, steps = page_episode(model, policy, context, seed, overrides)
    node, belief = int(policy.root[state]), lm.initial_belief(model, state)
    for t, step in enumerate(steps):
        asked = int(policy.action[node])
        assert step.state == state
        assert step.action == overrides.get(t, asked)
        belief = lm.update_belief(
            model, belief, state, step.action, step.next, symbol=step.symbol
        )  # fmt: skip
        state = step.next
        if t + 1 < model.H:
            if step.action == asked:
                node = int(policy.successors(node, step.symbol, state))
            else:
                there = np.flatnonzero((policy.step == t + 1) & (policy.state == state))
                node = int(there[np.argmax(alpha[there] @ belief)])
