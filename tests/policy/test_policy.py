"""Policy graphs: building, running, pruning, merging, drawing."""

import brute
import numpy as np
import pytest
from hypothesis import example, given
from strategies import models, models_and_policies, random_model, seeds

import latentmdp as lm
from latentmdp import PolicyGraph


def histories(model, policy):
    """Every possible history with the action the graph plays there."""
    played = {}
    choose = brute.follow(model, policy)

    def record(history):
        played[history] = choose(history)
        return played[history]

    brute.returns(model, record)
    return played


def test_a_table_is_a_graph_without_successors():
    table = np.array([[0, 1, 0], [1, 1, 2]])
    policy = PolicyGraph.from_table(table)
    assert policy.is_markov
    assert (policy.N, policy.H, policy.S) == (6, 2, 3)
    np.testing.assert_array_equal(policy.table, table)
    assert "Markov" in repr(policy)


@given(models_and_policies())
def test_cursor_follows_the_definition(pair):
    model, policy = pair
    d = brute.Dense(model)
    for history, action in histories(model, policy).items():
        cursor = policy.cursor(history[0])
        for i in range(0, len(history) - 3, 3):
            s, a, seen, nxt = history[i : i + 4]
            cursor.observe(nxt, symbol=d.symbol(s, a, seen, nxt))
        assert cursor.action == action


@given(models_and_policies())
def test_successors_of_arrays_equal_the_cursor(pair):
    model, policy = pair
    nodes = np.flatnonzero(policy.step < policy.H - 1)
    if len(nodes) == 0:
        return
    rng = np.random.default_rng(0)
    nodes = rng.choice(nodes, 50)
    symbols = rng.integers(0, model.symbol.max() + 3, 50)
    nexts = rng.integers(0, model.S, 50)
    found = policy.successors(nodes, symbols, nexts)
    for n, y, s, k in zip(nodes, symbols, nexts, found, strict=True):
        cursor = lm.Cursor(policy, int(n))
        cursor.observe(int(s), symbol=int(y))
        assert cursor.node == k


@given(models_and_policies())
def test_pruning_and_merging_keep_behaviour_and_never_grow(pair):
    model, policy = pair
    expected = histories(model, policy)
    for smaller in (policy.prune(), policy.prune(model), policy.merge(), policy.merge().merge()):
        assert smaller.N <= policy.N
        assert len(smaller.node) <= len(policy.node)
        assert histories(model, smaller) == expected
    assert policy.merge().merge() == policy.merge()


@given(models_and_policies())
def test_merging_and_plain_pruning_keep_behaviour_on_impossible_observations_too(pair):
    model, policy = pair
    rng = np.random.default_rng(1)
    for other in (policy.prune(), policy.merge()):
        for _ in range(20):
            s = int(rng.integers(model.S))
            a, b = policy.cursor(s), other.cursor(s)
            for _ in range(model.H):
                assert a.action == b.action
                y, s = int(rng.integers(model.symbol.max() + 2)), int(rng.integers(model.S))
                a.observe(s, symbol=y)
                b.observe(s, symbol=y)


def test_merging_finds_equal_subtrees():
    model = lm.make("garnet:states=3,actions=2,contexts=2,branching=2,horizon=4,seed=0")
    tree = PolicyGraph.from_tree(model, lambda history: history[-1] % 2)
    merged = tree.merge()
    assert merged.is_markov
    assert merged.N == model.H * model.S
    assert merged.N < tree.N


@given(models())
def test_from_tree_plays_the_function(model):
    d = brute.Dense(model)

    def rule(history):
        return sum(history) % model.A

    policy = PolicyGraph.from_tree(model, rule)
    for history, action in histories(model, policy).items():
        plain = [history[0]]
        for i in range(0, len(history) - 3, 3):
            s, a, seen, nxt = history[i : i + 4]
            plain += [a, d.symbol(s, a, seen, nxt), nxt]
        assert action == rule(tuple(plain))


@given(models())
@example(random_model(np.random.default_rng(2370)))  # a context of belief 3e-18 turns out to be it
def test_from_belief_plays_the_function_of_the_belief(model):
    def rule(step, state, belief):
        return int(np.argmax(belief)) % model.A

    policy = PolicyGraph.from_belief(model, rule)
    d = brute.Dense(model)
    for history, action in histories(model, policy).items():
        b = [d.w[m] * d.nu[m][history[0]] for m in range(d.M)]
        for i in range(0, len(history) - 3, 3):
            s, a, seen, nxt = history[i : i + 4]
            for m in range(d.M):
                b[m] *= sum(p for p, _, y, to in d.outcomes(m, s, a) if (y, to) == (seen, nxt))
        b = np.array(b) / sum(b)
        if np.sort(b)[-1] - np.sort(b)[-2:][0] > 1e-9 or model.M == 1:  # no tie
            assert action == rule(0, 0, b)


def test_from_belief_merges_what_is_equal():
    model = lm.make("maze:size=3,goals=2,horizon=8,seed=0")
    policy = PolicyGraph.from_belief(model, lambda step, state, belief: (step + state) % model.A)
    beliefs = 3  # both goals possible, or one of them ruled out
    assert model.H * model.S * (1 + beliefs) >= policy.N


def test_unexpected_observations_go_to_the_default_node():
    model = lm.make("maze:size=3,goals=2,horizon=5,seed=0")
    policy = PolicyGraph.from_tree(model, lambda history: len(history) % 4)
    cursor = policy.cursor(0)
    cursor.observe(2, symbol=99)
    assert cursor.node == policy.default[1, 2]
    with pytest.raises(lm.ModelError, match="next state must be a whole number from 0 to"):
        cursor.observe(model.S)
    with pytest.raises(lm.ModelError, match="first state must be from 0 to"):
        policy.cursor(-1)


def test_choices_out_of_range_are_refused():
    model = lm.make("maze:size=3,goals=2,horizon=3,seed=0")
    with pytest.raises(lm.ModelError, match="chosen action must be from 0 to 3; at step 0"):
        PolicyGraph.from_tree(model, lambda history: 9)


GOOD = dict(
    step=[0, 1], state=[0, 0], action=[0, 1], indptr=[0, 1, 1], symbol=[0], next=[0], node=[1],
    root=[0], default=[[0], [1]],
)  # fmt: skip
REFUSALS = {
    "default shape": (dict(default=[0, 1]), r"default must have the shape \(H, S\)"),
    "lengths": (dict(action=[0]), r"action must have the shape \(2,\)"),
    "indptr": (dict(indptr=[0, 2, 1]), "indptr must rise from 0 to 1"),
    "node range": (dict(node=[5]), r"node\[0\] must be at least 0 and at most 1; it is 5"),
    "root": (dict(root=[1]), r"root \[0\] must lead to a node of its own step"),
    "default": (dict(default=[[1], [0]]), "default .* must lead to a node of its own step"),
    "cycle": (dict(node=[0]), "successor .* must lead to a node of its own step"),
    "negative action": (dict(action=[0, -1]), r"action\[1\] must be at least 0"),
    "float": (dict(action=[0.5, 1.0]), "action must hold whole numbers"),
    "twice": (
        dict(indptr=[0, 2, 2], symbol=[0, 0], next=[0, 0], node=[1, 1]),
        "node 0 must have one successor per",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_bad_graphs_are_refused(case):
    changes, message = REFUSALS[case]
    PolicyGraph.from_arrays(**GOOD)
    with pytest.raises(lm.ModelError, match=message):
        PolicyGraph.from_arrays(**(GOOD | changes))


@given(models_and_policies(), seeds)
def test_nodes_in_any_order_give_an_equal_graph_up_to_order(pair, seed):
    model, policy = pair
    order = np.random.default_rng(seed).permutation(policy.N)
    back = np.argsort(order)
    pieces = [np.arange(policy.indptr[n], policy.indptr[n + 1]) for n in order]
    e = np.concatenate(pieces).astype(np.int64)
    shuffled = PolicyGraph.from_arrays(
        policy.step[order], policy.state[order], policy.action[order],
        np.concatenate([[0], np.cumsum([len(x) for x in pieces])]),
        policy.symbol[e], policy.next[e], back[policy.node[e]], back[policy.root],
        back[policy.default],
    )  # fmt: skip
    assert histories(model, shuffled) == histories(model, policy)


def test_dot_escapes_names_and_stops_at_max_nodes():
    model = lm.make("maze:size=3,goals=2,horizon=4,seed=0")
    names = [f'"{i}\\' for i in range(model.S)]
    policy = PolicyGraph.from_tree(model, lambda history: len(history) % 4)
    dot = policy.to_dot(model.replace(state_names=names), max_nodes=10)
    assert dot.startswith("digraph policy {")
    assert dot.count("[label=") - dot.count("->") == 10
    start = int(np.argmax(model.nu[0]))
    assert f'[label="0: \\"{start}\\\\ / right"];' in dot


def test_dot_of_a_markov_policy_shows_what_the_model_can_show():
    model = lm.make("maze:size=3,goals=2,horizon=4,seed=0")
    policy = PolicyGraph.from_table(np.zeros((4, model.S), dtype=int))
    assert "->" not in policy.to_dot(), "no successors of its own"
    reached = int((lm.reach_weights(model, policy).sum(axis=1) > 0).sum())
    dot = policy.to_dot(model)
    assert dot.count("[label=") - dot.count("->") == reached
