"""What a log has not shown: Good and Turing's estimate, with intervals that cover."""

import numpy as np
import pytest
from rare_worlds import World, hole, rare_contexts, rare_start, tail
from scipy.stats import binom

import latentmdp as lm
from latentmdp.fitting.estimation.missing_mass import missing_mass


@pytest.mark.parametrize("p", [
    np.array([0.97, 0.03]), np.full(500, 0.002), np.append(np.full(40, 0.005), 0.8),
    1.0 / np.arange(1, 400) ** 1.5,
], ids=["two", "even", "tail", "power"])  # fmt: skip
@pytest.mark.parametrize("n", [20, 200, 2000])
def test_intervals_cover_whatever_the_outcomes_are(p, n):
    """At 90% of 500 logs; more than 78 failures have a chance of 1e-4. The estimate is unbiased."""
    p = p / p.sum()
    rng = np.random.default_rng(n)
    found, truth = np.empty((500, 3)), np.empty(500)
    for k, counts in enumerate(rng.multinomial(n, p, 500)):
        found[k], truth[k] = missing_mass(counts[counts > 0], 0.9), p[counts == 0].sum()
    assert (found[:, 1] <= found[:, 0]).all()
    assert (found[:, 0] <= found[:, 2]).all()
    missed = (truth < found[:, 1] - 1e-12) | (truth > found[:, 2] + 1e-12)
    assert missed.sum() <= binom.isf(1e-4, 500, 0.1)
    error = found[:, 0] - truth
    assert abs(error.mean()) <= 4 * error.std() / 500**0.5 + 1 / n


def test_where_nothing_was_seen_once_little_can_be_missing():
    """One outcome in n draws: an upper end of order 1/n, where concentration alone has n^-1/2."""
    for n in (100, 10_000):
        value, lower, upper = missing_mass(np.array([n]), 0.95)
        assert (value, lower) == (0.0, 0.0)
        assert 3.0 / n < upper < 8.0 / n
    assert missing_mass(np.ones(50, dtype=int))[2] == 1.0  # every draw showed another one
    value, lower, upper = missing_mass(np.append(np.ones(5000, dtype=int), 5000))
    assert (value, lower > 0.4, upper < 0.6) == (0.5, True, True)


@pytest.mark.parametrize(("world", "number", "told"), [
    (World("contexts", rare_contexts([0.01] * 30), 60), 0, "a context that the log"),
    (World("first states", rare_start(0.02), 40), 1, "a context and first state that the log"),
    (World("states", tail(0.1, 200), 60), 2, "a state that the log"),
])  # fmt: skip
def test_summary_evaluation_and_page_say_what_the_log_has_not_shown(world, number, told):
    fit = lm.fit(world.log(np.random.default_rng(1)))
    summary = fit.summary()
    part = summary.unshown[number]
    text = str(summary)
    assert "not in the log, nor in any interval of a value (95%, Good-Turing):" in text
    assert f"  {part.what}: {part}" in text
    assert part.what.startswith(told)
    assert f"{part.value:.2%} of {part.unit} [{part.lower:.2%}, {part.upper:.2%}]" == str(part)
    as_data = summary.to_dict()["unshown"][number]
    assert as_data["upper"] == part.upper
    assert as_data["once"] == pytest.approx(part.value * part.draws)
    worth = fit.evaluate(np.zeros((fit.model.H, fit.model.S), dtype=int), draws=10)
    shown = worth.unshown[max(number, 1)]
    assert shown.upper > 0.01
    assert f"up to {shown.upper:.2g} of {shown.unit} may show {shown.what}" in str(worth)


def test_an_evaluation_does_not_mention_what_is_negligible():
    fit = lm.fit(World("no hole", hole(0.0), 3000).log(np.random.default_rng(0)))
    worth = fit.evaluate(np.zeros((3, 1), dtype=int), draws=10)
    assert 0 < worth.unshown[1].upper < 0.01
    assert "not counted" not in str(worth)
