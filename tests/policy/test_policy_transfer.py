"""Policies in other models by the names of states and actions."""

import math

import numpy as np
import pandas as pd
import pytest
from logs import roll
from strategies import random_model

import latentmdp as lm
from latentmdp.commands.cli import run
from latentmdp.errors import TransferWarning
from latentmdp.policy.numbering import symbols_of


def named(model, states="s", actions="a"):
    return model.replace(
        state_names=tuple(f"{states}{i}" for i in range(model.S)),
        action_names=tuple(f"{actions}{i}" for i in range(model.A)), context_names=None,
    )  # fmt: skip


def turned(model, rng):
    """The same model with states, actions and contexts in another order."""
    s, a, m = (rng.permutation(n) for n in (model.S, model.A, model.M))
    R = model.R if model.R.ndim == 3 else model.R[:, :, :, s]
    return lm.LatentMDP.from_arrays(
        model.P[:, :, :, s][m][:, s][:, :, a], R[m][:, s][:, :, a], model.w[m], model.nu[m][:, s],
        model.H, max_return=None, state_names=tuple(np.array(model.state_names)[s].tolist()),
        action_names=tuple(np.array(model.action_names)[a].tolist()),
    )  # fmt: skip


def larger(model, leak, rng):
    """The model with one more state, in the first place, into which each step may lead."""
    M, S, A = model.M, model.S, model.A
    P, R, nu = np.zeros((M, S + 1, A, S + 1)), np.zeros((M, S + 1, A)), np.zeros((M, S + 1))
    P[:, 1:, :, 1:], P[:, 1:, :, 0] = model.P * (1.0 - leak), leak
    P[:, 0] = rng.dirichlet(np.ones(S + 1), size=(M, A))
    R[:, 1:], R[:, 0] = model.R, rng.random((M, A)) / 4
    nu[:, 1:] = model.nu
    return lm.LatentMDP.from_arrays(
        P, R, model.w, nu, model.H, max_return=None, state_names=("new", *model.state_names),
        action_names=model.action_names,
    )  # fmt: skip


def walked(policy, own, model, action_elsewhere=0):
    """The value in `model` of a policy of `own`, all paths, by names and rewards."""
    states = {name: i for i, name in enumerate(own.state_names)}
    actions = {name: i for i, name in enumerate(model.action_names)}

    def follow(m, node, s, t):
        a, node_ok = action_elsewhere, node is not None
        if node_ok:
            a = actions.get(own.action_names[policy.action[node]], -1)
            if a < 0 or (model.allowed is not None and not model.allowed[s, a]):
                a, node_ok = action_elsewhere, False
                if model.allowed is not None:
                    a = int(model.allowed[s].argmax())
        row, total = (m * model.S + s) * model.A + a, 0.0
        for i in range(model.indptr[row], model.indptr[row + 1]):
            x, r, later = int(model.next[i]), float(model.reward[i]), 0.0
            if t + 1 < model.H:
                there, after = states.get(model.state_names[x]), None
                if there is not None:
                    after = int(policy.default[t + 1, there])
                    if node_ok:
                        at = int(policy.state[node]), int(policy.action[node])
                        symbol = own.symbol_of(*at, there, r)
                        if symbol >= 0:
                            after = int(policy.successors(node, symbol, there))
                later = follow(m, after, x, t + 1)
            total += model.prob[i] * (r + later)
        return total

    value = 0.0
    for m in range(model.M):
        for s in np.flatnonzero(model.nu[m]):
            first = states.get(model.state_names[s])
            node = None if first is None else int(policy.root[first])
            value += model.w[m] * model.nu[m, s] * follow(m, node, int(s), 0)
    return value


@pytest.mark.parametrize("seed", range(8))
def test_the_order_of_names_does_not_matter(seed):
    """`evaluate` took the numbers of one model for those of the other."""
    rng = np.random.default_rng(seed)
    spec = f"garnet:contexts=3,states=3,actions=3,horizon=4,seed={seed}"
    model = named(lm.make(spec))
    plan = lm.plan(model, gap=0.001)
    other = turned(model, rng)
    found = lm.transfer(plan, other)
    assert len(plan.policy.node) > 0
    assert found.filled == ()
    assert found.steps == 0.0
    assert lm.evaluate(other, found).value == pytest.approx(plan.lower, rel=1e-12)
    assert lm.evaluate(other, plan).value == pytest.approx(plan.lower, rel=1e-12)
    back = lm.transfer(found, model)
    assert lm.evaluate(model, back).value == pytest.approx(plan.lower, rel=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_a_larger_model_with_states_that_the_policy_does_not_know(seed):
    rng = np.random.default_rng(seed)
    model = named(lm.make(f"garnet:contexts=2,states=3,actions=2,horizon=4,seed={seed}"))
    plan = lm.plan(model, gap=0.001)
    same = lm.transfer(plan, larger(model, 0.0, rng))
    assert "'new'): it plays the first available action there (0 steps" in str(same)
    assert lm.evaluate(larger(model, 0.0, rng), same).value == pytest.approx(plan.lower)
    other = larger(model, 0.2, rng)
    found = lm.transfer(plan, other)
    assert found.steps > 0.1
    assert lm.evaluate(other, found).value == pytest.approx(walked(plan.policy, model, other))
    with pytest.warns(TransferWarning, match="1 state unknown to the policy"):
        assert lm.evaluate(other, plan).value == lm.evaluate(other, found).value


@pytest.mark.parametrize("seed", range(6))
def test_unavailable_actions_and_smaller_models(seed):
    model = named(lm.make(f"garnet:contexts=2,states=4,actions=3,horizon=4,seed={seed}"))
    plan = lm.plan(model, gap=0.001)
    rng = np.random.default_rng(seed)
    allowed = rng.random((model.S, model.A)) < 0.6
    allowed[np.arange(model.S), rng.integers(0, model.A, model.S)] = True
    masked = model.replace(allowed=allowed)
    found = lm.transfer(plan, masked)
    assert lm.evaluate(masked, found).value == pytest.approx(walked(plan.policy, model, masked))
    unavailable = ~allowed[plan.policy.state, plan.policy.action]
    assert bool(found.filled) == bool(unavailable.any())


def test_the_policy_of_a_fit_plays_in_the_simulator_and_in_the_other_half():
    """The log shows 5 of 6 states, named in the order of text; the simulator has them by number."""
    rng = np.random.default_rng(3)
    P = rng.dirichlet(np.ones(6), size=(2, 6, 2))
    P[..., 2] = 0.0  # nobody ever comes here
    P /= P.sum(axis=-1, keepdims=True)
    nu = np.array([[0.5, 0.5, 0, 0, 0, 0]] * 2)
    R = np.zeros((2, 6, 2))
    R[:, 3:] = rng.choice([0.0, 0.1, 0.2], size=(2, 3, 2))
    names = ("zero", "one", "two", "three", "four", "five")
    simulator = lm.LatentMDP.from_arrays(P, R, [0.6, 0.4], nu, 4, state_names=names,
                                         action_names=("wait", "act"))  # fmt: skip
    log = lm.rollout(simulator, rng.integers(0, 2, (4, 6)), episodes=300, seed=0, names=True)
    other = lm.rollout(simulator, rng.integers(0, 2, (4, 6)), episodes=300, seed=1, names=True)
    log = pd.concat([log, other.assign(episode=other["episode"] + 300)]).drop(columns="belief")
    found = lm.fit(log, holdout=0.5)
    assert found.model.S == 5
    plan = found.plan(gap=0.01, draws=2)
    there = lm.transfer(plan, simulator)
    assert there.steps == 0.0
    assert "1 state unknown to the policy ('two')" in str(there)
    truth = walked(plan.policy, found.model, simulator)
    assert lm.evaluate(simulator, there).value == pytest.approx(truth)
    with pytest.warns(TransferWarning):
        assert lm.evaluate(simulator, plan).value == pytest.approx(truth)
    best = lm.plan(simulator)
    assert "unknown" not in str(lm.transfer(best, found.model))
    worth = found.evaluate(best, draws=50)
    assert worth.value == pytest.approx(walked(best.policy, simulator, found.model))


@pytest.mark.parametrize("seed", range(6))
def test_halves_with_different_masks(seed, tmp_path, capsys):
    """`held_out.evaluate(plan)` refused the plan of the other half."""
    rng = np.random.default_rng(seed)
    model = lm.make(f"garnet:contexts=2,states=4,actions=3,horizon=4,seed={seed}")
    log = roll(model, 30, rng)
    found = lm.fit(log, holdout=0.5, unseen="unavailable")
    assert not np.array_equal(found.model.allowed, found.held_out.model.allowed)
    plan = found.plan("mean", "markov", gap=0.1, draws=10)
    worth = found.held_out.evaluate(plan, draws=10)
    moved = lm.transfer(plan, found.held_out.model)
    assert worth.filled == moved.filled
    assert worth.value == pytest.approx(walked(plan.policy, found.model, found.held_out.model))
    assert all(sentence in str(worth) for sentence in moved.filled)
    if seed != 1:
        return
    log.to_csv(tmp_path / "log.csv", index=False)
    words = ["fit", str(tmp_path / "log.csv"), "--holdout", "0.5", "--unseen", "unavailable",
             "--plan", "--time-limit", "2", "--report", str(tmp_path / "page.html")]  # fmt: skip
    assert run(words) == 0
    assert "the policy's action is not available" in capsys.readouterr().out.replace("\n", " ")
    assert "action is not available" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_stationary_policies_keep_their_circles():
    model = lm.make("garnet:contexts=2,states=3,actions=2,horizon=4,seed=1")
    model = named(model.replace(horizon=math.inf, discount=0.8, max_return=None))
    plan = lm.plan(model, gap=0.05, time_limit=5.0)
    rng = np.random.default_rng(0)
    s = rng.permutation(model.S)
    other = lm.LatentMDP.from_arrays(
        model.P[:, :, :, s][:, s], model.R[:, s], model.w, model.nu[:, s], math.inf, discount=0.8,
        max_return=None, state_names=tuple(np.array(model.state_names)[s].tolist()),
        action_names=model.action_names,
    )  # fmt: skip
    found = lm.transfer(plan, other)
    assert found.policy.stationary
    assert lm.evaluate(other, found).value == pytest.approx(plan.lower)
    short = larger(model.replace(horizon=3, max_return=None), 0.1, rng)  # with a last step
    moved = lm.transfer(plan, short)
    assert moved.policy.H == 3
    assert 0.0 < moved.steps < 3.0


def test_numbers_are_the_names_of_a_model_without_names():
    """A log of numbered states that does not show all of them."""
    model = lm.make("garnet:contexts=2,states=4,actions=2,horizon=3,seed=0")
    model = model.replace(state_names=None, action_names=None)
    part = model.replace(state_names=("0", "1", "3", "(end)"), action_names=("0", "1"))
    policy = lm.PolicyGraph.from_table([[0, 1, 1, 0]] * 3).for_model(part)
    assert lm.transfer(policy, model).policy.table[0].tolist() == [0, 1, 0, 1]
    named_ones = named(model)  # no name in common: the order says it
    policy = policy.for_model(named_ones)
    assert lm.transfer(policy, model).policy.table[0].tolist() == [0, 1, 1, 0]


def test_what_cannot_be_transferred_is_refused():
    model = named(lm.make("garnet:contexts=2,states=4,actions=2,horizon=3,seed=0"))
    other = named(lm.make("garnet:contexts=2,states=3,actions=2,horizon=3,seed=0"), states="x")
    table = np.zeros((3, 4), dtype=int)
    policy = lm.PolicyGraph.from_table(table)
    with pytest.raises(lm.ModelError, match=r"the policy's model is not known: give source="):
        lm.transfer(policy, model)
    assert lm.transfer(policy, model, source=model).filled == ()
    with pytest.raises(lm.ModelError, match="names of states in common; they have none"):
        lm.transfer(policy.for_model(model), other)
    with pytest.raises(lm.ModelError, match="must be for H=5 steps"):
        lm.transfer(policy.for_model(model), model.replace(horizon=5, max_return=None))
    assert lm.transfer(table, model).policy.table.tolist() == table.tolist()


@pytest.mark.parametrize("seed", range(30))
def test_symbols_of_many_outcomes_are_those_of_one(seed):
    """Between halves of a dense log one by one took minutes, whatever the time limit."""
    rng = np.random.default_rng(seed)
    model = random_model(rng)
    if seed % 3 == 0:
        Z = rng.dirichlet(np.ones(3), (model.M, model.S, model.A))
        model = lm.LatentMDP(
            model.P, model.R, model.w, model.nu, model.H, Z=Z,
            observe_rewards=model.observe_rewards, max_return=None,
        )  # fmt: skip
    n = 200
    parts = [rng.integers(-1, most, n) for most in (model.S, model.A, model.S, model.readings)]
    rewards = rng.choice(model.reward, n) + rng.choice([0.0, 1e-12, -1e-12, 1e-3], n)
    found = symbols_of(model, *parts, rewards)
    for i in range(n):
        s, a, y, read = (int(x[i]) for x in parts)
        slow = -1
        if min(s, a, y, read) >= 0:
            slow = model.symbol_of(s, a, y, float(rewards[i]), reading=read)
        assert found[i] == slow
