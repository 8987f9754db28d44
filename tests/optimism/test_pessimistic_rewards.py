"""Certified lower values where rewards are estimated from the log too."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import everything, roll
from strategies import random_model
from test_pessimistic import unseen_share, worst

import latentmdp as lm
from latentmdp.fitting.deciding.reward_bounds import least_means, reward_bounds
from latentmdp.optimism.pessimistic import RewardBounds

SMALL = "garnet:states=2,actions=2,contexts=2,horizon=2,seed=0"


def twin_mean(paid, low, high, error):
    """The lower bound of the mean of numbers that were seen; each of two fails with half of it."""
    n = len(paid)
    error /= 2 * n * (n + 1)
    radius = (high - low) * math.sqrt(math.log(1 / error) / (2 * n))
    if n > 1:
        variance = sum((r - sum(paid) / n) ** 2 for r in paid) / (n - 1)
        log = math.log(2 / error)
        radius = min(radius, math.sqrt(2 * variance * log / n)
                     + 7 * (high - low) * log / (3 * (n - 1)))  # fmt: skip
    return max(sum(paid) / n - radius, low)


def twin_same(paid, low, error):
    """The lower bound of a mean where all `n` numbers were the same."""
    n = len(paid)
    missing = unseen_share([n], math.log(n * (n + 1) / error))
    return paid[0] - missing * (paid[0] - low)


def twin_rewards(log, shape, low, high, delta, noisy):
    """`(least by next state, what anything else pays)` for every row."""
    M, S, A = shape
    rows = log.groupby(["context", "state", "action"])["reward"].apply(list)
    cells = log.groupby(["context", "state", "action", "next_state"])["reward"].apply(list)
    row_error = delta / (len(rows) * (len(rows) + 1))
    cell_error = delta / 2 / (len(cells) * (len(cells) + 1))
    least, other = np.full((M, S, A, S), low), np.full((M, S, A), low)
    for (m, s, a), paid in rows.items():
        of_next = {x: c for (k, t, b, x), c in cells.items() if (k, t, b) == (m, s, a)}
        if noisy:
            by_cell = {x: twin_mean(c, low, high, cell_error) for x, c in of_next.items()}
            whole = twin_mean(paid, low, high, row_error / 2)
            apart = sum(by_cell[x] * len(c) for x, c in of_next.items()) > whole * len(paid)
        else:
            by_cell = {x: c[0] for x, c in of_next.items()}
            apart = max(paid) - min(paid) > 1e-9
            whole = None if apart else twin_same(paid, low, row_error)
        if not apart:
            other[m, s, a] = whole
            least[m, s, a] = whole
            continue
        for x, value in by_cell.items():
            least[m, s, a, x] = value
    return least, other


def twin_value(model, visits, starts, least, other, low, policy, delta, symbols):
    """The worst-case value, node by node."""
    M, S, H = model.M, model.S, model.H
    rows = int((visits.sum(axis=3) > 0).sum())
    error = delta / 2 / (rows * (rows + 1))

    def alpha(m, node):
        s, a, t = (int(x[node]) for x in (policy.state, policy.action, policy.step))
        after = [0.0] * S
        for x in range(S):
            if t + 1 < H:
                after[x] = alpha(m, int(policy.successors(node, symbols[m, s, a, x], x)))
            after[x] += least[m, s, a, x]
        rest = other[m, s, a] + (H - 1 - t) * low
        return worst(after, rest, visits[m, s, a].tolist(), error)

    values = [alpha(m, int(policy.root[s])) for m in range(M) for s in range(S)]
    return worst(values, H * low, starts.ravel().tolist(), delta / 2)


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
    low, high = min(log["reward"].min(), 0.0), max(log["reward"].max(), 0.0)
    plan = found.plan("pessimistic", policy_class, delta=0.2, draws=2, reward_range=(low, high))
    visits, starts = counted(model, log)
    noisy = bool(found.log.noisy.any())
    least, other = twin_rewards(log, model.sizes, low, high, 0.05, noisy)
    symbols = np.zeros(visits.shape, dtype=int)
    if found.model.observe_rewards:
        for m, s, a, x in np.argwhere(visits > 0):
            here = log[(log.context == m) & (log.state == s) & (log.action == a)]
            paid = here[here.next_state == x]["reward"].iloc[0]
            symbols[m, s, a, x] = found.model.symbol_of(s, a, x, paid)
    twin = twin_value(model, visits, starts, least, other, low, plan.policy, 0.05, symbols)
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
    fixed = lm.fit(log, **options, rewards="fixed")
    for name, found in (("exact", exact), ("noisy", lm.fit(noisy, **options)), ("fixed", fixed),
                        ("known", lm.fit(noisy, **options | {"known": everything(model) | {
                            "R": model.R}}))):  # fmt: skip
        bounds[name] = found.plan("pessimistic", "markov", draws=2, reward_range=(0, 1)).score
    assert bounds["noisy"] < bounds["exact"] < bounds["fixed"]
    assert bounds["fixed"] == pytest.approx(bounds["known"], abs=1e-9)


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
    """Those that were paid n times, always the same, are known but for a share of order 1/n."""
    model = lm.make("garnet:states=3,actions=2,contexts=2,horizon=3,seed=1")
    log = roll(model, 8, np.random.default_rng(0))
    for rewards in ("noisy", "fixed"):
        found = lm.fit(log, known=everything(model), rewards=rewards)
        bounds = reward_bounds(found, 0.1, (-2.0, 1.0))
        count = found.log.row_sums.count.reshape(model.M, model.S, model.A)
        never = count == 0
        assert never.any()
        assert (bounds.rewards.other[never] == -2.0).all()
        assert bounds.lowest == -2.0
        for paid in (bounds.rewards.other[~never], bounds.rewards.least[~never][:, 0]):
            if rewards == "fixed":
                assert np.array_equal(paid, model.R[~never])
            else:
                assert (paid < model.R[~never]).all()
                assert (paid >= -2.0).all()


def test_rewards_of_another_shape_are_refused():
    model = lm.make(SMALL)
    wrong = RewardBounds(np.zeros((2, 3)), np.zeros((2, 3)))
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
        plan = found.plan("pessimistic", "markov", delta=0.2, draws=2, reward_range=(0, 1))
        held += plan.score <= lm.evaluate(model, plan.policy).value + 1e-9
    assert held >= 143
