"""Latent MDPs from Gymnasium's tables, and hindsight for a person's own environments."""

import copy
import doctest
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

import latentmdp as lm
from latentmdp.environments import hindsight, tables

MAPS = (["SFF", "FHF", "FFG"], ["SFF", "FHF", "GFF"])


def lakes(maps=MAPS, **options):
    return [gym.make("FrozenLake-v1", desc=desc, **options) for desc in maps]


@pytest.mark.parametrize("module", [tables, hindsight])
def test_examples_in_the_docstrings(module):
    assert doctest.testmod(module).failed == 0


def optimum(env, horizon, discount=1.0):
    """Backward induction over the environment's own table; an end is worth nothing more."""
    P, value = env.unwrapped.P, dict.fromkeys(env.unwrapped.P, 0.0)
    for _ in range(horizon):
        value = {
            s: max(
                sum(p * (r + discount * value[n] * (not over)) for p, n, r, over in outcomes)
                for outcomes in P[s].values()
            )
            for s in P
        }
    return sum(p * value[s] for s, p in enumerate(env.unwrapped.initial_state_distrib))


@pytest.mark.parametrize(
    ("name", "options", "horizon"),
    [
        ("FrozenLake-v1", {}, 60),
        ("FrozenLake-v1", {"map_name": "8x8"}, 40),
        ("CliffWalking-v1", {}, 30),
        ("CliffWalkingSlippery-v1", {}, 30),
        ("Taxi-v4", {}, 25),
        ("Taxi-v4", {"is_rainy": True}, 15),
    ],
)
def test_one_environment_is_worth_what_its_table_says(name, options, horizon):
    env = gym.make(name, **options)
    model = lm.from_gymnasium([env], horizon=horizon, observe_rewards=False)
    assert model.M == 1
    assert lm.context_optimal(model)[0][0, 0] @ model.nu[0] == pytest.approx(optimum(env, horizon))


def test_hidden_maps_and_hidden_slip():
    model = lm.from_gymnasium(lakes(is_slippery=False), horizon=12, context_names=["A", "B"])
    assert (model.M, model.S, model.A, model.H) == (2, 9, 4, 12)
    assert model.context_names == ("A", "B")
    assert model.action_names == ("left", "down", "right", "up")
    assert model.state_names[5] == "r1c2"
    assert model.layout == lm.Layout((3, 3), [divmod(s, 3) for s in range(9)], (), ((8,), (6,)))
    assert lm.plan(model, gap=None).lower == 1.0  # there is time to try both
    # known to be at its goal: the episode is over there in one context, and goes on in the other
    assert model.P[0, 8].tolist() == np.eye(9)[[8] * 4].tolist()
    assert model.P[1, 8, 0, 7] == 1.0
    slips = [gym.make("FrozenLake-v1", is_slippery=slips) for slips in (True, False)]
    model = lm.from_gymnasium(slips, w=[0.25, 0.75], horizon=30)
    assert model.w.tolist() == [0.25, 0.75]
    assert model.layout.marks == ((15,), (15,))
    holes = lm.from_gymnasium(lakes((["SFF", "FHG"], ["SFH", "FFG"])), horizon=5)
    assert holes.layout.marks == ((4,), (2,))  # the goal is the same: the holes are marked


def test_cliffs_are_drawn_as_walls_and_cost_what_they_cost():
    model = lm.from_gymnasium(["CliffWalking-v1"], horizon=20)
    assert model.layout.walls == tuple((3, c) for c in range(1, 11))
    assert model.layout.marks == ((47,),)
    assert lm.plan(model, gap=None).lower == -13.0
    assert model.min_return == -2000.0
    picture = lm.LatentMDPEnv(model, "ansi")
    picture.reset(seed=0)
    assert picture.render().splitlines()[-1] == "@ # # # # # # # # # # *"


def test_model_and_environments_have_the_same_episodes():
    """Step the environments by the model's policy; means agree within five standard errors."""
    envs = lakes(is_slippery=True)
    model = lm.from_gymnasium(envs, w=[0.3, 0.7], horizon=15)
    plan = lm.plan(model, "markov")
    env = lm.HindsightEnv(envs, w=[0.3, 0.7], horizon=15)
    totals, contexts = [], []
    for k in range(600):
        state, _ = env.reset(seed=k)
        over, step, total = False, 0, 0.0
        while not over:
            state, reward, ended, truncated, info = env.step(int(plan.policy.table[step, state]))
            over, step, total = ended or truncated, step + 1, total + reward
        totals.append(total)
        contexts.append(info["context"])
    exact = lm.evaluate(model, plan)
    assert abs(np.mean(totals) - exact.value) < 5 * np.sqrt(exact.variance / len(totals))
    assert abs(np.mean(contexts) - 0.7) < 5 * np.sqrt(0.21 / len(totals))


# ---------------------------------------------------------------- tables by hand


def table(P=None, first=(1.0, 0.0), **more):
    P = {0: {0: [(1.0, 1, 2.0, False)]}, 1: {0: [(1.0, 0, 1.0, False)]}} if P is None else P
    return SimpleNamespace(P=P, initial_state_distrib=first, **more)


def test_an_end_where_episodes_also_pass_through_gets_a_state_of_its_own():
    env = table(
        {0: {0: [(0.5, 1, 1.0, False), (0.5, 1, 1.0, True)]}, 1: {0: [(1.0, 0, 4.0, False)]}}
    )
    model = lm.from_gymnasium([env], horizon=3, observe_rewards=False)
    assert model.state_names == ("0", "1", "over")
    assert model.P[0, :, 0].tolist() == [[0, 0.5, 0.5], [1, 0, 0], [0, 0, 1]]
    # 1 + half of (4 + 1)
    assert lm.plan(model, gap=None).lower == 3.5


def test_lists_serve_as_tables_and_actions_may_be_unavailable():
    env = table([[[(1, 1, 0, False)], [(1, 0, 3, False)]], [[(1, 0, 1, False)]]])
    model = lm.from_gymnasium([env, env], horizon=2)
    assert model.allowed.tolist() == [[True, True], [True, False]]
    given = lm.from_gymnasium([table(first=None)] * 2, horizon=2, start=[[1, 0], [0.5, 0.5]])
    assert given.nu.tolist() == [[1, 0], [0.5, 0.5]]


def broken(change):
    env = table()
    env.P = copy.deepcopy(env.P)
    change(env)
    return [table(), env]


@pytest.mark.parametrize(
    ("envs", "options", "said"),
    [
        ([], {}, "needs a list of environments, at least one"),
        ("FrozenLake-v1", {}, "needs a list of environments"),
        (gym.make("FrozenLake-v1"), {}, "needs a list of environments"),
        (["NoLake-v7"], {}, "environment 0, 'NoLake-v7', cannot be made"),
        ([table(), gym.make("CartPole-v1")], {}, "environment 1 must have a table P"),
        ([None], {}, "environment 0 must have a table P"),
        ([table({})], {}, "P must have"),
        ([table({0: {}, 1: {}})], {}, "must have"),
        ([table({0: {0: []}, 1: {0: []}})], {}, "P must have outcomes"),
        ([table(7)], {}, "P must have entries by states; it is 7"),
        ([table({1: {0: [(1, 1, 0, False)]}})], {}, "must have the states 0, 1, 2, ... as keys"),
        ([table({"a": {0: [(1, 0, 0, False)]}})], {}, "states 0, 1, 2, ... as keys; it has 'a'"),
        (
            broken(lambda e: e.P[1].update({2: [(1, 0, 0, False)]})),
            {},
            r"1: P\[1\] must have the act",
        ),
        (broken(lambda e: e.P.update({2: e.P[0]})), {}, "the same states and actions"),
        (broken(lambda e: e.P[0].update({0: None})), {}, r"P\[0\]\[0\] must be a list of outcomes"),
        (broken(lambda e: e.P[0].update({0: [(1, 0)]})), {}, r"P\[0\]\[0\]\[0\] must be \(prob"),
        (broken(lambda e: e.P[0].update({0: ["abcd"]})), {}, r"P\[0\]\[0\]\[0\] must be \(prob"),
        (
            broken(lambda e: e.P[0].update({0: [(-1, 0, 0, False)]})),
            {},
            "probability of at least 0",
        ),
        (
            broken(lambda e: e.P[0].update({0: [(1, 0.5, 0, False)]})),
            {},
            "a whole number as its next",
        ),
        (broken(lambda e: e.P[0].update({0: [(1, 0, np.nan, False)]})), {}, "a finite reward"),
        (
            broken(lambda e: e.P[0].update({0: [(1, 2, 0, False)]})),
            {},
            "states from 0 to 1; it leads",
        ),
        (broken(lambda e: e.P[0].update({0: [(1, -1, 0, False)]})), {}, "it leads to -1"),
        (
            broken(lambda e: e.P[0].update({0: [(0.5, 0, 0, False)]})),
            {},
            "context 1, state 0.* sum to",
        ),
        (
            broken(lambda e: setattr(e, "initial_state_distrib", None)),
            {},
            "1 must have initial_state_distrib",
        ),
        (broken(lambda e: setattr(e, "initial_state_distrib", [1])), {}, r"have the shape \(2,\)"),
        (broken(lambda e: setattr(e, "initial_state_distrib", ["x", 0])), {}, "must be numbers"),
        (broken(lambda e: setattr(e, "initial_state_distrib", [0.5, 0])), {}, "must sum to 1"),
        ([table()], {"w": [0.5, 0.5]}, r"w must have the shape \(1,\)"),
        ([table()], {"start": [1]}, r"start must have the shape \(2,\) or \(1, 2\)"),
        ([table()], {"start": "here"}, "start must be numbers"),
        ([table()], {"horizon": 0}, "horizon must be"),
        ([table()], {"context_names": ["a", "b"]}, "context_names must be 1 strings"),
        ([table()], {"discount": -1}, "discount must be"),
        ([table()], {"max_return": 1.0}, "must be at most max_return=1"),
        (
            lakes(MAPS[:1]) + lakes((["SF", "FG"],)),
            {},
            "environment 0 has 9 and 4, environment 1 ha",
        ),
    ],
)
def test_wrong_tables(envs, options, said):
    with pytest.raises(lm.ModelError, match=said) as caught:
        lm.from_gymnasium(envs, **options)
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------- hindsight for own environments


def test_hindsight_passes_gymnasiums_check_and_repeats():
    env = lm.HindsightEnv(lakes(), horizon=20)
    check_env(env, skip_render_check=True)
    seen = []
    for _ in range(2):
        env.reset(seed=5)
        seen.append([env.step(2)[0] for _ in range(3)] + [env._context])
    assert seen[0] == seen[1]


def test_the_context_is_told_at_the_end_only():
    class Chatty(gym.Wrapper):
        def step(self, action):
            *rest, info = super().step(action)
            return *rest, info | {"context": "secret"}

    env = lm.HindsightEnv([Chatty(lake) for lake in lakes(is_slippery=False)], horizon=3)
    _, info = env.reset(seed=0, options={"context": 1})
    assert "context" not in info
    for step in range(3):
        *_, ended, truncated, info = env.step(0)
        assert not ended
        assert truncated == (step == 2)
        assert info.get("context") == (1 if truncated else None)
    with pytest.raises(ResetNeeded):
        env.step(0)


def test_contexts_are_drawn_by_weight():
    env = lm.HindsightEnv(lakes(), w=[0.0, 1.0], horizon=1)
    for k in range(20):
        env.reset(seed=k)
        assert env.step(0)[4]["context"] == 1


def test_learn_env_learns_with_hindsight():
    """Both maps have ends: the rest of an episode is spent in a state of its own."""
    env = lm.HindsightEnv(lakes(is_slippery=False), horizon=8)
    run = lm.learn_env(env, contexts=2, horizon=8, terminal=9, episodes=1000, bonus_scale=0.01)
    assert set(run.contexts) == {0, 1}
    assert run.returns[-300:].mean() > run.returns[:100].mean()
    model = lm.from_gymnasium(lakes(is_slippery=False), horizon=8)
    assert run.returns.max() <= lm.plan(model).upper + 1e-9


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (([],), "needs a list of environments"),
        (("FrozenLake-v1",), "needs a list of environments"),
        ((["FrozenLake-v1", "Taxi-v4"],), "same observation_space; that of environment 1"),
        ((lakes(), [1.0]), "w must be 2 weights"),
        ((lakes(), [0.5, 0.6]), "w must be 2 weights"),
        ((lakes(), [-0.5, 1.5]), "w must be 2 weights"),
        ((lakes(), "ab"), "w must be 2 numbers"),
        ((lakes(), None, 0), "horizon must be a whole number of at least 1"),
    ],
)
def test_wrong_sets_of_environments(arguments, said):
    with pytest.raises(lm.ModelError, match=said):
        lm.HindsightEnv(*arguments)


@pytest.mark.parametrize("context", [2, -1, "x", 0.5])
def test_wrong_contexts_are_refused(context):
    with pytest.raises(lm.ModelError, match="the context must be"):
        lm.HindsightEnv(lakes()).reset(options={"context": context})
