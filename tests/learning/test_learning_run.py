"""`learn` and `Run`: exact regret, tables, files; resumed and repeated to the bit."""

import json
import tracemalloc

import numpy as np
import pandas as pd
import pytest

import latentmdp as lm
from latentmdp.learning.learn import learn
from latentmdp.learning.learner import Learner
from latentmdp.learning.run import Run, load_run
from latentmdp.learning.saved.state import FORMAT, checksum
from latentmdp.learning.session import Session
from latentmdp.learning.simulation import simulate_counts, simulate_episodes
from latentmdp.learning.spec import RunSpec
from latentmdp.optimism.confidence import RULES, register

MAZE = "maze:size=3,goals=2,horizon=6"
COLUMNS = [
    "episode", "length", "value", "optimistic_value", "planner_gap", "updates", "kept", "regret",
    "regret_upper",
]  # fmt: skip


def same(one: Run, two: Run) -> bool:
    """The same bits in everything but the clock."""
    counts = [run.state["learner"]["counts"] for run in (one, two)]
    return (
        one.table.equals(two.table)
        and one.policy == two.policy
        and all(np.array_equal(counts[0][k], counts[1][k]) for k in counts[0])
        and one.state["simulation"] == two.state["simulation"]
    )


@pytest.mark.parametrize("simulator", ["counts", "episodes"])
def test_table_is_exact(simulator: str) -> None:
    model = lm.make(MAZE)
    policies = []
    run = learn(model, "random", 3000, seed=1, simulator=simulator, optimal=(0.9, 0.95))
    run.replay(lambda phase: policies.append(phase.policy))
    table = run.table
    assert set(COLUMNS) <= set(table.columns)
    assert table["length"].sum() == run.episodes == 3000
    assert (table["episode"] == 1 + table["length"].cumsum().shift(fill_value=0)).all()
    assert table["updates"].iloc[-1] == run.updates
    assert len(policies) == len(table)
    for value, policy in zip(table["value"], policies, strict=True):
        assert value == pytest.approx(lm.evaluate(model, policy).value, abs=1e-13)
    best = max(0.9, table["value"].max())
    loss = table["length"] * (best - table["value"])
    assert np.allclose(table["regret"], loss.cumsum(), rtol=1e-12)
    assert run.regret == pytest.approx(loss.sum())
    assert run.regret_bounds[1] == pytest.approx(run.regret + 3000 * (max(0.95, best) - best))
    assert run.regret_at([0, 3000]) == pytest.approx([0.0, run.regret])
    assert run.optimal == (0.9, 0.95)
    assert run.final_value == pytest.approx(lm.evaluate(model, run.policy).value)


def test_updates_respect_the_papers_bound() -> None:
    model = lm.make(MAZE)
    for episodes in (1, 10, 10**4, 10**10):
        run = learn(model, "random", episodes, optimal=(1.0, 1.0))
        bound = model.M * model.S * model.A * (np.log2(model.H * episodes) + 1)
        assert 1 <= run.updates <= bound


@pytest.mark.parametrize(
    ("algorithm", "policy_class", "simulator"),
    [
        ("random", "markov", "counts"),
        ("random", "markov", "episodes"),
        ("mvp", "markov", "counts"),
        ("bernstein", "markov", "counts"),
        ("psrl", "markov", "counts"),
        ("mvp", "history", "counts"),
        ("bernstein", "history", "episodes"),
    ],
)
def test_resumed_anywhere_to_the_same_bits(
    algorithm: str, policy_class: str, simulator: str, tmp_path
) -> None:
    model = lm.make(MAZE)
    spec = RunSpec(algorithm, 1000, policy_class, seed=4, simulator=simulator)
    whole = learn(
        model, algorithm, 1000, policy_class, seed=4, simulator=simulator, optimal=(1.0, 1.0)
    )
    session = Session(model, spec)
    phases = 0
    while session.done < session.target:
        session.next_phase()
        phases += 1
        if phases in (1, 2) or phases % 25 == 5:
            Run(model, session.state(), (1.0, 1.0), 0.0).checkpoint(tmp_path)
            before = load_run(tmp_path)
            assert not before.complete
            session = before.session()
    assert same(whole, Run(model, session.state(), (1.0, 1.0), 0.0))


def test_a_long_phase_is_left_and_continued_to_the_same_bits(tmp_path, monkeypatch) -> None:
    """Of the step simulator: stopped in the middle of phases, stored, and gone on with."""
    monkeypatch.setattr("latentmdp.learning.session.EPISODES_PER_CALL", 7)
    model, spec = lm.make(MAZE), RunSpec("random", 3000, seed=2, simulator="episodes")
    whole = learn(model, "random", 3000, seed=2, simulator="episodes", optimal=(1.0, 1.0))
    session, asked, stopped = Session(model, spec), 0, 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked % 10 == 0

    while session.done < session.target:
        session.next_phase(stop=stop)
        if session.pending:
            stopped += 1
            Run(model, session.state(), (1.0, 1.0), 0.0).checkpoint(tmp_path)
            session = load_run(tmp_path).session()
    assert stopped > 20
    assert same(whole, Run(model, session.state(), (1.0, 1.0), 0.0))


@pytest.mark.parametrize("algorithm", ["mvp", "bernstein"])
def test_constant_regret_in_a_deterministic_mdp(algorithm: str) -> None:
    """Var* = 0: what is lost is lost in the first part of the run."""
    run = learn(lm.make("deterministic"), algorithm, 10**10)
    early, late = run.regret_at([10**8, 10**10])
    assert late == early
    assert run.final_value == pytest.approx(run.optimal[0], abs=1e-12)
    assert run.regret < 1e-3 * 10**10


@pytest.mark.parametrize("algorithm", ["mvp", "bernstein"])
def test_optimism_and_learning_on_a_maze(algorithm: str) -> None:
    run = learn(lm.make(MAZE), algorithm, 10**8, seed=1)
    optimum = run.optimal[0]
    assert (run.table["optimistic_value"] >= optimum - 1e-9).all()
    assert (run.table["planner_gap"] >= -1e-12).all()
    assert run.final_value > 0.999 * optimum
    assert run.regret < 0.05 * optimum * 10**8


def test_a_forgotten_corner_is_found() -> None:
    """The best policy's states are unreached at first, and worth much only if acted in well."""
    run = learn(lm.make("riverswim:states=5,horizon=20"), "bernstein", 10**7)
    assert run.final_value > 0.99 * run.optimal[0]


def test_history_policies_beat_markov_ones() -> None:
    model = lm.make("hard:contexts=2,states=11")
    markov, history = (learn(model, "mvp", 10**8, c) for c in ("markov", "history"))
    assert history.final_value > markov.optimal[1] + 0.01
    assert history.final_value > 0.999 * history.optimal[0]


def test_saved_and_loaded(tmp_path) -> None:
    run = learn(lm.make(MAZE), "random", 5000, seed=2, optimal=(0.9, 1.0))
    run.save(tmp_path / "run")
    again = load_run(tmp_path / "run")
    assert same(run, again)
    assert again.complete
    assert again.model == run.model
    assert (again.regret, again.optimal, again.updates) == (run.regret, run.optimal, run.updates)
    table = pd.read_csv(tmp_path / "run" / "table.csv")
    pd.testing.assert_frame_equal(table, run.table, check_exact=True)
    with pytest.raises(lm.ModelError, match="must be a run's folder"):
        load_run(tmp_path)
    (tmp_path / "run" / "run.npz").write_bytes(b"not an archive")
    with pytest.raises(lm.ModelError, match=r"run\.npz"):
        load_run(tmp_path / "run")


@pytest.mark.parametrize("policy_class", ["markov", "history"])
def test_kept_policies_are_the_same_policies_and_certified(policy_class: str) -> None:
    policies = []
    run = learn(lm.make(MAZE), "mvp", 10**5, policy_class, seed=3, optimal=(1.0, 1.0))
    run.replay(lambda phase: policies.append(phase.policy))
    kept = run.table["kept"].to_numpy()
    assert kept[0] == 0
    for i in range(1, len(kept)):
        assert (policies[i] is policies[i - 1]) == kept[i]
    assert run.kept == kept.sum()  # the last phase has no update
    assert 0 < run.kept < run.updates
    assert run.summary()["kept"] == run.kept
    assert learn(lm.make(MAZE), "oracle", 1000).kept > 0
    assert learn(lm.make(MAZE), "random", 1000).kept == 0


def test_memory_stays_flat() -> None:
    """From 10^8 to 10^12 episodes nothing grows but the table, a few hundred bytes a phase."""
    spec = RunSpec("mvp", 10**12, "markov")
    session = Session(lm.make(MAZE), spec)
    while session.done < 10**8:
        session.next_phase()
    tracemalloc.start()
    try:
        begun = len(session.rows)
        while session.done < session.target:
            session.next_phase()
        phases = len(session.rows) - begun
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert phases > 300
    assert grown < 1000 * phases


def changed(path, **fields: object) -> None:
    """Rewrite what a saved state says in its JSON part, as if saved so; None removes a field."""
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    state = json.loads(bytes(arrays["json"]).decode()) | fields
    state = {name: value for name, value in state.items() if value is not None}
    arrays["json"] = np.frombuffer(json.dumps(state).encode(), dtype=np.uint8)
    arrays["digest"] = checksum(arrays)
    np.savez(path, **arrays)


def test_other_formats_are_refused(tmp_path) -> None:
    run = learn(lm.make(MAZE), "random", 100, optimal=(0.9, 1.0))
    run.save(tmp_path)
    for format in (None, 1, 99):
        changed(tmp_path / "run.npz", format=format)
        with pytest.raises(
            lm.ModelError, match=rf"run\.npz: must have format {FORMAT} .*start anew"
        ):
            load_run(tmp_path)
    changed(tmp_path / "run.npz", format=FORMAT, optimal=None)
    with pytest.raises(lm.ModelError, match=r"run\.npz: must hold a whole saved run.*'optimal'"):
        load_run(tmp_path)
    learner = Learner(lm.make(MAZE), "random", episodes=10)
    learner.save(tmp_path / "learner.npz")
    changed(tmp_path / "learner.npz", format=1, written_by="latentmdp 0.0.7")
    with pytest.raises(
        lm.ModelError, match=rf"format {FORMAT} of a saved learner; .* latentmdp 0\.0\.7"
    ):
        Learner.load(tmp_path / "learner.npz")
    changed(tmp_path / "learner.npz", format=FORMAT, updates=None)
    with pytest.raises(lm.ModelError, match=r"must hold a whole saved learner.*'updates'"):
        Learner.load(tmp_path / "learner.npz")


@pytest.mark.parametrize("kind", ["run", "learner"])
def test_what_was_changed_since_it_was_saved_is_refused(kind, tmp_path) -> None:
    """Every array in turn: compiled code would trust it."""
    if kind == "run":
        learn(lm.make(MAZE), "mvp", 100, "history", optimal=(0.9, 1.0)).save(tmp_path)
    else:
        Learner(lm.make(MAZE), "mvp", episodes=10).save(tmp_path / "learner.npz")
    path = tmp_path / f"{kind}.npz"
    with np.load(path, allow_pickle=False) as archive:
        whole = {name: archive[name] for name in archive.files}
    for name, array in whole.items():
        other = array.copy().reshape(-1)
        other = np.append(other, other[:1]) if other.size else np.zeros(1, dtype=array.dtype)
        np.savez(path, **(whole | {name: other}))
        with pytest.raises(lm.ModelError, match=rf"{kind}\.npz: must hold a") as refused:
            load_run(tmp_path) if kind == "run" else Learner.load(path)
        assert "\n" not in str(refused.value)


def test_a_run_and_its_model_stay_together(tmp_path) -> None:
    one, two = (
        learn(lm.make(spec), "random", 100, optimal=(0.9, 1.0))
        for spec in (MAZE, "maze:size=3,goals=2,horizon=6,seed=1")
    )
    one.save(tmp_path / "run")
    lm.save(two.model, tmp_path / "run" / "model.npz")
    with pytest.raises(lm.ModelError, match=r"model\.npz: must be the model of run\.npz"):
        load_run(tmp_path / "run")
    one.save(tmp_path / "run", overwrite=True)
    assert same(load_run(tmp_path / "run"), one)
    two.save(tmp_path / "run", overwrite=True)  # another run takes its place, model and all
    assert load_run(tmp_path / "run").model == two.model


def test_more_episodes_continue_the_run() -> None:
    run = learn(lm.make(MAZE), "random", 1000, optimal=(1.0, 1.0))
    longer = run.more(500)
    assert run.episodes == 1000
    assert longer.episodes == 1500
    assert longer.table["length"].sum() == 1500
    first = longer.table[: len(run.table)]
    pd.testing.assert_frame_equal(first[COLUMNS[:-1]], run.table[COLUMNS[:-1]])
    phases = []
    longer.replay(lambda phase: phases.append((phase.episode, phase.length, phase.value)))
    columns = (longer.table[name] for name in ("episode", "length", "value"))
    assert phases == list(zip(*columns, strict=True))
    with pytest.raises(lm.ModelError, match="episodes must be at least 1"):
        run.more(0)


def test_same_seed_same_bits_other_seed_other_run() -> None:
    model = lm.make(MAZE)
    runs = [learn(model, "random", 10**6, seed=seed, optimal=(1.0, 1.0)) for seed in (7, 7, 8)]
    assert same(runs[0], runs[1])
    assert not same(runs[0], runs[2])


def test_audit_keeps_every_phase() -> None:
    model = lm.make(MAZE)
    run = learn(model, "random", 500, optimal=(1.0, 1.0), audit=True)
    assert run.phases is not None
    assert len(run.phases) == len(run.table)
    total = np.zeros(model.M * model.S * model.A)
    for phase in run.phases:
        assert np.array_equal(
            phase.counts.N[phase.counts.n > 0] > 0, phase.counts.N[phase.counts.n > 0] > 0
        )
        node, context, visits = phase.visits
        assert visits.sum() == phase.length * model.H
        row = (context * model.S + phase.policy.state[node]) * model.A + phase.policy.action[node]
        total += np.bincount(row, visits, len(total))
        if phase.triggered:
            nodes, rows, outcomes = phase.path
            assert (phase.policy.step[nodes] == np.arange(model.H)).all()
            assert (phase.policy.action[nodes] == rows % model.A).all()
            assert (model.next[outcomes[:-1]] == phase.policy.state[nodes[1:]]).all()
    assert np.array_equal(total, run.state["learner"]["counts"]["n"])


def test_plot_returns_axes() -> None:
    import matplotlib

    matplotlib.use("Agg")
    run = learn(lm.make(MAZE), "random", 1000, optimal=(0.9, 1.0))
    ax = run.plot()
    assert ax.get_xlabel() == "episodes"
    assert len(ax.lines) == 1
    assert run.plot(ax) is ax
    matplotlib.pyplot.close("all")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"episodes": 0}, "episodes must be a whole number from 1"),
        ({"episodes": 2.5}, "episodes must be a whole number"),
        ({"delta": 2.0}, "delta must lie strictly between"),
        ({"algorithm": "sarsa"}, "algorithm must be one of"),
        ({"simulator": "fast"}, "simulator must be one of counts, episodes"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"seed": 0.5}, "seed must be a whole number"),
        ({"episodes": True}, "episodes must be a whole number"),
        ({"episodes": 10**30}, r"from 1 to 2\^53"),
        ({"episodes": float("nan")}, "episodes must be a whole number"),
        ({"episodes": "many"}, "episodes must be a whole number"),
        ({"delta": float("nan")}, "delta must lie strictly between"),
        ({"delta": "small"}, "delta must be a number"),
        ({"bonus_scale": -1.0}, "bonus_scale must be finite and at least 0"),
        ({"bonus_scale": float("inf")}, "bonus_scale must be finite"),
        ({"bonus_scale": None}, "bonus_scale must be a number"),
        ({"policy_class": "linear"}, "policy_class must be history or markov; it is 'linear'"),
        ({"ties": "coin"}, "ties must be one of secondary, incumbent"),
        ({"algorithm": None}, "algorithm must be one of"),
        ({"optimal": (2.0, 1.0)}, "lower <= upper"),
        ({"optimal": "best"}, "optimal must be a Plan or"),
    ],
)
def test_bad_values(change: dict, match: str) -> None:
    arguments = {"algorithm": "random", "episodes": 10, "optimal": (1.0, 1.0)} | change
    with pytest.raises(lm.ModelError, match=match):
        learn(lm.make(MAZE), **arguments)


def test_a_run_can_be_read_without_its_rule(tmp_path) -> None:
    register("mine", "bonus", RULES["greedy"].compute)
    try:
        learn(lm.make(MAZE), "mine", 100, optimal=(0.9, 1.0)).save(tmp_path)
    finally:
        del RULES["mine"]
    run = load_run(tmp_path)
    assert run.spec.algorithm == "mine"
    assert repr(run).startswith("Run(mine, markov, 100 episodes, ")
    with pytest.raises(lm.ModelError, match=r"algorithm must be one of .*; it is 'mine'"):
        run.more(10)


def test_a_spec_has_exact_types() -> None:
    spec = RunSpec(episodes=1e3, seed=np.int64(7), delta=np.float32(0.5), bonus_scale=1)
    types = {name: type(getattr(spec, name)) for name in ("episodes", "seed", "delta")}
    assert types == {"episodes": int, "seed": int, "delta": float}
    assert (spec.episodes, spec.seed, spec.delta, spec.bonus_scale) == (1000, 7, 0.5, 1.0)


def test_what_would_read_beside_the_arrays_is_refused() -> None:
    model, larger = (
        lm.make("maze:size=3,goals=2,horizon=4"),
        lm.make("maze:size=4,goals=2,horizon=4"),
    )
    plan = lm.plan(larger, "markov", gap=0.1, work_limit=10**6)
    for algorithm in ("oracle", "greedy"):
        with pytest.raises(lm.ModelError, match="the policy must be for H=4 steps and S=10 states"):
            lm.learn(model, algorithm, episodes=10, optimal=plan)
    for simulate in (simulate_episodes, simulate_counts):
        with pytest.raises(lm.ModelError, match="the policy must be for"):
            simulate(
                model, lm.PolicyGraph.from_table(plan.policy.table), 10
            )  # no names: no transfer
        with pytest.raises(lm.ModelError, match="found a NoneType"):
            simulate(model, None, 10)  # type: ignore[arg-type]


def test_other_kinds_of_input_are_refused_in_a_sentence() -> None:
    with pytest.raises(lm.ModelError, match="learn needs a LatentMDP; it was given a str"):
        lm.learn("maze", episodes=10)  # type: ignore[arg-type]
    with pytest.raises(lm.ModelError, match="audit needs a Run, as learn gives"):
        lm.audit("run")  # type: ignore[arg-type]
    model = lm.make("bandit")
    for setting in ({"bonus_scale": 1e300}, {"delta": 1e-320}):
        with pytest.raises(lm.ModelError, match="delta must be at least 1e-200 and bonus_scale"):
            lm.learn(model, episodes=10, optimal=(0.0, 1.0), **setting)  # type: ignore[arg-type]
    visits = np.full((model.M, model.S, model.A, model.S), 2**62)
    with pytest.raises(lm.ModelError, match="visits of a row must stay below 2"):
        lm.optimistic_plan(model, visits)


@pytest.mark.parametrize("algorithm", ["mvp", "bernstein"])
def test_a_certain_path_of_more_nodes_than_are_planned_with(algorithm):
    """All nodes are equally likely: a limit on likelihood would leave none of them."""
    H = 8_200
    P, R = np.ones((2, 1, 2, 1)), np.array([[[0.3, 0.6]]] * 2) / H
    model = lm.LatentMDP.from_arrays(P, R, [0.5, 0.5], [[1.0], [1.0]], H, observe_rewards=False)
    run = learn(model, algorithm, 60, policy_class="history", optimal=(0.6, 0.6))
    assert 0.3 - 1e-9 <= run.final_value <= 0.6 + 1e-9


def test_spec_is_the_old_name_of_run_spec():
    from latentmdp.learning import spec

    with pytest.warns(DeprecationWarning, match="is now called RunSpec"):
        assert spec.Spec is spec.RunSpec
