"""Figures: they show their data, to all eyes, in vector files, and nothing pops up."""

import sys

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb

import latentmdp as lm
from latentmdp import plot
from latentmdp.drawing.canvas import PALETTE
from latentmdp.planning.plan import Plan

NASTY = ("$x^", "a_b$", "<b>&", "50%", "\\frac{1}{", "r")


@pytest.fixture
def maze():
    return lm.make("maze:size=3,goals=2,horizon=4,seed=0,walls=1")


def run_table(scale=1.0, phases=6):
    length = 2 ** np.arange(phases)
    loss = scale * np.linspace(0.5, 0.0, phases)
    return pd.DataFrame(
        {"episode": np.cumsum(length) - length + 1, "length": length,
         "regret": np.cumsum(length * loss)}
    )  # fmt: skip


def a_plan(history=((0.1, 5, 0.2, 0.9), (0.4, 9, 0.5, 0.6))):
    policy = lm.PolicyGraph.from_table([[0]])
    return Plan(policy, 0.5, 0.55, "gap", "x", "markov", 3, 9, 0.5, history)


def labels(ax):
    return ax.get_legend_handles_labels()[1]


def all_axes(maze):
    """One picture of each kind."""
    policy = lm.PolicyGraph.from_belief(maze, lambda t, s, b: int(s + 3 * b[0]) % 4)
    beliefs = np.array([[0.5, 0.5], [0.2, 0.8], [0.0, 1.0]])
    table = pd.DataFrame({"H": [1, 2, 4, 8] * 2, "regret": [1, 2, 4, 8, 3, 3, 3, 3],
                          "who": ["a"] * 4 + ["b"] * 4})  # fmt: skip
    return {
        "regret": plot.regret({"one": run_table(), "two": [run_table(2), run_table(3)]}),
        "bounds": plot.bounds(a_plan()),
        "scaling": plot.scaling(table, "H", "regret", by="who"),
        "belief": plot.belief(beliefs, model=maze, true=1),
        "maze": plot.maze(maze, policy, 1, visits=np.arange(maze.S)),
        "policy": plot.policy_graph(policy, maze),
    }


def test_all_are_written_as_vectors_and_nothing_is_shown(maze, tmp_path):
    shown = (
        len(sys.modules["matplotlib.pyplot"].get_fignums())
        if "matplotlib.pyplot" in sys.modules
        else 0
    )
    for name, ax in all_axes(maze).items():
        for ending in ("pdf", "svg", "png"):
            path = plot.save(ax, tmp_path / f"{name}.{ending}")
            assert path.stat().st_size > 2000
        text = (tmp_path / f"{name}.svg").read_text(encoding="utf-8")
        assert "<text" in text  # text stays text
        assert "<image" not in text
        assert b"/Type3" not in (tmp_path / f"{name}.pdf").read_bytes()
    if "matplotlib.pyplot" in sys.modules:
        assert len(sys.modules["matplotlib.pyplot"].get_fignums()) == shown


def test_sizes_are_columns_and_given_axes_are_used(maze):
    assert plot.regret(run_table()).figure.get_size_inches()[0] == plot.ONE_COLUMN
    wide = plot.axes(plot.TWO_COLUMNS, 2.0)
    assert plot.regret(run_table(), wide) is wide
    assert plot.bounds(a_plan(), wide) is wide
    assert tuple(wide.figure.get_size_inches()) == (plot.TWO_COLUMNS, 2.0)


def test_settings_of_the_user_are_left_alone(maze):
    before = dict(matplotlib.rcParams)
    all_axes(maze)
    assert dict(matplotlib.rcParams) == before


def test_regret_is_exact_between_phases_and_bands_span_the_seeds():
    ax = plot.regret({"x": [run_table(1), run_table(2), run_table(4)]}, log=False)
    line = ax.lines[0]
    ends, loss, _ = plot._curve(run_table(2))
    assert np.allclose(line.get_ydata(), np.interp(line.get_xdata(), ends, loss))
    band = ax.collections[0].get_paths()[0].vertices
    top = plot._curve(run_table(4))[1][-1]
    assert band[:, 1].max() == pytest.approx(top)
    assert labels(ax) == ["x"]


def test_regret_takes_runs_and_bounds():
    model = lm.make("bandit:contexts=2,arms=2,horizon=2")
    from latentmdp.learning.learn import learn

    run = learn(model, "random", episodes=100, optimal=(0.4, 0.5))
    ax = plot.regret(run, bounds={"limit": ([1, 100], [5, 50])})
    assert ax.get_xscale() == ax.get_yscale() == "log"
    assert ax.lines[0].get_ydata()[-1] == pytest.approx(run.regret)
    assert labels(ax) == ["limit"]


def test_exponents_are_fitted_with_their_interval():
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(200):
        x = np.array([1.0, 2, 4, 8, 16, 32])
        y = 3 * x**0.5 * np.exp(0.1 * rng.standard_normal(6))
        slope, half, _ = plot.fit_exponent(x, y)
        inside += abs(slope - 0.5) <= half
    assert 178 <= inside <= 200  # 190 expected; outside with probability below 0.001
    assert plot.fit_exponent(np.ones(3), np.ones(3)) is None
    assert plot.fit_exponent(np.array([1.0, 2]), np.array([1.0, 4]))[0] == pytest.approx(2)


def test_bounds_end_with_the_certificate():
    ax = plot.bounds(a_plan())
    assert [line.get_ydata()[-1] for line in ax.lines] == [0.5, 0.55]
    assert plot.bounds({"a": a_plan(()), "b": a_plan()}).lines[0].get_ydata().tolist() == [0.5]


def test_policy_graph_shows_what_can_be_reached(maze):
    policy = lm.PolicyGraph.from_belief(maze, lambda t, s, b: int(s + 3 * b[0]) % 4)
    reached = int((lm.reach_weights(maze, policy).sum(axis=1) > 0).sum())
    ax = plot.policy_graph(policy, maze, max_nodes=10**6)
    assert sum(len(dots.get_offsets()) for dots in ax.collections) == reached
    few = plot.policy_graph(policy, maze, max_nodes=3)
    assert sum(len(dots.get_offsets()) for dots in few.collections) == 3
    assert "left out" in few.get_xlabel()
    assert plot.policy_graph(policy).collections


def test_names_are_text_not_mathematics(tmp_path):
    P = np.tile(np.eye(6)[(np.arange(6) + 1) % 6], (2, 1, 1))[:, :, None, :]
    model = lm.LatentMDP.from_arrays(
        P, np.zeros((2, 6, 1)), [0.5, 0.5], np.eye(6)[[0, 1]], 3, state_names=NASTY,
        action_names=["$a^"], context_names=["$", "\\bad$"],
    )  # fmt: skip
    policy = lm.PolicyGraph.from_table(np.zeros((3, 6), dtype=int))
    plot.save(plot.policy_graph(policy, model), tmp_path / "a.svg")
    plot.save(plot.belief([[0.5, 0.5]], model=model), tmp_path / "b.svg")
    assert "$x^" in (tmp_path / "a.svg").read_text(encoding="utf-8")


def test_colours_are_told_apart_by_all_eyes():
    """In each kind of dichromacy (Machado et al. 2009) no two colours of the palette coincide."""
    views = {
        "red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                [-0.003882, -0.048116, 1.051998]],
        "green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                  [-0.01182, 0.04294, 0.968881]],
        "blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                 [0.004733, 0.691367, 0.3039]],
    }  # fmt: skip
    light = ((np.array([to_rgb(colour) for colour in PALETTE]) + 0.055) / 1.055) ** 2.4
    for view in views.values():
        seen = np.clip(light @ np.array(view).T, 0, 1) ** (1 / 2.4)
        apart = np.linalg.norm(seen[:, None] - seen[None], axis=2)
        assert apart[np.triu_indices(len(seen), 1)].min() > 0.1
    looks = [(plot._line_style(i)["color"], str(plot._line_style(i)["ls"])) for i in range(14)]
    assert len(set(looks)) == 14  # colours and dashes together


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda m: plot.regret({}), "at least one table"),
        (lambda m: plot.regret(pd.DataFrame({"episode": [1]})), "lacks"),
        (lambda m: plot.scaling(pd.DataFrame({"a": [1]}), "a", "b"), "column 'b'"),
        (lambda m: plot.scaling(pd.DataFrame({"a": [0], "b": [1]}), "a", "b"), "above 0"),
        (lambda m: plot.belief([[0.5, 0.4]]), "sum to 1"),
        (lambda m: plot.maze(lm.make("bandit")), "layout"),
        (lambda m: plot.maze(m, visits=[1]), "visits"),
        (lambda m: plot.maze(m, lm.PolicyGraph.from_table(np.zeros((4, m.S), int)), 9), "step"),
        (lambda m: plot.save(plot.axes(), "x.doc"), "must end in"),
    ],
)
def test_bad_input_is_refused(maze, draw, words):
    with pytest.raises(lm.ModelError, match=words):
        draw(maze)
