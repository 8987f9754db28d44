"""Certified lower values where rewards are estimated from the log too."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import latentmdp as lm
from latentmdp.fitting.reward_bounds import least_means, reward_bounds
from latentmdp.optimism.pessimistic import RewardBounds
from logs import everything, roll
from strategies import random_model
from test_pessimistic import worst

SMALL = "garnet:states=2,actions=2,contexts=2,horizon=2,seed=0"


def twin_least(log, m, s, a, x, low, high, cells, delta):
    """The lower bound of one mean reward, from the rows of the log."""
    seen = log[(log.context == m) & (log.state == s) & (log.action == a) & (log.next_state == x)]
    paid, n = seen["reward"].tolist(), len(seen)
    if n == 0:
        return low
    error = delta / cells / (2 * n * (n + 1))
    radius = (high - low) * math.sqrt(math.log(1 / error) / (2 * n))
    if n > 1:
        variance = sum((r - sum(paid) / n) ** 2 for r in paid) / (n - 1)
        log_term = math.log(2 / error)
        radius = min(radius, math.sqrt(2 * variance * log_term / n)
                     + 7 * (high - low) * log_term / (3 * (n - 1)))  # fmt: skip
    return max(sum(paid) / n - radius, low)


def twin_value(model, visits, starts, least, unknown, policy, delta, symbols):
    """The worst-case value, node by node; where `unknown`, whatever may be seen is the worst."""
    M, S, A, H = model.M, model.S, model.A, model.H
    boxes = M * S * (A * S + 1)
    anything = range(int(policy.symbol.max(initial=0)) + 2)  # the last one has no successor listed

    def alpha(m, node):
        s, a = int(policy.state[node]), int(policy.action[node])
        after = []
        for x in range(S):
            v = 0.0
            if policy.step[node] + 1 < H:
                shown = anything if unknown[m, s, a, x] else [symbols[m, s, a, x]]
                v = min(alpha(m, int(policy.successors(node, y, x))) for y in shown)
            after.append(v + least[m, s, a, x])
        return worst(after, visits[m, s, a].tolist(), boxes, delta, 1.0)

    values = [alpha(m, int(policy.root[s])) for m in range(M) for s in range(S)]
    return worst(values, starts.ravel().tolist(), boxes, delta, 1.0)


def counted(model, log):
    visits = np.zeros((model.M, model.S, model.A, model.S), dtype=int)
    np.add.at(visits, tuple(log[c] for c in ("context", "state", "action", "next_state")), 1)
    first = log[log["step"] == 0]
    starts = np.zeros((model.M, model.S), dtype=int)
    np.add.at(starts, (first["context"], first["state"]), 1)
    return visits, starts


@pytest.mark.parametrize("policy_class", ["markov", "history"])
@pytest.mark.parametrize("noise", [0.0, 0.2])
@settings(max_examples=6)
@given(seed=st.integers(0, 10**6))
def test_certified_values_are_those_of_the_definition(policy_class, noise, seed):
    """Few episodes, so that rows and outcomes are missing; repeated, so that boxes are not all."""
    rng = np.random.default_rng(seed)
    model = random_model(rng, negative=True, discounted=False)
    log = roll(model, 12, rng)
    log = pd.concat([log.assign(episode=log["episode"] + 12 * i) for i in range(40)])
    log["reward"] += noise * rng.standard_normal(len(log))
    found = lm.fit(log, known=everything(model), horizon=model.H)
    plan = found.plan("pessimistic", policy_class, delta=0.2, draws=2)
    visits, starts = counted(model, log)
    noisy = bool(found.log.noisy.any())
    low, high = min(log["reward"].min(), 0.0), max(log["reward"].max(), 0.0)
    S, cells = model.S, visits.size
    least, unknown = np.full(visits.shape, low), visits == 0
    by_row = found.log.rewards_of_rows
    for m, s, a, x in np.ndindex(visits.shape):
        if noisy:
            least[m, s, a, x] = twin_least(log, m, s, a, x, low, high, cells, 0.1)
            continue
        here = log[(log.context == m) & (log.state == s) & (log.action == a)]
        here = here if by_row else here[here.next_state == x]
        if len(here):
            least[m, s, a, x], unknown[m, s, a, x] = here["reward"].iloc[0], False
    if not found.model.observe_rewards:
        unknown[:] = False
    symbols = np.zeros(visits.shape, dtype=int)
    if found.model.observe_rewards:
        for m, s, a, x in np.argwhere(~unknown):
            symbols[m, s, a, x] = found.model.symbol_of(s, a, x, least[m, s, a, x])
            if symbols[m, s, a, x] < 0:  # a next state that this row has not shown
                symbols[m, s, a, x] = found.model.symbol[
                    found.model.indptr[(m * S + s) * model.A + a]]  # fmt: skip
    delta = 0.1 if noisy else 0.2
    twin = twin_value(model, visits, starts, least, unknown, plan.policy, delta, symbols)
    assert plan.score == pytest.approx(twin, abs=1e-9)


@pytest.mark.parametrize("spread", ["coin", "narrow", "even"])
def test_bounds_of_means_hold_at_every_number_of_visits(spread):
    """2,000 sequences, error 0.2: expected failures are far below 400, and 0.2 is the promise."""
    rng = np.random.default_rng(0)
    shape = (2000, 64)
    x = {"coin": rng.integers(0, 2, shape) * 1.0, "narrow": rng.uniform(0.4, 0.5, shape),
         "even": rng.random(shape)}[spread]  # fmt: skip
    truth = {"coin": 0.5, "narrow": 0.45, "even": 0.5}[spread]
    failed = np.zeros(len(x), dtype=bool)
    for n in range(1, 65):
        part = x[:, :n]
        mean = part.mean(axis=1)
        squares = ((part - mean[:, None]) ** 2).sum(axis=1)
        failed |= least_means(np.full(len(x), n), mean, squares, 0.0, 1.0, 0.2) > truth
    assert failed.sum() <= 400
    many = least_means(np.array([10**6]), np.array([0.5]), np.array([10.0**4]), 0.0, 1.0, 0.2)
    assert 0.498 < many[0] < 0.5


def noisy_log(model, episodes, seed):
    """Rewards of 0 or 1 whose chance is the model's reward."""
    rng = np.random.default_rng(seed)
    log = roll(model, episodes, rng)
    log["reward"] = (rng.random(len(log)) < log["reward"]) * 1.0
    return log


def test_noisy_rewards_lower_the_bound_and_known_ones_do_not():
    model = lm.make(SMALL).replace(observe_rewards=False)
    log = roll(model, 3000, np.random.default_rng(1))
    noisy = log.assign(reward=noisy_log(model, 3000, 1)["reward"])
    options = {"known": everything(model), "observe_rewards": False}
    exact = lm.fit(log, **options)
    bounds = {}
    for name, found in (("exact", exact), ("noisy", lm.fit(noisy, **options)),
                        ("known", lm.fit(noisy, **options | {"known": everything(model) | {
                            "R": model.R}}))):  # fmt: skip
        bounds[name] = found.plan("pessimistic", "markov", draws=2).score
    assert bounds["noisy"] < bounds["exact"] == pytest.approx(bounds["known"], abs=1e-9)


def test_a_wider_range_of_rewards_certifies_less():
    model = lm.make(SMALL)
    found = lm.fit(noisy_log(model, 400, 3), known=everything(model))
    scores = [found.plan("pessimistic", "markov", draws=2, reward_range=r).score
              for r in (None, (0.0, 1.0), (-1.0, 2.0))]  # fmt: skip
    assert scores[0] == scores[1] > scores[2]
    for wrong in ((0.5, 1.0), (0.0,), (0.0, math.inf)):
        with pytest.raises(lm.ModelError, match="reward_range"):
            found.plan("pessimistic", "markov", draws=2, reward_range=wrong)


def test_rewards_that_were_never_paid_are_the_least_of_the_range():
    model = lm.make("garnet:states=3,actions=2,contexts=2,horizon=3,seed=1")
    found = lm.fit(roll(model, 8, np.random.default_rng(0)), known=everything(model))
    least, unknown = reward_bounds(found, 0.1, (-2.0, 1.0))
    never = (found.log.row_sums.count == 0).reshape(model.M, model.S, model.A)
    assert never.any()
    assert (least[never] == -2.0).all()
    assert unknown[never].all()
    assert not unknown[~never].any()
    assert np.array_equal(least[~never][:, 0], model.R[~never])


def test_rewards_of_another_shape_are_refused():
    model = lm.make(SMALL)
    wrong = RewardBounds(np.zeros((2, 3)), np.zeros((2, 3), dtype=bool))
    with pytest.raises(lm.ModelError, match=r"rewards.least must have the shape"):
        lm.pessimistic_plan(model, np.zeros(model.P.shape, dtype=int), rewards=wrong)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [False, True])
def test_certified_values_hold_in_many_logs(noise):
    """The claim: at delta 0.2 at least 80% of 200 logs; below 143 has a chance of 0.002."""
    model = lm.make(SMALL)
    held = 0
    for seed in range(200):
        log = noisy_log(model, 300, seed) if noise else roll(model, 60, np.random.default_rng(seed))
        found = lm.fit(log, known=everything(model))
        plan = found.plan("pessimistic", "markov", delta=0.2, draws=2)
        held += plan.score <= lm.evaluate(model, plan.policy).value + 1e-9
    assert held >= 143
