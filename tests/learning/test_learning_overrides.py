"""A learner whose advice is overridden goes on from its belief."""

import brute
import numpy as np
import pytest

import latentmdp as lm
from latentmdp.learning.estimated import estimated_model
from latentmdp.model.counts import Counts


def experienced(model, policy_class="history", visits=10**6):
    """A learner that has tried everything so often, with counts in proportion to the model."""
    counts = Counts.from_visits(np.round(model.P * visits).astype(np.int64))
    return lm.Learner(
        model, "mvp", episodes=10**6, policy_class=policy_class, bonus_scale=1e-6, counts=counts
    )


def outcomes(model, state, action, weight):
    """`{(reward, next): weights}` after an action."""
    found = {}
    d = brute.Dense(model)
    for m in range(model.M):
        if weight[m] > 0:
            for p, reward, _, nxt in d.outcomes(m, state, action):
                after = found.setdefault((reward, nxt), np.zeros(model.M))
                after[m] += weight[m] * p
    return found


def worth_after(model, learner, first, other):
    """What an episode is worth whose first action is `other`, and then as the learner says."""

    def rest(steps, asked, weight):
        """Of an episode that began with `(action, reward, next)` in `steps`."""
        if asked is None:
            return 0.0
        total = 0.0
        for (reward, nxt), after in outcomes(model, steps[-1][2], asked, weight).items():
            further = [*steps, (asked, reward, nxt)]
            total += reward * after.sum() + rest(further, replay(further), after)
        return total

    def replay(steps):
        learner.cancel()
        asked = learner.begin(first)
        for action, reward, nxt in steps:
            asked = learner.step(reward, nxt, action=action)
        return asked

    total = 0.0
    for (reward, nxt), after in outcomes(model, first, other, model.w).items():
        steps = [(other, reward, nxt)]
        total += reward * after.sum() + rest(steps, replay(steps), after)
    learner.cancel()
    return total


def best_after(model, first, other, policy_class):
    """The best that can be had after `other` as the first action."""
    total = 0.0
    for (reward, nxt), after in outcomes(model, first, other, model.w).items():
        nu = np.zeros((model.M, model.S))
        nu[:, nxt] = 1.0
        rest = model.replace(w=after / after.sum(), nu=nu, horizon=model.H - 1)
        total += reward * after.sum()
        total += lm.plan(rest, policy_class, gap=None).lower * after.sum()
    return total


def test_an_override_does_not_make_it_forget():
    model = lm.make("troubleshoot:faults=3,tests=2,horizon=5").normalized()
    learner, first = experienced(model), int(model.nu[0].argmax())
    asked = learner.begin(first)
    learner.cancel()
    for other in set(range(model.A)) - {asked}:
        worth = worth_after(model, learner, first, other)
        assert worth == pytest.approx(best_after(model, first, other, "history"), abs=1e-4)
        assert worth >= best_after(model, first, other, "markov") - 1e-4


def test_the_adviser_of_a_learner_is_as_good_as_a_plan():
    model = lm.make("troubleshoot:faults=3,tests=2,horizon=8").normalized()
    learner = experienced(model)
    first = int(model.nu[0].argmax())
    for other in range(model.A):
        worth = 0.0
        for (reward, nxt), after in outcomes(model, first, other, model.w).items():
            adviser = learner.adviser()
            adviser.start(first)
            adviser.observe(nxt, action=other, reward=reward)
            worth += (reward + adviser.values[adviser.action, 0]) * after.sum()
        assert worth == pytest.approx(best_after(model, first, other, "history"), abs=1e-4)


def test_saved_in_an_overridden_episode_it_goes_on_to_the_same_bits():
    model = lm.make("troubleshoot:faults=2,tests=2,horizon=6").normalized()
    ours = lm.Learner(model, "mvp", episodes=100, policy_class="history", seed=1)
    random = np.random.default_rng(0)
    overridden = 0
    for _ in range(30):
        m = int(random.choice(model.M, p=model.w))
        state = int(random.choice(model.S, p=model.nu[m]))
        other = lm.Learner.from_state(ours.state())
        actions = ours.begin(state), other.begin(state)
        while actions[0] is not None:
            assert actions[0] == actions[1]
            played = int(random.integers(model.A)) if random.random() < 0.4 else actions[0]
            overridden += played != actions[0]
            row = (m * model.S + state) * model.A + played
            e = int(random.choice(np.arange(*model.indptr[row : row + 2])))
            state = int(model.next[e])
            reward = float(model.reward[e])
            if random.random() < 0.2:  # a step that nobody asks about
                for learner in (ours, other):
                    learner.step(reward, state, action=played, advise=False)
                actions = (played, played) if len(ours._path) < model.H else (None, None)
            else:
                actions = tuple(x.step(reward, state, action=played) for x in (ours, other))
            if random.random() < 0.5:
                other = lm.Learner.from_state(other.state())
        ours.end(m)
        other.end(m)
        assert other.policy == ours.policy
    assert overridden > 20


def test_the_estimated_model_is_the_counts_with_what_contexts_share():
    model = lm.make("troubleshoot:faults=2,tests=1,horizon=5").normalized()
    visits = np.zeros((model.M, model.S, model.A, model.S), dtype=np.int64)
    visits[0, 0, 0, 1], visits[0, 0, 0, 2], visits[1, 0, 0, 1] = 6, 2, 2
    learner = lm.Learner(
        model, "mvp", episodes=100, policy_class="history", counts=Counts.from_visits(visits)
    )
    found = estimated_model(learner.known, learner.counts)
    np.testing.assert_allclose(found.P[0, 0, 0, 1:3], [6.8 / 9, 2.2 / 9])
    np.testing.assert_allclose(found.P[1, 0, 0, 1:3], [2.8 / 3, 0.2 / 3])
    assert found.P[0, 1, 1, 1] == 1.0  # never tried
    np.testing.assert_array_equal(found.w, model.w)
    row = np.arange(model.M * model.S * model.A)
    np.testing.assert_allclose(found.row_reward[row][0], model.row_reward[0])


def test_without_overrides_nothing_is_estimated(monkeypatch):
    model = lm.make("troubleshoot:faults=2,tests=2,horizon=6").normalized()
    learner = experienced(model)

    def never(*_):
        raise AssertionError("nothing was overridden")

    monkeypatch.setattr("latentmdp.learning.learner.estimated_model", never)
    first = int(model.nu[0].argmax())
    action, state = learner.begin(first), first
    while action is not None:
        e = int(model.indptr[state * model.A + action])
        state = int(model.next[e])
        action = learner.step(float(model.reward[e]), state)
    learner.end(0)
    learner.begin(first)
    for _ in range(model.H):
        action, state = int(model.A - 1), first
        e = int(model.indptr[state * model.A + action])
        assert learner.step(float(model.reward[e]), first, action=action, advise=False) is None


@pytest.mark.parametrize("spec", ["troubleshoot:faults=2,tests=2,horizon=6,once=1", "bandit"])
@pytest.mark.parametrize("estimate", [(), ("w", "nu", "R")])
def test_any_history_has_an_answer(spec, estimate):
    """Masks, rewards that are not known yet, transitions never seen: advice is always available."""
    model = lm.make(spec).normalized()
    learner = lm.Learner(
        model, "mvp", episodes=100, policy_class="history", estimate=estimate, seed=3
    )
    random = np.random.default_rng(5)
    for _ in range(8):
        m = int(random.choice(model.M, p=model.w))
        state = int(random.choice(model.S, p=model.nu[m]))
        action = learner.begin(state)
        while action is not None:
            assert action in model.actions_in(state)
            played = int(random.choice(model.actions_in(state)))
            row = (m * model.S + state) * model.A + played
            e = int(random.choice(np.arange(*model.indptr[row : row + 2])))
            state = int(model.next[e])
            action = learner.step(float(model.reward[e]), state, action=played)
        learner.end(m)
