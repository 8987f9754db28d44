"""`Learner` is Algorithm 1: against a plain twin, at every stopping point, with clear refusals."""

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

import latentmdp as lm
from latentmdp.learning.knowledge import known_from, nothing_known
from latentmdp.learning.learner import Learner
from latentmdp.learning.simulation import Simulator
from latentmdp.model.counts import Counts

MODEL = "garnet:states=4,actions=2,contexts=2,horizon=4"


class World:
    """A model to play in, from a seed; its context is told by `context`."""

    def __init__(self, model: lm.LatentMDP, seed: int) -> None:
        self.model, self.random = model, np.random.default_rng(seed)

    def reset(self) -> int:
        m = self.model
        self.context = int(self.random.choice(m.M, p=m.w))
        self.state = int(self.random.choice(m.S, p=m.nu[self.context]))
        return self.state

    def step(self, action: int) -> tuple[float, int]:
        m = self.model
        row = (self.context * m.S + self.state) * m.A + action
        first, last = m.indptr[row], m.indptr[row + 1]
        p = m.prob[first:last] / m.prob[first:last].sum()
        e = first + int(self.random.choice(last - first, p=p))
        self.state = int(m.next[e])
        return float(m.reward[e]), self.state


def play(
    learner: Learner,
    world: World,
    episodes: int,
    between: Callable[[Learner], Learner] = lambda x: x,
) -> Learner:
    """Drive the learner; `between` may replace it before every call."""
    for _ in range(episodes):
        learner = between(learner)
        action: int | None = learner.begin(world.reset())
        while action is not None:
            reward, state = world.step(action)
            learner = between(learner)
            action = learner.step(reward, state)
        learner = between(learner)
        learner.end(world.context)
    return learner


def bits(learner: Learner) -> list[object]:
    """Everything that can be compared to the bit."""
    counts = [learner.counts.visits().tobytes(), learner.counts.snapshot_visits().tobytes()]
    return [
        *counts, learner.policy.action.tobytes(), learner.policy.node.tobytes(), learner.episode,
        learner.updates, learner.optimistic_value, learner.upper,
    ]  # fmt: skip


class Plain:
    """Algorithm 1's bookkeeping with dictionaries; mended where the listing slips."""

    def __init__(self) -> None:
        self.n: dict = {}
        self.n_next: dict = {}
        self.N: dict = {}
        self.P_hat: dict = {}
        self.updates = 0

    def end(self, m: int, steps: list[tuple[int, int, int]]) -> None:
        triggered = False
        for s, a, nxt in steps:
            self.n[m, s, a] = self.n.get((m, s, a), 0) + 1
            self.n_next[m, s, a, nxt] = self.n_next.get((m, s, a, nxt), 0) + 1
            if self.n[m, s, a] in {2**i for i in range(40)}:
                triggered = True
                self.N[m, s, a] = self.n[m, s, a]
                for x in range(100):
                    if (m, s, a, x) in self.n_next:
                        self.P_hat[m, s, a, x] = self.n_next[m, s, a, x] / self.n[m, s, a]
        self.updates += triggered


def test_counts_snapshots_and_updates_against_a_plain_twin() -> None:
    model = lm.make(MODEL)
    learner, world, plain = Learner(model, "random", episodes=10), World(model, 1), Plain()
    for _ in range(300):
        state, steps = world.reset(), []
        action: int | None = learner.begin(state)
        while action is not None:
            reward, nxt = world.step(action)
            steps.append((state, action, nxt))
            state = nxt
            action = learner.step(reward, nxt)
        assert len(steps) == model.H
        before = plain.updates
        plain.end(world.context, steps)
        assert learner.end(world.context) == (plain.updates > before)
    assert learner.updates == plain.updates
    assert learner.episode == 301
    c = learner.counts
    for row in range(c.rows):
        m, s, a = row // (model.S * model.A), row // model.A % model.S, row % model.A
        assert c.n[row] == plain.n.get((m, s, a), 0)
        assert c.N[row] == plain.N.get((m, s, a), 0)
        for k in range(c.indptr[row], c.indptr[row + 1]):
            assert c.n_next[k] == plain.n_next.get((m, s, a, int(c.next[k])), 0)
            assert c.p_hat[k] == plain.P_hat.get((m, s, a, int(c.next[k])), 0.0)


ALGORITHMS = ["random", "mvp", "bernstein", "psrl"]


# FEW_STATES lies between the two
GARNETS = [f"garnet:contexts=3,states={S},actions=2,horizon=4" for S in (5, 14)]


@pytest.mark.parametrize("policy_class", ["markov", "history"])
@pytest.mark.parametrize("algorithm", [*ALGORITHMS, "ucrl"])
@pytest.mark.parametrize("spec", [MODEL, *GARNETS])
@pytest.mark.parametrize("episodes", [40, pytest.param(150, marks=pytest.mark.slow)])
def test_equals_the_compiled_loop_to_the_bit(
    episodes: int, spec: str, algorithm: str, policy_class: str
) -> None:
    """The same episodes through `begin, step, end` and through kernels: the same bits.

    One stores visits along the true model, the other as they come: storage is not knowledge.
    """
    model = lm.make(spec)
    how = {"episodes": 1000, "seed": 3, "policy_class": policy_class, "bonus_scale": 0.01}
    ours = Learner(model, algorithm, **how)
    theirs = Learner(model, algorithm, counts=Counts.for_model(model), **how)
    simulator = Simulator(model, np.random.default_rng(8), "episodes")
    simulator.play(theirs.policy)
    for _ in range(episodes):
        _, triggered = simulator.run(theirs.counts, 1)
        _, rows, outcomes = simulator.path()
        theirs.episode += 1
        if triggered:
            theirs.update(simulator.replay(theirs.counts))
            simulator.play(theirs.policy)
        context = int(rows[0]) // (model.S * model.A)
        action: int | None = ours.begin(int(rows[0]) // model.A % model.S)
        for row, e in zip(rows, outcomes, strict=True):
            assert action == row % model.A
            action = ours.step(float(model.reward[e]), int(model.next[e]))
        assert ours.end(context) == triggered
        assert bits(ours) == bits(theirs)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_saved_and_resumed_at_every_step_to_the_same_bits(algorithm: str, tmp_path) -> None:
    model = lm.make(MODEL)

    def again(learner: Learner) -> Learner:
        learner.save(tmp_path / "learner.npz")
        return Learner.load(tmp_path / "learner.npz")

    whole = play(Learner(model, algorithm, episodes=50), World(model, 5), 12)
    cut = play(Learner(model, algorithm, episodes=50), World(model, 5), 12, again)
    assert bits(whole) == bits(cut)
    with np.load(tmp_path / "learner.npz", allow_pickle=False) as archive:
        assert archive["counts.n"].dtype == np.int64  # plain data, nothing to unpickle


def test_refusals_are_one_sentence_and_lose_nothing() -> None:
    model = lm.make(MODEL)
    learner = Learner(model, "random", episodes=10)
    reward = float(model.reward[model.indptr[0]])

    def refused(match: str, call: Callable[[], object]) -> None:
        before = learner.state()
        with pytest.raises(lm.ModelError, match=match):
            call()
        after = learner.state()
        assert str(before) == str(after)

    refused("step must follow begin", lambda: learner.step(0.0, 0))
    refused("end must come after 4 steps; episode 1 has not begun", lambda: learner.end(0))
    refused("state must be a whole number from 0 to 3; it is 4", lambda: learner.begin(4))
    learner.begin(0)
    refused("begin must follow end or cancel", lambda: learner.begin(0))
    refused("action must be .* from 0 to 1; it is 2", lambda: learner.step(reward, 0, action=2))
    refused("next_state must be .*; it is -1", lambda: learner.step(reward, -1))
    refused("rewards must be at least 0", lambda: learner.step(-0.5, 0))
    refused("reward must be a number; it is 'much'", lambda: learner.step("much", 0))
    refused("reward must be a number; it is None", lambda: learner.step(None, 0))
    refused("total at most 1", lambda: learner.step(1.5, 0))
    refused("must be one that a context gives", lambda: learner.step(0.98765, 0))
    refused("end must come after 4 steps; episode 1 has 0 of 4", lambda: learner.end(0))
    for _ in range(4):
        learner.step(float(model.R[0, learner._state, 0]), 1, action=0)
    refused("step must follow begin, at most 4 times", lambda: learner.step(reward, 0))
    refused("context must be a whole number from 0 to 1; it is 2", lambda: learner.end(2))
    refused("context must be one that pays what was seen", lambda: learner.end(1))
    assert learner.end(0)


def test_an_action_that_was_not_asked_for_is_counted_as_played() -> None:
    model = lm.make(MODEL)
    learner = Learner(model, "random", episodes=10)
    learner.begin(0)
    for _ in range(4):
        learner.step(float(model.R[0, learner._state, 1]), 2, action=1)
    learner.end(0)
    counts = learner.counts.visits()
    assert counts[0, 0, 1, 2] == 1
    assert counts[0, 2, 1, 2] == 3
    assert counts.sum() == 4
    assert learner.counts.N.reshape(2, 4, 2)[0, 2, 1] == 2  # the snapshot came in mid-episode


def test_knowledge_without_a_model_is_the_same_knowledge() -> None:
    model = lm.make(MODEL)
    known = known_from(model.R, model.w, model.nu, model.H)
    one = play(Learner(model, "random", episodes=50), World(model, 5), 12)
    two = play(Learner(known, "random", episodes=50), World(model, 5), 12)
    assert bits(one) == bits(two)
    assert repr(one).startswith("Learner(random, markov, 12 episodes, ")
    assert "beyond" not in repr(one)
    with pytest.raises(lm.ModelError, match="R must have the shape"):
        known_from(model.R[0], model.w, model.nu, model.H)


def test_estimated_knowledge_approaches_the_truth(tmp_path) -> None:
    model = lm.make(MODEL)
    given = nothing_known(model.M, model.S, model.A, model.H)
    learner = Learner(given, "random", episodes=400, estimate={"w", "nu", "R"})
    learner = play(learner, World(model, 2), 200)
    learner.save(tmp_path / "x.npz")
    learner = play(Learner.load(tmp_path / "x.npz"), World(model, 3), 200)
    known = learner.known
    assert np.abs(known.w - model.w).max() < 5 * 0.5 / np.sqrt(400)
    seen = learner.knowledge.seen.reshape(model.M, model.S, model.A, model.S)
    truth = np.broadcast_to(model.R[..., None], seen.shape)
    assert seen.sum() > 20
    assert np.array_equal(known.next_reward.reshape(seen.shape)[seen], truth[seen])
    assert np.allclose(known.nu.sum(axis=1), 1.0)


@pytest.mark.parametrize("algorithm", ["mvp", "bernstein"])
def test_learning_without_knowledge_finds_the_better_action(algorithm: str) -> None:
    """One step, one context: the second action pays. Every update asks a fresh solver."""
    given = nothing_known(1, 1, 2, 1)
    learner = Learner(given, algorithm, episodes=10, bonus_scale=1e-6, estimate={"w", "nu", "R"})
    for _ in range(40):
        action = learner.begin(0)
        learner.step(0.5 * action, 0)
        learner.end(0)
    assert learner.policy.table[0, 0] == 1
    assert learner.optimistic_value == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("on_transitions", [False, True])
@pytest.mark.parametrize("algorithm", ["mvp", "bernstein", "ucrl"])
def test_rewards_not_seen_yet_count_as_possible(algorithm: str, on_transitions: bool) -> None:
    """State 0 pays 0.5 at once; behind the other action, state 1 pays 0.51 in the second step."""
    P, R = np.zeros((1, 2, 2, 2)), np.zeros((1, 2, 2))
    P[0, 0, 0, 0] = P[0, 0, 1, 1] = P[0, 1, :, 1] = 1.0
    R[0, 0, 0], R[0, 1] = 0.25, 0.51
    model = lm.LatentMDP.from_arrays(P, R, [1.0], [[1.0, 0.0]], 2)
    given = nothing_known(1, 2, 2, 2, on_transitions) if on_transitions else model
    learner = Learner(given, algorithm, episodes=10**4, bonus_scale=1e-3, estimate={"R"})
    world = World(model, 0)
    for _ in range(60):
        play(learner, world, 1)
        assert learner.optimistic_value >= 0.51 - 1e-9
    assert lm.evaluate(model, learner.policy).value == pytest.approx(0.51)


def test_a_reward_of_a_row_is_known_for_all_its_next_states() -> None:
    learner = Learner(nothing_known(1, 3, 1, 1, False), "random", episodes=3, estimate={"R"})
    learner.begin(0)
    learner.step(0.25, 1)
    learner.end(0)
    assert learner.known.row_reward.tolist() == [0.25, 1.0, 1.0]
    assert learner.known.next_reward is None


def test_noisy_rewards_are_refused_when_estimated() -> None:
    learner = Learner(nothing_known(1, 1, 1, 2), "random", episodes=3, estimate={"R"})
    learner.begin(0)
    learner.step(0.1, 0)
    learner.step(0.2, 0)
    assert learner.end(0)
    learner.begin(0)
    learner.step(0.3, 0)
    learner.step(0.3, 0)
    with pytest.raises(lm.ModelError, match=r"must be deterministic; it was 0.2 and is 0.3"):
        learner.end(0)
    learner.cancel()
    learner.begin(0)
    assert learner.counts.n.sum() == 2
    with pytest.raises(lm.ModelError, match="estimate must name some of w, nu, R"):
        Learner(nothing_known(1, 1, 1, 2), "random", episodes=3, estimate={"P"})


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"algorithm": "q-learning"}, "algorithm must be one of .*mvp.*; it is 'q-learning'"),
        ({"episodes": 0}, "episodes must be a whole number from 1"),
        ({"delta": 2.0}, "delta must lie strictly between 0 and 1; it is 2"),
        ({"bonus_scale": -1.0}, "bonus_scale must be finite and at least 0"),
        ({"policy_class": "linear"}, "policy_class must be history or markov; it is 'linear'"),
    ],
)
def test_bad_settings(change: dict, match: str) -> None:
    arguments = {"algorithm": "random", "episodes": 10} | change
    with pytest.raises(lm.ModelError, match=match):
        Learner(lm.make(MODEL), **arguments)


@pytest.mark.parametrize("what", ["discount", "totals", "negative"])
def test_models_outside_the_paper_are_refused_with_a_cure(what: str) -> None:
    P = np.ones((1, 1, 1, 1))
    R = np.full((1, 1, 1), -0.1 if what == "negative" else 0.9)
    model = lm.LatentMDP.from_arrays(
        P, R, [1.0], [[1.0]], 3, max_return=None, discount=0.9 if what == "discount" else 1.0
    )
    with pytest.raises(
        lm.ModelError, match="discount 1.*normalize" if what == "discount" else "normalize"
    ):
        Learner(model, "random", episodes=10)


@pytest.mark.parametrize("observed", [True, False])
def test_a_context_that_cannot_have_paid_what_was_seen_is_refused(observed: bool) -> None:
    P, nu = np.ones((2, 1, 1, 1)), np.ones((2, 1))
    R = np.array([0.1, 0.2]).reshape(2, 1, 1)
    model = lm.LatentMDP.from_arrays(P, R, [0.5, 0.5], nu, 2, observe_rewards=observed)
    learner = Learner(model, "mvp", episodes=10)
    learner.begin(0)
    for _ in range(2):
        learner.step(0.1, 0)
    if observed:
        with pytest.raises(lm.ModelError, match=r"context 1 pays 0.2 .* the episode had 0.1"):
            learner.end(1)
        assert learner.counts.visits().sum() == 0
        assert learner.end(0)
    else:  # what is not seen during the episode may be anything until its end
        assert learner.end(1)
    assert learner.counts.visits().sum() == 2


@pytest.mark.parametrize("place", ["R", "w", "nu", "horizon"])
def test_knowledge_refuses_what_is_no_number(place):
    parts = {"R": np.zeros((2, 3, 2)), "w": np.full(2, 0.5), "nu": np.full((2, 3), 1 / 3)}
    parts["horizon"] = np.array(4.0)
    parts[place].flat[0] = np.nan
    parts["horizon"] = float(parts["horizon"])
    with pytest.raises(lm.ModelError, match=f"^{place} must"):
        known_from(**parts)


def many_states(S, on_next=False):
    """A sparse model: each state leads to two others."""
    M, A = 2, 2
    context, state, action, other = (x.ravel() for x in np.indices((M, S, A, 2)))
    nxt = (state * (action + 1) + context + other) % S
    pays = (nxt if on_next else state) == S - 1
    return lm.LatentMDP.from_rows(
        context, state, action, nxt, np.full(len(nxt), 0.5), 0.1 * pays, [0.5, 0.5],
        np.eye(1, S).repeat(M, axis=0), 4,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("algorithm", "policy_class", "on_next"),
    [("psrl", "markov", False), ("mvp", "history", False), ("mvp", "markov", True)],
)
def test_what_needs_more_memory_than_there_is_is_refused_before_any_work(
    monkeypatch, algorithm, policy_class, on_next
):
    model = many_states(3_000, on_next)  # 3.6e7 (context, state, action, next state)
    assert model.rewards_on_transitions == on_next
    monkeypatch.setattr("latentmdp.learning.solvers.memory_budget", lambda: 2 * 10**8)
    tracemalloc.start()
    with pytest.raises(lm.ModelError, match=r"must fit into 0\.4 GB, .* it takes about") as caught:
        lm.learn(model, algorithm, 10, policy_class=policy_class)
    assert "every (context, state, action, next state)" in str(caught.value)
    with pytest.raises(lm.ModelError, match="must fit into"):
        Learner(model, algorithm, episodes=10, policy_class=policy_class)
    assert tracemalloc.get_traced_memory()[1] < 10**7
    tracemalloc.stop()


@pytest.mark.parametrize("algorithm", ["mvp", "bernstein"])
def test_sparse_models_need_no_number_per_next_state(algorithm):
    """The first plan used to take `rows x S` bytes: here 3.6 GB."""
    model = many_states(30_000)
    tracemalloc.start()
    run = lm.learn(model, algorithm, 3, optimal=(0.0, 1.0))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert run.episodes == 3
    assert peak < 0.3 * model.M * model.S * model.A * model.S
