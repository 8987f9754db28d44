"""Readings besides the next state: against histories, the same problem with them in the state."""

import brute
import numpy as np
import pytest

import latentmdp as lm
from latentmdp.model.latent_mdp import LatentMDP


def random_parts(rng, most=(2, 2, 2, 3, 3)):
    """`(P, R, Z, w, nu, H)` with some probabilities of 0."""
    M, S, A, H, O = (int(rng.integers(1, k + 1)) for k in most)  # noqa: E741

    def distributions(*shape):
        x = rng.integers(0, 3, shape).astype(float) if rng.random() < 0.5 else rng.random(shape)
        x[x.sum(axis=-1) == 0] = 1.0
        return x / x.sum(axis=-1, keepdims=True)

    P, Z = distributions(M, S, A, S), distributions(M, S, A, O)
    R = rng.integers(-2, 3, (M, S, A) if rng.random() < 0.5 else (M, S, A, S)) / 2
    return P, R, Z, distributions(M), distributions(M, S), H


def in_state(P, R, Z, w, nu, H, **options):
    """The same problem in which state `s * O + o` says what was read on the way to `s`."""
    (M, S, A, _), O = P.shape, Z.shape[-1]  # noqa: E741
    joint = P[..., None] * Z.swapaxes(1, 2)[:, None]  # (M, S, A, S', O)
    joint = np.repeat(joint.reshape(M, S, A, S * O), O, axis=1)
    rewards = np.repeat(R if R.ndim == 3 else np.repeat(R, O, axis=3), O, axis=1)
    first = np.zeros((M, S, O))
    first[:, :, 0] = nu
    return LatentMDP(joint, rewards, w, first.reshape(M, -1), H, **options)


@pytest.mark.parametrize("seed", range(6))
def test_plans_are_those_of_the_same_problem_with_readings_in_the_state(seed):
    rng = np.random.default_rng(seed)
    for _ in range(40):
        parts = random_parts(rng)
        options = {
            "observe_rewards": bool(rng.random() < 0.5), "max_return": None,
            "discount": float(rng.choice([1.0, 0.8])),
        }  # fmt: skip
        P, R, Z, w, nu, H = parts
        model, other = LatentMDP(P, R, w, nu, H, Z=Z, **options), in_state(*parts, **options)
        assert model.S * Z.shape[-1] == other.S
        assert np.allclose(model.P, P)
        a, b = (lm.plan(m, gap=None) for m in (model, other))
        assert a.lower == pytest.approx(b.lower, abs=1e-8)
        assert a.upper == pytest.approx(b.upper, abs=1e-8)
        assert lm.evaluate(model, a).value == pytest.approx(a.lower)
        if model.H * model.S * model.branching <= 12:
            assert a.lower == pytest.approx(brute.best_history_value(model), abs=1e-8)
        known = lm.context_optimal(model)[0][0]
        assert (w[:, None] * nu * known).sum() == pytest.approx(
            lm.planning.baselines.knowing_the_context(other)
        )


def test_readings_of_fewer_axes():
    rng = np.random.default_rng(0)
    P, R = rng.dirichlet(np.ones(3), (2, 3, 4)), rng.random((2, 3, 4)) / 5
    rest = {"w": [0.5, 0.5], "nu": [1.0, 0.0, 0.0], "horizon": 4}
    by_state = rng.dirichlet(np.ones(5), 3)
    full = np.broadcast_to(by_state[None, :, None], (2, 3, 4, 5))
    model = LatentMDP(P, R, Z=full, **rest)
    for Z in (by_state, full[:, :, 0], full[0]):
        assert model == LatentMDP(P, R, Z=Z, **rest)
    assert model.readings == 5
    assert "5 readings" in repr(model)
    assert "5 readings" in str(model.describe())
    one = LatentMDP(P, R, Z=np.ones((3, 1)), **rest)
    assert one == LatentMDP(P, R, **rest)  # a single reading says nothing


@pytest.mark.parametrize(
    ("Z", "sentence"),
    [
        (np.ones((3, 3, 4)), r"Z must have the shape .*it is \(3, 3, 4\)"),
        (np.full((3, 2), 0.4), r"Z\[0\] must sum to 1; it sums to 0.8"),
        (np.array([[2.0, -1.0]] * 3), r"Z.* must be at least 0; it is -1.0"),
        (np.full((3, 2), np.nan), "Z.* must be finite"),
    ],
)
def test_bad_readings_are_refused(Z, sentence):
    P, R = np.full((2, 3, 5, 3), 1 / 3), np.zeros((2, 3, 5))
    with pytest.raises(lm.ModelError, match=sentence):
        LatentMDP(P, R, [0.5, 0.5], [1.0, 0.0, 0.0], 2, Z=Z)


@pytest.mark.parametrize("seed", range(8))
def test_beliefs_cursors_advisers_and_rollouts_know_readings(seed):
    rng = np.random.default_rng(seed)
    P, R, Z, w, nu, _ = random_parts(rng, (3, 2, 2, 3, 3))
    model = LatentMDP(P, R, w, nu, 4, Z=Z, observe_rewards=False, max_return=None)
    plan = lm.plan(model, gap=None)
    table = lm.rollout(model, plan, episodes=60, seed=seed)
    assert ("reading" in table) == (model.readings > 1)
    read = table.reading if model.readings > 1 else table.state * 0
    for _, episode in table.assign(reading=read).groupby("episode"):
        cursor, adviser = plan.policy.cursor(int(episode.state.iloc[0])), plan.adviser()
        adviser.start(int(episode.state.iloc[0]))
        belief = w * nu[:, episode.state.iloc[0]]
        for _, row in episode.iterrows():
            np.testing.assert_allclose(row.belief, belief / belief.sum(), atol=1e-12)
            seen = {"reading": int(row.reading)} if model.readings > 1 else {}
            assert cursor.action == adviser.action == row.action
            cursor.observe(int(row.next_state), **seen)
            adviser.observe(int(row.next_state), **seen)
            m = np.arange(model.M)
            likely = P[m, row.state, row.action, row.next_state]
            belief = belief * likely * Z[m, row.next_state, row.action, row.reading]
            again = lm.update_belief(
                model, np.array(row.belief), row.state, row.action, row.next_state, **seen
            )
            np.testing.assert_allclose(again, belief / belief.sum(), atol=1e-12)


def test_what_has_to_be_read_is_asked_for():
    P, Z = np.ones((2, 1, 1, 1)), [[[0.9, 0.1]], [[0.2, 0.8]]]
    model = LatentMDP(
        P, np.zeros((2, 1, 1)), [0.5, 0.5], [1.0], 3, Z=Z, reading_names=["low", "high"],
        observe_rewards=False,
    )  # fmt: skip
    cursor = lm.PolicyGraph.from_belief(model, lambda t, s, b: 0).cursor(0, model)
    with pytest.raises(lm.ModelError, match="the reading must be given"):
        cursor.observe(0)
    with pytest.raises(lm.ModelError, match="reading must be a whole number from 0 to 1; it is 2"):
        cursor.observe(0, reading=2)
    adviser = lm.plan(model).adviser()
    adviser.start(0)
    adviser.observe(0, reading="high")
    np.testing.assert_allclose(adviser.belief, [1 / 9, 8 / 9])
    with pytest.raises(lm.ModelError, match="the model has no readings"):
        lm.plan(lm.make("bandit")).policy.cursor(0).observe(0, reading=1)
    for refused in (
        lambda: lm.learn(model, "mvp", episodes=10),
        lambda: lm.Learner(model, episodes=10),
    ):
        with pytest.raises(lm.ModelError, match=r"learning needs .* has 2 readings"):
            refused()
    assert lm.learn(model.rewards_in_state(), "greedy", episodes=10).updates >= 0


@pytest.mark.parametrize(
    ("spec", "states"),
    [
        ("troubleshoot:faults=3,tests=2,horizon=5", 2),
        ("troubleshoot:faults=4,tests=3,horizon=6,seed=3", 2),
        ("mastermind", 2),
        ("mastermind:colours=2,balls=3,white=1", 2),
    ],
)
def test_domains_in_their_natural_form_have_the_same_values(spec, states):
    natural = lm.make(spec + (",readings=1" if ":" in spec else ":readings=1"))
    encoded = lm.make(spec)
    assert natural.S == states < encoded.S
    assert (natural.M, natural.A, natural.H) == (encoded.M, encoded.A, encoded.H)
    for observe in (True, False):
        plans = [lm.plan(m.replace(observe_rewards=observe), gap=None) for m in (natural, encoded)]
        assert plans[0].status == plans[1].status == "optimal"
        assert plans[0].lower == pytest.approx(plans[1].lower, abs=1e-9)


@pytest.mark.parametrize("ending", ["npz", "json"])
def test_files_hold_readings(tmp_path, ending):
    rng = np.random.default_rng(4)
    for i in range(12):
        P, R, Z, w, nu, H = random_parts(rng, (3, 3, 2, 3, 3))
        names = [f"r{o}" for o in range(Z.shape[-1])]
        model = LatentMDP(P, R, w, nu, H, Z=Z, max_return=None, reading_names=names)
        file = tmp_path / f"{i}.{ending}"
        lm.save(model, file)
        assert lm.load(file) == model
    model = lm.make("troubleshoot:faults=2,tests=1,horizon=3,readings=1")
    lm.save(model, tmp_path / "x.pomdpx")
    assert lm.plan(lm.load(tmp_path / "x.pomdpx", horizon=3), gap=None).lower == pytest.approx(
        lm.plan(model, gap=None).lower
    )


def test_frames_and_csv_hold_readings(tmp_path):
    rng = np.random.default_rng(5)
    for i in range(40):
        P, R, Z, w, nu, H = random_parts(rng, (3, 3, 2, 3, 3))
        names = [f"r{o}" for o in range(Z.shape[-1])] if i % 2 else None
        model = LatentMDP(P, R, w, nu, H, Z=Z, max_return=None, reading_names=names)
        frame = model.to_frame()
        assert ("reading" in frame) == (model.readings > 1)
        if model.readings == 1 or len(np.unique(model.reading)) < model.readings:
            continue  # a reading that never occurs is not in the table
        assert LatentMDP.from_frame(frame, H, nu=nu) == model
        assert LatentMDP.from_frame(frame, H).reading_names == model.reading_names
        (tmp_path / str(i)).mkdir()
        file = tmp_path / str(i) / "x.csv"
        lm.save(model, file)
        back = lm.load(file)
        lost = "reading_names" in lm.formats.not_held(model, file)
        assert back == (model.replace(reading_names=None) if lost else model)


def test_a_state_that_ends_the_episode_reads_nothing_new():
    import pandas as pd

    columns = ["context", "state", "action", "next_state", "probability", "reward", "reading"]
    lines = [
        (0, "ill", "test", "ill", 0.3, 0.0, "low"),
        (0, "ill", "test", "ill", 0.7, 0.0, "high"),
    ]
    lines += [(1, "ill", "test", "well", 1.0, 1.0, "low")]
    model = LatentMDP.from_frame(pd.DataFrame(lines, columns=columns), 2, start="ill")
    assert (model.readings, model.reading_names) == (2, ("low", "high"))
    assert lm.plan(model).lower == pytest.approx(0.5)


@pytest.mark.filterwarnings("ignore::UserWarning:gymnasium")
def test_environments_show_pairs():
    from gymnasium.utils.env_checker import check_env

    rng = np.random.default_rng(6)
    P, R = rng.dirichlet(np.ones(2), (2, 2, 2)), rng.random((2, 2, 2)) / 5
    Z = rng.dirichlet(np.ones(3), (2, 2, 2))
    model = LatentMDP(P, R, [0.3, 0.7], [0.5, 0.5], 5, Z=Z)
    check_env(lm.LatentMDPEnv(model), skip_render_check=True)
    n = 4000
    envs = lm.LatentMDPVectorEnv(model, n)
    before, _ = envs.reset(seed=0, options={"context": 1})
    assert before in envs.observation_space
    assert (before[:, 1] == 3).all()  # nothing was read yet
    for _ in range(7):  # one more episode begins on the way
        actions = rng.integers(0, 2, n)
        after, *_, infos = envs.step(actions)
        assert after in envs.observation_space
        started = after[:, 1] == 3
        assert started.all() or not started.any()
        if not started.any() and "_context" not in infos:
            np.testing.assert_array_equal(infos["symbol"] % 3, after[:, 1])
        before = after
    same, _ = envs.reset(seed=1, options={"context": 0})
    after, *_ = envs.step(np.zeros(n, dtype=int))
    for s in range(2):
        came = after[(same[:, 0] == s)]
        joint = np.zeros((2, 3))
        np.add.at(joint, (came[:, 0], came[:, 1]), 1 / len(came))
        wanted = P[0, s, 0][:, None] * Z[0, :, 0]
        # false alarms: 12 cells at 5 standard errors, below 1e-5
        assert (abs(joint - wanted) < 5 * np.sqrt(wanted / len(came)) + 1e-9).all()
