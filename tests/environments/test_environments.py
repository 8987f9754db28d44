"""The Gymnasium environments: their contract, their law, and that they keep the secret."""

import doctest
import importlib

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import given, settings
from scipy import stats
from strategies import models, seeds

import latentmdp as lm
from latentmdp.environments import IDS, LatentMDPEnv, LatentMDPVectorEnv, register
from latentmdp.model.sampling import Sampler, row_cumulative

MODES = list(AutoresetMode)


def play(env, actions, seed=None, options=None):
    """States, rewards and infos of one episode."""
    states, infos, rewards = [], [], []
    state, info = env.reset(seed=seed, options=options)
    states.append(state)
    infos.append(info)
    for action in actions:
        state, reward, terminated, truncated, info = env.step(action)
        assert not terminated
        assert truncated == (len(rewards) + 1 == env.unwrapped.model.H)
        states.append(state)
        rewards.append(reward)
        infos.append(info)
    return states, rewards, infos


# ---------------------------------------------------------------- contract


@pytest.mark.parametrize("name", IDS)
def test_registered_environments_pass_gymnasiums_check(name):
    env = gym.make(name)
    check_env(env.unwrapped)
    assert env.unwrapped.model == lm.make(IDS[name])


@pytest.mark.parametrize("render_mode", ["ansi", "rgb_array"])
@pytest.mark.parametrize("name", ["latentmdp/Maze-v0", "latentmdp/Hard-v0"])
def test_rendering_environments_pass_gymnasiums_check(name, render_mode):
    check_env(gym.make(name, render_mode=render_mode).unwrapped)


def test_registered_environments_take_the_domains_keys():
    env = gym.make("latentmdp/Maze-v0", size=3, goals=2, observe_rewards=False)
    assert env.unwrapped.model == lm.make("maze:size=3,goals=2", observe_rewards=False)
    with pytest.raises(lm.ModelError, match="maze: unknown key 'sise'"):
        gym.make("latentmdp/Maze-v0", sise=3)
    before = len(gym.registry)
    register()
    assert len(gym.registry) == before
    batch = gym.make_vec(
        "latentmdp/Bandit-v0", num_envs=3, vectorization_mode="vector_entry_point", arms=2
    )
    assert isinstance(batch.unwrapped, LatentMDPVectorEnv)
    assert batch.unwrapped.model == lm.make("bandit:arms=2")
    assert batch.num_envs == 3


def test_context_is_told_at_the_end_and_only_then():
    env = LatentMDPEnv("maze:horizon=7")
    for m in range(4):
        _, _, infos = play(env, [0] * 7, options={"context": m})
        assert all("context" not in info for info in infos[:-1])
        assert infos[-1]["context"] == m


def test_forced_context_moves_by_its_own_rows():
    env = LatentMDPEnv("maze:size=3,goals=8,slip=0,horizon=4")
    for m in range(8):
        (goal,) = env.model.layout.marks[m]
        (r, c), plan = env.model.layout.positions[goal], []
        plan += [2] * (r - 1) if r > 1 else [0] * (1 - r)
        plan += [1] * (c - 1) if c > 1 else [3] * (1 - c)
        plan += [0] * (4 - len(plan))
        _, rewards, _ = play(env, plan, options={"context": m})
        assert sum(rewards) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"context": 4}, "must be a whole number between 0 and 3; it is 4"),
        ({"context": -1}, "must be a whole number between 0 and 3"),
        ({"context": 0.5}, "must be a whole number between 0 and 3"),
        ({"contxt": 1}, "the reset option is 'context'; not 'contxt'"),
    ],
)
@pytest.mark.parametrize("kind", [LatentMDPEnv, LatentMDPVectorEnv])
def test_bad_options_are_refused(kind, options, message):
    with pytest.raises(lm.ModelError, match=message):
        kind("maze").reset(options=options)


def test_the_seed_decides_the_episode():
    env = LatentMDPEnv("garnet")
    actions = [0, 1, 2, 3] * 5
    first = play(env, actions, seed=5)
    assert play(LatentMDPEnv("garnet"), actions, seed=5) == first
    assert play(env, actions, seed=5) == first
    assert play(env, actions) != first  # goes on with the stream
    batch = LatentMDPVectorEnv("garnet", 4)
    runs = []
    for _ in range(2):
        states = [batch.reset(seed=3)[0]]
        states += [batch.step(np.zeros(4, dtype=int))[0] for _ in range(20)]
        runs.append(np.array(states))
    np.testing.assert_array_equal(*runs)


def test_steps_outside_an_episode_and_bad_actions_are_refused():
    env = LatentMDPEnv("bandit:horizon=2", render_mode="ansi")
    with pytest.raises(ResetNeeded):
        env.step(0)
    with pytest.raises(ResetNeeded):
        env.render()
    play(env, [0, 0])
    with pytest.raises(ResetNeeded):
        env.step(0)
    env.reset()
    for action in (4, -1, 0.5):
        with pytest.raises(lm.ModelError, match="action must be between 0 and 3"):
            env.step(action)
    with pytest.raises(lm.ModelError, match="render_mode must be 'ansi' or 'rgb_array'"):
        LatentMDPEnv("bandit", render_mode="human")
    batch = LatentMDPVectorEnv("bandit:horizon=2", 2, autoreset_mode="Disabled")
    with pytest.raises(ResetNeeded):
        batch.step(np.zeros(2, dtype=int))
    batch.reset(seed=0)
    for actions in (np.zeros(3, dtype=int), np.zeros(2)):
        with pytest.raises(lm.ModelError, match="actions must be 2 whole numbers"):
            batch.step(actions)
    with pytest.raises(lm.ModelError, match="actions must be between 0 and 3"):
        batch.step(np.array([0, 4]))
    batch.step(np.zeros(2, dtype=int))
    batch.step(np.zeros(2, dtype=int))
    with pytest.raises(ResetNeeded):
        batch.step(np.zeros(2, dtype=int))
    with pytest.raises(lm.ModelError, match="num_envs must be at least 1"):
        LatentMDPVectorEnv("bandit", 0)
    with pytest.raises(lm.ModelError, match="must be one number or 2; its shape is"):
        batch.reset(options={"context": [0, 1, 1]})
    with pytest.raises(lm.ModelError, match="reset_mask'\\] must be 2 booleans"):
        batch.reset(options={"reset_mask": [1, 0]})


def test_the_docstrings_example_runs():
    module = importlib.import_module("latentmdp.environments.single")
    assert doctest.testmod(module).failed == 0
    assert doctest.testmod(importlib.import_module("latentmdp.builtin_domains")).failed == 0


# ---------------------------------------------------------------- law


@settings(max_examples=50)
@given(model=models(M=4, S=4, A=3), seed=seeds)
def test_outcomes_are_found_by_their_cumulative_probability(model, seed):
    rng = np.random.default_rng(seed)
    sampler = Sampler(model)
    n = 200
    m, s, a = (
        rng.integers(model.M, size=n),
        rng.integers(model.S, size=n),
        rng.integers(model.A, size=n),
    )
    u = rng.random(n)
    u[:3] = 0.0, 1 - 2**-53, 0.5
    for i, position in enumerate(sampler.outcome(m, s, a, u)):
        row = (m[i] * model.S + s[i]) * model.A + a[i]
        position_in_row, total = int(model.indptr[row]), model.prob[model.indptr[row]]
        while u[i] >= total and position_in_row + 1 < model.indptr[row + 1]:
            position_in_row += 1
            total += model.prob[position_in_row]
        assert position == position_in_row
    starts = sampler.start(m, u)
    assert (model.nu[m, starts] > 0).all()
    assert (sampler.context(u) < model.M).all()


def test_cumulative_sums_start_anew_in_each_row():
    prob = np.array([0.5, 0.5, 1.0, 0.1, 0.2, 0.7])
    found = row_cumulative(np.array([0, 2, 3, 6]), prob)
    np.testing.assert_allclose(found[[0, 3, 4]], [0.5, 0.1, 0.3])
    assert np.isinf(found[[1, 2, 5]]).all()


def follow(env, policy):
    """The total reward of one episode of a policy graph, run by what the agent is shown."""
    state, _ = env.reset()
    cursor, total, truncated = policy.cursor(state), 0.0, False
    while not truncated:
        state, reward, _, truncated, info = env.step(cursor.action)
        total += reward
        if not truncated:
            cursor.observe(state, symbol=info["symbol"])
    return total


@pytest.mark.parametrize(
    "spec", ["maze:size=3,goals=3,horizon=6", "troubleshoot:horizon=5", "bandit"]
)
def test_episodes_earn_what_evaluate_says(spec):
    # |mean - value| < 5 standard errors: false alarm 6e-7 by the normal law (the seed is fixed)
    model = lm.make(spec)
    policy = lm.PolicyGraph.from_table(
        np.random.default_rng(1).integers(model.A, size=(model.H, model.S))
    )
    exact = lm.evaluate(model, policy)
    env = LatentMDPEnv(model)
    env.reset(seed=2)
    totals = [follow(env, policy) for _ in range(2000)]
    assert abs(np.mean(totals) - exact.value) < 5 * np.sqrt(exact.variance / len(totals)) + 1e-12


def test_a_policy_with_memory_runs_on_symbols():
    # 5 standard errors: false alarm 6e-7 (the seed is fixed)
    model = lm.make("garnet:states=5,actions=2,contexts=3,horizon=5")
    policy = lm.PolicyGraph.from_belief(model, lambda step, state, belief: int(belief[0] > 0.35))
    assert not policy.is_markov
    exact = lm.evaluate(model, policy)
    env = LatentMDPEnv(model)
    env.reset(seed=3)
    totals = [follow(env, policy) for _ in range(2000)]
    assert abs(np.mean(totals) - exact.value) < 5 * np.sqrt(exact.variance / len(totals))


@pytest.mark.parametrize("kind", ["single", "vector"])
def test_every_row_has_the_models_law(kind):
    # one chi-square test over contexts and all visited rows; false alarm 1e-6 (the seed is fixed)
    model = lm.make("garnet:states=4,actions=2,contexts=3,branching=3,horizon=6")
    contexts = np.zeros(model.M)
    counts = np.zeros((model.M, model.S, model.A, model.S))
    rng = np.random.default_rng(0)
    if kind == "single":
        env = LatentMDPEnv(model)
        env.reset(seed=1)
        for _ in range(1500):
            actions = rng.integers(2, size=6)
            states, _, infos = play(env, actions)
            contexts[infos[-1]["context"]] += 1
            np.add.at(counts, (infos[-1]["context"], states[:-1], actions, states[1:]), 1)
    else:
        batch = LatentMDPVectorEnv(model, 20_000)
        states = [batch.reset(seed=1)[0]]
        actions = rng.integers(2, size=(6, 20_000))
        for a in actions:
            state, _, _, _, infos = batch.step(a)
            states.append(state)
        contexts += np.bincount(infos["context"], minlength=model.M)
        for t in range(6):
            np.add.at(counts, (infos["context"], states[t], actions[t], states[t + 1]), 1)
    statistic, freedom = chi_square(contexts[None], model.w[None])
    rows = chi_square(counts.reshape(-1, model.S), model.P.reshape(-1, model.S))
    assert stats.chi2.sf(statistic + rows[0], freedom + rows[1]) > 1e-6


def chi_square(counts, prob):
    visits = counts.sum(axis=1, keepdims=True)
    assert (counts[prob == 0] == 0).all()
    kept = (visits[:, 0] * np.where(prob > 0, prob, 1).min(axis=1)) >= 5
    counts, prob, visits = counts[kept], prob[kept], visits[kept]
    expected = np.where(prob > 0, visits * prob, 1)
    statistic = (np.where(prob > 0, counts - visits * prob, 0) ** 2 / expected).sum()
    return statistic, ((prob > 0).sum(axis=1) - 1).sum()


@pytest.mark.parametrize("spec", ["maze:size=3,goals=3,horizon=6", "troubleshoot:horizon=5"])
def test_a_batch_earns_what_evaluate_says(spec):
    # 5 standard errors: false alarm 6e-7 (the seed is fixed)
    model = lm.make(spec)
    table = np.random.default_rng(1).integers(model.A, size=(model.H, model.S))
    exact = lm.evaluate(model, lm.PolicyGraph.from_table(table))
    batch = LatentMDPVectorEnv(model, 50_000)
    state, _ = batch.reset(seed=4)
    totals = np.zeros(50_000)
    for t in range(model.H):
        state, reward, _, truncated, _ = batch.step(table[t, state])
        totals += reward
        assert (truncated == (t + 1 == model.H)).all()
    assert abs(totals.mean() - exact.value) < 5 * np.sqrt(exact.variance / len(totals))


# ---------------------------------------------------------------- batches like Gymnasium's own


def same_infos(ours, theirs):
    assert ours.keys() == theirs.keys()
    for key, value in theirs.items():
        if isinstance(value, dict):
            same_infos(ours[key], value)
        else:
            np.testing.assert_array_equal(ours[key], value)


@pytest.mark.parametrize("mode", MODES)
def test_a_batch_answers_as_syncvectorenv_does(mode):
    # a deterministic model: both must agree in everything, whatever their random streams
    model = lm.make("deterministic:states=6,actions=3,horizon=4")
    ours = LatentMDPVectorEnv(model, 3, autoreset_mode=mode)
    theirs = SyncVectorEnv([lambda: LatentMDPEnv(model)] * 3, autoreset_mode=mode)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert ours.metadata["autoreset_mode"] is mode
    rng = np.random.default_rng(0)
    for env in (ours, theirs):
        env.reset(seed=0)
    for step in range(14):
        if mode is AutoresetMode.DISABLED and step % 4 == 0:
            for env in (ours, theirs):
                env.reset(seed=1)
        actions = rng.integers(3, size=3)
        a, b = ours.step(actions), theirs.step(actions)
        for mine, other in zip(a[:4], b[:4], strict=True):
            np.testing.assert_array_equal(mine, other)
            assert mine.dtype == other.dtype
        same_infos(a[4], b[4])


@pytest.mark.parametrize("mode", MODES)
def test_episodes_out_of_step_answer_as_syncvectorenv_does(mode):
    model = lm.make("deterministic:states=6,actions=3,horizon=4")
    ours = LatentMDPVectorEnv(model, 3, autoreset_mode=mode)
    theirs = SyncVectorEnv([lambda: LatentMDPEnv(model)] * 3, autoreset_mode=mode)
    rng = np.random.default_rng(0)
    for env in (ours, theirs):
        env.reset(seed=0)
    over = np.zeros(3, dtype=bool)
    for step in range(20):
        mask = over.copy() if mode is AutoresetMode.DISABLED else np.zeros(3, dtype=bool)
        mask |= np.array([False, step == 2, step == 9])  # start some anew in mid-episode
        if mask.any():
            for env in (ours, theirs):
                env.reset(options={"reset_mask": mask.copy()})
        actions = rng.integers(3, size=3)
        a, b = ours.step(actions), theirs.step(actions)
        for mine, other in zip(a[:4], b[:4], strict=True):
            np.testing.assert_array_equal(mine, other)
        same_infos(a[4], b[4])
        over = b[3]


def masked_chain():
    """A deterministic model with unavailable actions: where both environments must agree."""
    model = lm.make("deterministic:states=6,actions=3,horizon=4")
    allowed = np.ones((model.S, model.A), dtype=bool)
    allowed[::2, 0] = allowed[1::3, 2] = False
    return model.replace(allowed=allowed)


def test_the_mask_says_what_is_available_and_the_rest_is_refused():
    model = masked_chain()
    env = LatentMDPEnv(model)
    state, info = env.reset(seed=0)
    for _ in range(model.H):
        assert info["action_mask"].dtype == np.int8
        assert info["action_mask"].tolist() == model.allowed[state].tolist()
        unavailable = np.flatnonzero(info["action_mask"] == 0)
        for action in unavailable:
            with pytest.raises(lm.ModelError, match=f"action {action} must be available in state"):
                env.step(action)
        state, _, _, _, info = env.step(env.action_space.sample(mask=info["action_mask"]))
    assert info["action_mask"].tolist() == model.allowed[state].tolist()
    plain = LatentMDPEnv("bandit")
    assert "action_mask" not in plain.reset(seed=0)[1]
    assert "action_mask" not in plain.step(0)[4]


@pytest.mark.parametrize("mode", MODES)
def test_masks_of_a_batch_are_those_of_syncvectorenv(mode):
    model = masked_chain()
    ours = LatentMDPVectorEnv(model, 3, autoreset_mode=mode)
    theirs = SyncVectorEnv([lambda: LatentMDPEnv(model)] * 3, autoreset_mode=mode)
    rng = np.random.default_rng(0)
    same_infos(*(env.reset(seed=0)[1] for env in (ours, theirs)))
    over = np.zeros(3, dtype=bool)
    state = ours._state.copy()
    for step in range(20):
        mask = over.copy() if mode is AutoresetMode.DISABLED else np.zeros(3, dtype=bool)
        mask |= np.array([False, step == 2, step == 9])
        if mask.any():
            answers = [env.reset(options={"reset_mask": mask.copy()}) for env in (ours, theirs)]
            state = answers[0][0]
        actions = np.array([rng.choice(model.actions_in(s)) for s in state])
        a, b = ours.step(actions), theirs.step(actions)
        np.testing.assert_array_equal(a[0], b[0])
        same_infos(a[4], b[4])
        assert (a[4]["action_mask"] == model.allowed[a[0]]).all()
        state, over = a[0], b[3]


def test_a_batch_refuses_unavailable_actions_of_episodes_under_way():
    model = masked_chain()
    batch = LatentMDPVectorEnv(model, 2)
    state, _ = batch.reset(seed=0)
    good = np.array([model.actions_in(s)[0] for s in state])
    bad = good.copy()
    (unavailable,) = np.nonzero(~model.allowed[state[1]])
    bad[1] = unavailable[0]
    with pytest.raises(lm.ModelError, match=f"action {bad[1]} must be .* of episode 1"):
        batch.step(bad)
    batch.step(good)


def test_a_batch_takes_one_context_per_episode():
    batch = LatentMDPVectorEnv("maze:horizon=2", 5)
    batch.reset(seed=0, options={"context": [3, 0, 1, 2, 2]})
    batch.step(np.zeros(5, dtype=int))
    infos = batch.step(np.zeros(5, dtype=int))[4]
    assert infos["context"].tolist() == [3, 0, 1, 2, 2]
    assert infos["_context"].all()
    batch.reset(options={"context": 1})
    batch.step(np.zeros(5, dtype=int))
    assert batch.step(np.zeros(5, dtype=int))[4]["context"].tolist() == [1] * 5


def test_arrays_handed_out_are_the_callers():
    clean, scribbled = LatentMDPVectorEnv("maze", 4), LatentMDPVectorEnv("maze", 4)
    for step in range(30):
        if step == 0:
            results = [env.reset(seed=0) for env in (clean, scribbled)]
        else:
            results = [env.step(np.full(4, step % 4)) for env in (clean, scribbled)]
            np.testing.assert_array_equal(results[0][1], results[1][1])
        np.testing.assert_array_equal(results[0][0], results[1][0])
        for array in results[1][:-1]:
            array[:] = 1


# ---------------------------------------------------------------- pictures of an episode


def test_text_shows_agent_walls_goals_and_at_the_end_the_context():
    env = LatentMDPEnv("maze:size=4,goals=3,walls=3,horizon=3,slip=0", render_mode="ansi")
    env.reset(seed=0, options={"context": 2})
    text = env.render()
    assert text.startswith("step 0 of 3, in r2c2, total 0")
    grid = "\n".join(text.splitlines()[1:])
    assert grid.count("@") == 1
    assert grid.count("#") == 3
    assert all(letter in grid for letter in "ABC")
    shown = []
    for m in range(3):
        env.reset(seed=0, options={"context": m})
        shown.append(env.render())
    assert len(set(shown)) == 1  # the context cannot be read off
    for _ in range(3):
        assert "it was" not in env.render()
        env.step(0)
    assert f"it was: {env.model.context_names[2]}" in env.render()


def test_text_of_models_without_grid_brackets_the_state():
    env = LatentMDPEnv("troubleshoot", render_mode="ansi")
    env.reset(seed=0)
    assert env.render().splitlines()[1].startswith("[broken] | test 1 low")
    env = LatentMDPEnv("garnet:states=100", render_mode="ansi")
    env.reset(seed=0)
    assert env.render() == "step 0 of 20, in s0, total 0"
    env = LatentMDPEnv("riverswim", render_mode="ansi")
    env.reset(seed=0)
    assert env.render().splitlines()[1] == "@ . . . . *"


@pytest.mark.parametrize("spec", ["maze:slip=0,size=4", "hard", "garnet", "riverswim"])
def test_pictures_move_with_the_agent_and_keep_the_secret(spec):
    env = LatentMDPEnv(spec, render_mode="rgb_array")
    frames = []
    for m in (0, 1):
        env.reset(seed=0, options={"context": m})
        frames.append(env.render())
    assert frames[0].dtype == np.uint8
    assert frames[0].ndim == 3
    assert frames[0].shape[2] == 3
    if spec != "hard":  # there the first state shows it
        np.testing.assert_array_equal(*frames)
    before = frames[-1]
    for _ in range(env.model.H - 1):
        env.step(1)
    during = env.render()
    assert (during != before).any()
    env.step(1)
    assert (env.render() != during).any()


def test_no_picture_without_render_mode():
    env = LatentMDPEnv("maze")
    env.reset(seed=0)
    assert env.render() is None
