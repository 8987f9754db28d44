"""Both sides of every size at which optimistic planning goes another way.

Whatever is searched, `lower` is the value of the policy that is handed out, by the slow twin, and
no policy is worth more than `upper`. (`few_states`: test_optimism_certificate.py; room for nodes
and pairs: test_optimism_memory_graph.py.)
"""

from dataclasses import replace

import numpy as np
import pytest
from optimism_exact import exact_history
from optimism_twin import graph_value, random_counts, setting_of, small_model

import latentmdp as lm
from latentmdp.model.counts import Counts
from latentmdp.optimism import reference
from latentmdp.optimism.confidence import rule_named
from latentmdp.optimism.given import Given
from latentmdp.optimism.model import ConfidenceModel
from latentmdp.optimism.optimistic_plan import optimistic_plan
from latentmdp.optimism.settings import SEARCH

# states, actions, and steps on both sides of 400, 1000, 6000 and 20,000 (with two contexts)
STEPS = ((5, 2, 20, 21), (5, 5, 20, 21), (10, 10, 30, 31), (10, 10, 100, 101))


@pytest.mark.parametrize(("S", "A", "below", "above"), STEPS)
@pytest.mark.parametrize("algorithm", ["mvp", "bernstein"])
def test_both_sides_of_every_step_of_effort(algorithm, S, A, below, above):
    assert SEARCH.effort(below * S, A, 2) != SEARCH.effort(above * S, A, 2)
    for H in (below, above):
        rng = np.random.default_rng([S, H])
        model = small_model(rng, 2, S, A, H)
        visits = random_counts(rng, model, (100, 1000, 10**4))
        setting = setting_of(model, 0.01)
        values = []
        for policy_class in ("markov", "history"):
            plan = optimistic_plan(model, visits, algorithm, policy_class, 1000, bonus_scale=0.01)
            twin = graph_value(model, visits, algorithm, setting, plan.policy)
            assert plan.lower == pytest.approx(twin, abs=1e-9)
            values.append(plan.lower)
        assert max(values) <= plan.upper + 1e-9
        for _ in range(2):
            other = lm.PolicyGraph.from_table(rng.integers(0, A, (H, S)))
            assert graph_value(model, visits, algorithm, setting, other) <= plan.upper + 1e-9


@pytest.mark.parametrize("algorithm", ["mvp", "bernstein"])
@pytest.mark.parametrize("kind", range(len(SEARCH.kinds)))
def test_every_kind_of_memory_is_certified(kind, algorithm):
    """As if the finer kinds did not fit; and with so little room that this one does not either."""
    rng = np.random.default_rng(kind)
    for nodes in (SEARCH.kinds[kind].nodes, 6):
        search = replace(SEARCH, kinds=(SEARCH.kinds[kind]._replace(nodes=nodes),))
        for _ in range(8):
            model = small_model(
                rng, int(rng.integers(2, 4)), 3, 2, 3, observe=bool(rng.integers(2))
            )
            visits = random_counts(rng, model, (20, 100, 1000, 10**4, 0))
            scale = float(rng.choice([0.3, 0.03, 0.01]))
            plan = optimistic_plan(
                model, visits, algorithm, "history", 1000, bonus_scale=scale, settings=search
            )
            setting = setting_of(model, scale)
            twin = graph_value(model, visits, algorithm, setting, plan.policy)
            assert plan.lower == pytest.approx(twin, abs=1e-9)
            rows = ConfidenceModel.of(
                Given.of(model), Counts.from_visits(visits), rule_named(algorithm), setting
            )
            best = exact_history(rows)
            assert plan.lower - 1e-9 <= best <= plan.upper + 1e-9


@pytest.mark.parametrize("chunk", [1, 50, 10**9])
def test_pieces_of_any_size_give_the_same_value(chunk, monkeypatch):
    monkeypatch.setattr(reference, "CHUNK", chunk)
    rng = np.random.default_rng(2)
    model = small_model(rng, 3, 8, 2, 4)
    visits = random_counts(rng, model, (20, 100, 1000))
    plan = optimistic_plan(model, visits, "bernstein", "history", 1000, bonus_scale=0.03)
    twin = graph_value(model, visits, "bernstein", setting_of(model, 0.03), plan.policy)
    assert plan.lower == pytest.approx(twin, abs=1e-9)
