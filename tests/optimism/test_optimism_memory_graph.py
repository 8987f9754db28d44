"""The depth-first solve by belief: against a recursion without bounds, and what it leaves out."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from optimism_twin import backup, graph_value, random_counts, small_model, symbol

import latentmdp as lm
from latentmdp.model.counts import Counts
from latentmdp.optimism.confidence import ESTIMATE, BonusConstants, rule_named
from latentmdp.optimism.given import Given
from latentmdp.optimism.memory.graph import MemoryGraph
from latentmdp.optimism.memory.rule import consistent, likelihoods
from latentmdp.optimism.memory.search import MemorySearch
from latentmdp.optimism.optimistic_plan import make_planner, optimistic_plan
from latentmdp.optimism.settings import SEARCH, MemoryKind

MAZE = "maze:size=4,goals=3,horizon=10"
EVERY = MemoryKind(10_000, 1e-9, every=True)
GARNET = "garnet:states=8,actions=2,contexts=3,horizon=7,shared_support=1,shared_rewards=1"


def grown(model, visits, kind=None, algorithm="mvp", scale=1.0, table=None):
    """A graph and what is solved on it, for one model and this table of default actions."""
    known, counts = Given.of(model), Counts.from_visits(visits)
    constants = BonusConstants(known.M, known.S, known.A, known.H, 1000, 0.1, scale)
    rule = ESTIMATE if algorithm == "greedy" else rule_named(algorithm)
    search = MemorySearch(known, rule, constants, counts)
    if table is not None:
        search.set_table(table)
    seen = search.model.shown()
    graph = MemoryGraph(known, seen, kind or MemoryKind(10_000, 1e-9))
    graph.start(likelihoods(known, counts, seen, np.arange(known.S * known.A)))
    return graph, graph.solve(search), search


# -------------------------------------------------------------------- the slow twin


def by_belief(model, visits, algorithm, constants, search, graph, table):
    """Value of the best policy by belief: all actions tried, nothing merged, nothing reused.

    Where going on without memory reaches what a known context would, it goes on without.
    """
    seen, rows, M, A = graph.seen, search.model, model.M, model.A

    def values(s, a, after):
        """Backups of all contexts; `after(m, x)` is the value that follows."""
        v = [[after(m, x) for x in range(model.S)] for m in range(M)]
        return np.array(
            [backup(model, visits, algorithm, constants, m, s, a, v[m]) for m in range(M)]
        )

    @cache
    def default(t, s):
        if t == model.H:
            return np.zeros(M)
        return values(s, int(table[t, s]), lambda m, x: default(t + 1, x)[m])

    @cache
    def known(t, s):
        if t == model.H:
            return np.zeros(M)
        return np.max([values(s, a, lambda m, x: known(t + 1, x)[m]) for a in range(A)], axis=0)

    def seen_next(m, s, a):
        row = (m * model.S + s) * A + a
        return rows.rows.next[rows.slots(row)]

    def best(t, s, b):
        if t == model.H:
            return np.zeros(M)
        found = None
        for a in range(A):
            q = values(s, a, lambda m, x: default(t + 1, x)[m])
            bound = values(s, a, lambda m, x: known(t + 1, x)[m])
            if b @ q < b @ bound - 1e-12:
                child = {}
                for o in range(seen.start[s * A + a], seen.start[s * A + a + 1]):
                    new = b * graph.memory.likelihood[o]
                    if new.sum() == 0:  # unexpected: keep the belief, as far as the symbol allows
                        new = b * consistent(graph.known, seen)[o]
                    if new.sum() > 0:
                        x = int(seen.next[o])
                        child[int(seen.symbol[o]), x] = best(t + 1, x, new / new.sum())

                def after(m, x, s=s, a=a, child=child):
                    if x in seen_next(m, s, a):
                        return child.get((symbol(model, m, s, a, x), x), default(t + 1, x))[m]
                    return default(t + 1, x)[m]

                q = values(s, a, after)
            if found is None or b @ q > b @ found + 1e-12:
                found = q
        return found

    total = 0.0
    for s in range(model.S):
        w = model.w * model.nu[:, s]
        if w.sum() > 0:
            total += w @ best(0, s, w / w.sum())
    return total


def without_ties(rng, model):
    """The model with slightly other rewards: actions that pay 0 alike are not equal any more.

    Which of two equal actions is taken matters to contexts that the belief excludes.
    """
    R = np.minimum(model.R + 1e-3 * rng.random(model.R.shape), 1.0 / model.H)
    return lm.LatentMDP.from_arrays(
        model.P, R, model.w, model.nu, model.H, observe_rewards=model.observe_rewards
    )


@hypothesis_settings(max_examples=250)
@given(st.integers(0, 2**32 - 1))
def test_bounds_and_merging_do_not_change_the_value(seed):
    """The solve equals the recursion without them."""
    rng = np.random.default_rng(seed)
    algorithm = str(rng.choice(["mvp", "bernstein", "greedy"]))
    S, H = (2, 3) if rng.integers(2) else (3, 2)
    M, observe = int(rng.integers(2, 4)), bool(rng.integers(2))
    model = without_ties(rng, small_model(rng, M, S, 2, H, bool(rng.integers(4) == 0), observe))
    visits = random_counts(rng, model, (5, 20, 100, 1000, 10**4, 10**5))
    scale = float(rng.choice([0.1, 0.03, 0.01]))
    table = rng.integers(0, 2, (H, S))
    graph, solved, search = grown(model, visits, None, algorithm, scale, table)
    constants = BonusConstants(M, S, 2, H, 1000, 0.1, scale)
    slow = by_belief(model, visits, algorithm, constants, search, graph, table)
    assert solved.fits
    assert solved.value == pytest.approx(slow, abs=1e-9)
    full, every, _ = grown(model, visits, EVERY, algorithm, scale, table)
    assert graph.count <= full.count
    assert solved.tried <= every.tried


# -------------------------------------------------------------------- what is left out


def test_nothing_is_expanded_behind_saturated_rows():
    """Rows with visits, at the cap whatever follows: the first nodes are enough."""
    model = lm.make(MAZE)
    visits = random_counts(np.random.default_rng(0), model, (100,))
    graph, solved, search = grown(model, visits, scale=1.0)
    assert graph.count == np.count_nonzero(model.nu.sum(axis=0))
    assert solved.value == search.upper == 1.0
    assert grown(model, visits, algorithm="greedy")[0].count > 100  # others plan through them


def test_later_models_and_plans_use_the_nodes_that_are_there():
    model = lm.make(MAZE)
    visits = random_counts(np.random.default_rng(0), model, (100,))
    graph, first, search = grown(model, visits, algorithm="greedy")
    action, used = first.action.copy(), graph.memory.used.copy()
    again = graph.solve(search)
    assert np.array_equal(graph.memory.used, used)
    assert np.array_equal(again.action[again.is_solved], action[again.is_solved])
    assert again.value == first.value


def expanded(graph):
    """The number of actions that memory nodes follow."""
    edge = graph.nodes.edge[graph.D : graph.D + graph.count]
    return np.count_nonzero(edge >= graph.expanded)


def test_what_is_not_needed_is_not_expanded():
    """Only actions whose bound is above the value found, and if going on without is not enough."""
    model = lm.make(MAZE)
    visits = random_counts(np.random.default_rng(0), model, (1000,))
    graph, solved, _ = grown(model, visits, algorithm="greedy")
    full, every, _ = grown(model, visits, EVERY, algorithm="greedy")
    assert graph.count < full.count
    assert expanded(graph) < 0.6 * expanded(full)
    assert solved.tried < 0.7 * every.tried
    assert solved.value == pytest.approx(every.value, abs=1e-9)


def test_reach_is_that_of_the_policy():
    """In the true model, without pooling anything away, reach is the probability of a node."""
    model = lm.make(MAZE)
    visits = np.rint(model.P * 2**40).astype(np.int64)
    graph, solved, _ = grown(model, visits, algorithm="greedy")
    reach = graph.reach(solved.action, solved.is_solved)
    step = graph.nodes.step[graph.D : graph.D + graph.count]
    totals = np.bincount(step, reach, minlength=model.H)
    assert totals[0] == pytest.approx(1.0)
    assert np.all(np.diff(totals) < 1e-9)  # what is not expanded is lost to default nodes
    assert totals[3] > 0.5


# -------------------------------------------------------------------- in the planner


def planner_of(model, seed=0, scale=0.02, algorithm="mvp", settings=SEARCH):
    known = Given.of(model)
    constants = BonusConstants(known.M, known.S, known.A, known.H, 1000, 0.1, scale)
    stream = np.random.default_rng(seed)
    rule = rule_named(algorithm)
    return make_planner(known, rule, constants, "history", stream, settings=settings), constants


def visited(model, counts, rng, factor):
    """More visits everywhere, in the model's own proportions; all rows have a new snapshot."""
    n = np.maximum((factor * counts.n).astype(np.int64), 5000)
    visits = rng.multinomial(n.reshape(model.M, model.S, model.A), model.P)
    counts.n_next[:] += visits.reshape(counts.rows, -1)[counts.slot_row, counts.next]
    counts.n[:] += n
    counts.snapshot_all()


@pytest.mark.parametrize("spec", [MAZE, GARNET])
@pytest.mark.parametrize("algorithm", ["mvp", "bernstein"])
def test_policies_stay_what_they_are_while_the_graph_grows(spec, algorithm, monkeypatch):
    """In another memory the policy in force has the same value, that of the graph handed out.

    Else it is given up: a node that is new to it led to one that it had.
    """
    model, rng = lm.make(spec), np.random.default_rng(3)
    merged = replace(SEARCH, kinds=SEARCH.kinds[1:])
    planner, constants = planner_of(model, algorithm=algorithm, settings=merged)
    counts, moved, stayed = Counts.for_model(model), 0, 0
    remember = planner._remember

    def checked(memory):
        nonlocal moved, stayed
        first, old = planner.searches[0], planner.memory
        before = first.evaluate(planner.policy) if old is not None else None
        remember(memory)
        if before is not None:
            moved += 1
            value = planner.searches[0].evaluate(planner.policy)
            stays = value == pytest.approx(before, abs=1e-12)
            assert (planner.result is not None) == stays
            stayed += stays

    monkeypatch.setattr(planner, "_remember", checked)
    for _ in range(10):
        visited(model, counts, rng, 0.1)
        answer = planner.replan(counts)
        slow = graph_value(model, counts.snapshot_visits(), algorithm, constants, answer.policy)
        assert answer.value == pytest.approx(slow, abs=1e-9)
        assert answer.value <= answer.upper + 1e-12
    assert moved > 0
    assert stayed > 0


def test_a_graph_begun_anew_is_searched_at_once(monkeypatch):
    """The policy in force is lost with the old graph; any argmax of the new one would be kept."""
    model, rng = lm.make(MAZE), np.random.default_rng(3)
    planner, _ = planner_of(model, scale=1.0)  # everything is worth 1
    counts, asked, nothing = Counts.for_model(model), [], np.zeros(0, dtype=np.int64)
    for _ in range(3):
        visited(model, counts, rng, 0.5)
    planner.replan(counts)
    tied = planner._tied
    monkeypatch.setattr(planner, "_tied", lambda top: asked.append(top) or tied(top))
    assert planner.replan(counts, nothing).kept
    assert not asked
    planner.visits_at_solve = 0
    monkeypatch.setattr(planner, "_outdated", lambda counts: True)
    planner.replan(counts, nothing)
    assert len(asked) == 1


@pytest.mark.parametrize("spec", [MAZE, GARNET])
def test_a_restored_planner_grows_on_to_the_same_bits(spec):
    model, rng = lm.make(spec), np.random.default_rng(6)  # it grows for both
    going, _ = planner_of(model)
    counts, nodes = Counts.for_model(model), set()
    for step in range(12):
        visited(model, counts, rng, 0.1)
        if step in (4, 8):
            resumed, _ = planner_of(model, seed=99)
            resumed.restore(going.state(), counts)
        answer = going.replan(counts)
        nodes.add(going.graph.count)
        if step >= 4:
            other = resumed.replan(counts)
            assert (other.value, other.upper, other.nodes) == (
                answer.value,
                answer.upper,
                answer.nodes,
            )
            assert other.policy == answer.policy
            for one, two in zip(resumed.graph.nodes, going.graph.nodes, strict=True):
                assert np.array_equal(one, two)
    assert going.kind > 0
    assert len(nodes) > 2


def test_a_graph_without_room_is_cut_and_certified():
    """Coarser kinds are tried in turn; with none left, what does not fit goes on without memory."""
    model = lm.make(GARNET)
    visits = random_counts(np.random.default_rng(1), model, (300,))
    few = (
        MemoryKind(50, 0.0, every=True),
        MemoryKind(60, 1e-9),
        MemoryKind(70, 0.1),
        MemoryKind(80, 0.3),
    )
    settings = replace(SEARCH, kinds=few)
    plan = optimistic_plan(
        model, visits, "mvp", "history", 1000, 0.1, 0.02, settings=settings
    )  # fmt: skip
    assert plan.planner.kind == 3
    assert plan.planner.graph.count <= 80
    constants = BonusConstants(model.M, model.S, model.A, model.H, 1000, 0.1, 0.02)
    assert plan.lower == pytest.approx(graph_value(model, visits, "mvp", constants, plan.policy))
    assert plan.lower <= plan.upper


def test_room_shrinks_with_contexts_and_holds_all_first_states():
    """Many contexts must not take all memory, and many first states must fit whatever the kind."""
    model = lm.make("garnet:states=7,contexts=3,horizon=3,seed=1")
    model = model.replace(nu=np.full((3, 7), 1 / 7))
    visits = random_counts(np.random.default_rng(1), model, (300,))
    plans = [
        optimistic_plan(
            model, visits, "mvp", "history", 1000, 0.1, 0.02,
            settings=replace(SEARCH, memory_pairs=pairs),
        )
        for pairs in (3 * 12, 3)
    ]  # fmt: skip
    assert plans[0].planner.graph.room == 12
    plan = plans[1]
    assert plan.planner.graph.room == plan.planner.graph.count == 7
    assert plan.lower <= plan.upper


def test_too_many_likely_nodes_leave_out_the_least_likely():
    model = lm.make(MAZE)
    visits = random_counts(np.random.default_rng(1), model, (300,))
    many = optimistic_plan(model, visits, "mvp", "history", 1000, 0.1, 0.001)
    settings = replace(SEARCH, planned_nodes=40)
    few = optimistic_plan(model, visits, "mvp", "history", 1000, 0.1, 0.001, settings=settings)
    assert len(few.planner.memory.state) <= 40 < len(many.planner.memory.state)
    assert few.lower <= few.upper
