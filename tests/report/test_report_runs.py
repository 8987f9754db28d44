"""The report's curves, bounds and policies are the runs' own."""

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_pages import Page, decoded, maze, page, runs  # noqa: F401  # fixtures

import latentmdp as lm
from latentmdp.learning.learn import learn
from latentmdp.report import Collector, save_phases, write_report
from latentmdp.report.groups import distinct_models, episode_grid, group_runs
from latentmdp.report.limits import lower_limit, recognised, upper_limit
from latentmdp.report.optimistic import optimistic_actions
from latentmdp.report.phases import choose_phases, run_phases, slim
from latentmdp.report.replay import page_episode

# ---------------------------------------------------------------- curves


def test_curves_are_the_runs_own(page, runs):
    group = Page(page).data["groups"][0]
    at = np.array(group["curves"]["episode"])
    best = max(run.best_value for run in runs)  # all against the same
    both = np.array([run.regret_at(at) + (best - run.best_value) * at for run in runs[:2]])
    for part, expected in (
        ("low", both.min(0)),
        ("middle", np.median(both, 0)),
        ("high", both.max(0)),
    ):
        assert np.allclose(group["curves"]["regret"][part], expected, rtol=1e-5)
    assert at[0] == 1
    assert at[-1] == 3000
    values = [run.table.set_index("episode")["value"] for run in runs[:2]]
    expected = np.median([v.loc[: at[40]].iloc[-1] for v in values])
    assert group["curves"]["value"]["middle"][40] == pytest.approx(expected, rel=1e-5)
    updates = [int((run.table["episode"] <= at[40]).sum()) - 1 for run in runs[:2]]
    assert group["curves"]["updates"]["middle"][40] == np.median(updates)


@given(st.integers(1, 10**12))
def test_grids_begin_and_end_where_the_run_does(episodes):
    grid = episode_grid(episodes)
    assert grid[0] == 1
    assert grid[-1] == episodes
    assert (np.diff(grid) > 0).all()
    assert len(grid) <= 210


def test_groups_are_told_apart_by_what_differs(maze):
    models = [maze, maze.replace(horizon=7)]
    settings = [("mvp", 1.0, 0), ("mvp", 0.5, 0), ("mvp", 1.0, 1), ("random", 1.0, 0)]
    found = [
        learn(models[m], a, episodes=20, bonus_scale=c, optimal=(0.1, 1.0), seed=3)
        for a, c, m in settings
    ]
    found.append(learn(maze, "mvp", episodes=20, optimal=(0.1, 1.0), seed=4))
    found.append(learn(maze, "mvp", episodes=20, optimal=(0.1, 1.0), seed=5))
    found[-1].state["spec"]["delta"] = 0.2
    groups = group_runs(found, distinct_models(found)[1])
    labels = [group.label for group in groups]
    assert labels == [
        "mvp, markov, δ = 0.1, model 1", "mvp, markov, bonus × 0.5, δ = 0.1, model 1",
        "mvp, markov, δ = 0.1, model 2", "random, markov, δ = 0.1, model 1",
        "mvp, markov, δ = 0.2, model 1",
    ]  # fmt: skip
    assert groups[0].runs == (0, 4)


def test_commands_say_what_is_not_a_default(maze, tmp_path):
    run = learn(maze, "mvp", episodes=30, bonus_scale=0.5, delta=0.2, optimal=(0.1, 1.0), seed=7)
    page = Page(write_report(run, tmp_path / "r.html").read_text(encoding="utf-8"))
    (line,) = (text for text in page.texts if text.startswith("latentmdp learn"))
    assert line == (
        "latentmdp learn model.json --algorithm mvp --episodes 30 --class markov --delta 0.2 "
        "--bonus-scale 0.5 --seed 7"
    )


# ---------------------------------------------------------------- bounds


def test_upper_bound_is_drawn_for_the_papers_algorithms_alone(runs):
    grid = np.array([1, 100, 3000])
    bound = upper_limit(runs[0], grid)
    from latentmdp.theory.bounds import upper_bound

    m = runs[0].model
    whole_bound = upper_bound(m.M, m.S, m.A, m.H, 3000, Gamma=m.Gamma, variance=0.25, delta=0.1)
    assert bound["curve"][-1] == pytest.approx(whole_bound.total, rel=1e-5)
    assert all(np.diff(bound["curve"]) >= 0)
    assert upper_limit(runs[2], grid) is None
    assert upper_limit(learn(m, "mvp", episodes=9, bonus_scale=0.5, optimal=(0, 1)), grid) is None


def test_hard_instances_are_recognised_and_bounded_below_where_the_theorem_holds(maze):
    tied = lm.make("hard:contexts=2,states=11,variance=0.25,episodes=20000")
    free = lm.make("hard:contexts=2,states=11,eps=0.2,reward=0.5")
    assert recognised(tied) is not None
    assert recognised(free).x == 0.5
    assert recognised(maze) is None
    assert recognised(maze.replace(state_names=[*"abcdefghi", "g"][: maze.S])) is None

    def least(model, policy_class):
        run = learn(model, "random", episodes=20000, optimal=(0.5, 0.6))
        run.state["spec"]["policy_class"] = policy_class
        return lower_limit(run)

    assert least(tied, "history")["value"] > 0
    assert least(tied, "markov") is None
    assert least(free, "history") is None
    assert least(maze, "history") is None


# ---------------------------------------------------------------- policies of phases


@given(
    st.lists(st.tuples(st.integers(1, 50), st.floats(0, 1)), min_size=1, max_size=60),
    st.integers(1, 15),
)
def test_chosen_phases_hold_first_and_last(rows, count):
    episode = np.cumsum([length for length, _ in rows]) - rows[0][0] + 1
    chosen = choose_phases(episode, np.array([value for _, value in rows]), count)
    assert chosen == sorted(set(chosen))
    assert len(chosen) == min(count, len(rows))
    assert chosen[-1] == len(rows) - 1
    assert chosen[0] == 0 or count == 1


def test_kept_phases_and_a_rerun_give_the_same(maze):
    kept = learn(maze, "mvp", episodes=500, optimal=(0.5, 1.0), audit=True)
    plain = learn(maze, "mvp", episodes=500, optimal=(0.5, 1.0))
    assert run_phases(kept, 5) == run_phases(plain, 5)
    last = run_phases(plain, 1)[0]
    assert last["policy"] == run_phases(plain, 5)[-1]["policy"]
    assert last["value"] == plain.final_value


def test_a_policy_chosen_after_the_last_episode_is_told_apart(maze):
    run = learn(maze, "greedy", episodes=1, optimal=(0.5, 1.0))  # the first episode always triggers
    played, ahead = run_phases(run, 5)
    assert (played["episode"], played["length"]) == (1, 1)
    assert (ahead["number"], ahead["episode"], ahead["length"]) == (1, 2, 0)
    assert ahead["value"] == run.final_value
    assert run_phases(run, 1) == [ahead]
    assert decoded(ahead["policy"]["table"]).tolist() == run.policy.table.reshape(-1).tolist()


def test_phases_left_in_a_runs_folder_are_used_and_only_for_that_run(maze, tmp_path, monkeypatch):
    run = learn(maze, "mvp", episodes=500, optimal=(0.5, 1.0))
    other = learn(maze, "mvp", episodes=500, optimal=(0.5, 1.0), seed=1)
    collector = Collector()
    run.replay(collector)
    assert collector.phases[0].episode == 1
    assert not collector.phases[-1].triggered
    assert len(collector.phases) < 30
    run.save(tmp_path)
    save_phases(run, tmp_path, collector.phases)
    whole_run = {phase["number"]: phase for phase in run_phases(run, 10**6)}
    monkeypatch.setattr(type(run), "replay", lambda *_: pytest.fail("it was played again"))
    for phase in run_phases(run, 8, tmp_path):
        assert json.loads(json.dumps(whole_run[phase["number"]])) == phase
    page = write_report(tmp_path, tmp_path / "r.html").read_text(encoding="utf-8")
    found = Page(page).data["sources"][0]
    assert len(found["phases"]) == 12
    assert found["phases"][-1]["number"] == len(run.table) - 1 == found["total"] - 1
    with pytest.raises(pytest.fail.Exception, match="played again"):
        run_phases(other, 8, tmp_path)


@pytest.fixture(scope="module")
def explored(tmp_path_factory):
    """The files of a run with its phases, for each class."""
    found = {}
    for policy_class in ("markov", "history"):
        folder = tmp_path_factory.mktemp(policy_class)
        model = lm.make("maze:size=2,goals=2,horizon=3")
        run = learn(model, "mvp", 300, policy_class, bonus_scale=0.01, optimal=(0.5, 1.0))
        run.save(folder)
        save_phases(run, folder, count=3)
        found[policy_class] = {path.name: path.read_bytes() for path in folder.iterdir()}
    return found


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda phase: 7.5, "must be a group of entries"),
        (lambda phase: phase | {"episode": "one"}, "episode must be a whole number"),
        (lambda phase: phase | {"episode": 10**6}, "must be that of the run's table"),
        (lambda phase: phase | {"value": 0.123}, "must be that of the run's table"),
        (lambda phase: phase | {"number": -1}, "number must be a whole number"),
        (lambda phase: phase | {"number": 10**9}, "number must be a whole number"),
        (lambda phase: phase | {"policy": {"table": [0, 1]}}, "table must be packed numbers"),
        (lambda phase: phase | {"policy": {"table": "u8:AAAA"}}, "table must have"),
        (lambda phase: phase | {"policy": {"table": "u8:####"}}, "table must be packed numbers"),
        (lambda phase: phase | {"policy": {"step": "u16:A"}}, "must be packed numbers"),
        (lambda phase: phase | {"policy": None}, "policy must be there"),
        (lambda phase: phase | {"visits": "u8:"}, "visits must be"),
        (lambda phase: phase | {"hoped": "q16:AAAA"}, "must be packed|hoped must be"),
        (lambda phase: {k: v for k, v in phase.items() if k != "length"}, "length' must be there"),
    ],
)
@pytest.mark.parametrize("policy_class", ["markov", "history"])
def test_phases_that_were_tampered_with_are_refused(explored, tmp_path, change, said, policy_class):
    for name, raw in explored[policy_class].items():
        (tmp_path / name).write_bytes(raw)
    file = tmp_path / "explorer.json"
    document = json.loads(file.read_text())
    document["phases"][1] = change(document["phases"][1])
    file.write_text(json.dumps(document))
    with pytest.raises(lm.ModelError, match=said) as refused:
        write_report(tmp_path, tmp_path / "r.html")
    assert "explorer.json: must be as save_phases wrote it" in str(refused.value)
    assert "delete the file" in str(refused.value)


@pytest.mark.parametrize("algorithm", ["mvp", "bernstein", "lucrl", "ucrl", "greedy"])
@pytest.mark.parametrize("spec", ["maze:size=2,goals=2,horizon=5,seed=0", "troubleshoot:horizon=4"])
def test_hoped_for_values_are_those_of_the_audit(spec, algorithm):
    """Two programs, written apart: NumPy here, the audit's kernels there."""
    from latentmdp.theory.auditing.optimistic_values import optimistic_alpha

    model = lm.make(spec).normalized()
    run = learn(model, algorithm, episodes=3000, bonus_scale=0.02, optimal=(0, 1), audit=True)
    middling = 0
    for phase in run.phases[:: max(1, len(run.phases) // 8)]:
        values = optimistic_actions(run, phase.counts, phase.policy)
        chosen = values[np.arange(phase.policy.N), :, phase.policy.action]
        expected = optimistic_alpha(model, phase.policy, phase.counts, run.spec)
        assert np.abs(chosen - expected).max() < 1e-12
        assert values.min() >= 0
        assert values.max() <= 1
        middling += int(((values > 0.01) & (values < 0.99)).sum())
    assert middling > 0  # not all at the cap


def test_hoped_for_values_of_a_policy_with_memory(maze):
    from latentmdp.theory.auditing.optimistic_values import optimistic_alpha

    policy = slim(maze, lm.PolicyGraph.from_belief(maze, lambda t, s, b: int(s + 4 * b[0]) % 4))
    assert not policy.is_markov
    run = learn(maze, "mvp", episodes=3000, bonus_scale=0.02, optimal=(0, 1))
    counts = run.session().learner.counts
    values = optimistic_actions(run, counts, policy)
    expected = optimistic_alpha(maze, policy, counts, run.spec)
    assert np.abs(values[np.arange(policy.N), :, policy.action] - expected).max() < 1e-12


def test_page_episodes_follow_the_policy_and_the_librarys_beliefs(maze):
    policy = lm.PolicyGraph.from_belief(maze, lambda t, s, b: int(s + 4 * b[0]) % 4)
    firsts = set()
    for seed in range(20):
        first, steps = page_episode(maze, policy, 1, seed)
        assert steps[0].state == first
        belief = lm.initial_belief(maze, first)
        for a, b in pairwise(steps):
            assert a.next == b.state
            belief = lm.update_belief(maze, belief, a.state, a.action, a.next, symbol=a.symbol)
            assert np.array_equal(a.belief, belief)
        firsts.add(tuple(step.next for step in steps))
    assert len(firsts) > 5  # seeds matter
