"""Pictures: on the axes given, files by ending, what they show. How they look, people looked at."""

import subprocess
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

import latentmdp as lm
from latentmdp.builtin_domains import DOMAINS
from latentmdp.drawing import draw_model, draw_policy, save_picture
from latentmdp.drawing.canvas import PINK, YELLOW
from latentmdp.drawing.diagram import diagram_places, is_readable
from latentmdp.drawing.grid import grid_places
from latentmdp.drawing.policies import action_directions, action_shares


def texts(ax):
    return [text.get_text() for text in ax.texts]


def picture_of(ax):
    figure = ax.get_figure(root=True)
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba()).copy()


@pytest.mark.parametrize("name", [*DOMAINS, "garnet:states=60", "maze:size=20,walls=0.3,goals=30"])
def test_every_domain_can_be_drawn(name):
    model = lm.make(name)
    ax = draw_model(model)
    assert f"{model.S} states" in ax.get_title()
    assert (picture_of(ax)[:, :, :3] < 200).any()
    one = draw_model(model, context=model.M - 1)
    assert one.get_title().startswith(model.context_names[-1])


def test_the_given_axes_are_used():
    figure = Figure()
    left, right = figure.subplots(1, 2)
    model = lm.make("maze")
    assert draw_model(model, ax=left) is left
    table = lm.PolicyGraph.from_table(np.zeros((model.H, model.S), dtype=int))
    assert draw_policy(model, table, 0, ax=right) is right
    assert len(figure.axes) == 2


def test_pyplot_is_never_imported(tmp_path):
    code = (
        "import sys, latentmdp as lm; from latentmdp.drawing import save_picture; "
        "assert 'matplotlib' not in sys.modules; "
        "save_picture(lm.make('maze:size=2,goals=1'), sys.argv[1]); "
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path / "x.png"], check=True)


def test_a_maze_shows_walls_start_and_goals():
    model = lm.make("maze:size=5,goals=3,walls=4")
    everything = texts(draw_model(model))
    assert [t for t in everything if t in "ABC"] == ["A", "B", "C"]
    assert everything.count("S") == 1
    assert "done" in everything
    one = texts(draw_model(model, context=1))
    assert "B" in one
    assert "A" not in one


def test_places_follow_the_layout():
    model = lm.make("maze:size=3,goals=2")
    place = grid_places(model)
    np.testing.assert_array_equal(place[5], [2, 1])  # row 1, column 2
    assert place[9, 1] == 3  # `done` lies below the grid


def test_diagram_columns_are_distances_and_unused_states_are_left_out():
    model = lm.make("hard:contexts=3,states=14")
    place = diagram_places(model, 0)
    columns = np.unique(place[np.isfinite(place[:, 0]), 0])
    assert len(columns) == 3 + 3 + 1  # d1, d2, and g with t
    np.testing.assert_allclose(np.diff(columns), columns[1] - columns[0])
    unused = [i for i, name in enumerate(model.state_names) if name.startswith("unused")]
    assert unused
    assert np.isnan(place[unused]).all()
    assert "never visited" in draw_model(model).get_title()
    visited = place[np.isfinite(place[:, 0])]
    assert len({tuple(p) for p in visited.tolist()}) == len(visited)


def test_large_models_become_a_matrix():
    model = lm.make("garnet:states=60")
    assert not is_readable(model, None)
    (image,) = draw_model(model).images
    rows = np.asarray(image.get_array())
    np.testing.assert_allclose(rows.sum(axis=1), 1)
    expected = np.einsum("m,msan->sn", model.w, model.P) / model.A
    np.testing.assert_allclose(rows, expected)


def numbers_in(ax):
    return sorted(float(t) for t in texts(ax) if t.replace(".", "", 1).isdigit())


@pytest.mark.parametrize("seed", range(8))
def test_all_contexts_together_are_their_mixture(seed):
    """And not the largest probability that any context has, whose rows sum to more than 1."""
    rng = np.random.default_rng(seed)
    P, w = rng.dirichlet([0.7, 0.7, 0.7], (3, 3, 2)), rng.dirichlet([1.0, 1.0, 1.0])
    R = rng.random((3, 3, 2)) - rng.random((3, 1))
    model = lm.LatentMDP.from_arrays(
        P, R, w, [[1, 0, 0]] * 3, 3, max_return=None, state_names=["x", "y", "z"]
    )
    for context, weight in ((None, w), (1, np.eye(3)[1])):
        ax = draw_model(model, context)
        mean = np.einsum("m,msan->san", weight, P)
        drawn = [mean[s, a, n] for s in range(3) for a in range(2) for n in range(3) if s != n]
        assert numbers_in(ax) == sorted(float(f"{p:.2g}") for p in drawn)
        assert ("average of the contexts" in ax.get_title()) == (context is None)
        fills = [line.get_markerfacecolor() for line in ax.lines if line.get_marker() == "o"]
        best = np.tensordot(weight, R, axes=1).max(axis=1)
        assert fills.count(YELLOW) == (best > 0).sum()
        assert fills.count(PINK) == (best < 0).sum()
        legend = [text.get_text() for text in ax.get_legend().get_texts()]
        assert ("can pay at once" in legend, "every action costs" in legend) == (
            (best > 0).any(), (best < 0).any(),
        )  # fmt: skip


def test_contexts_of_weight_0_are_in_no_mixture():
    P = np.zeros((2, 3, 1, 3))
    P[0, :, 0, 1] = P[1, :, 0, 2] = 1.0
    nu = [[1, 0, 0], [0, 0, 1]]
    model = lm.LatentMDP.from_arrays(P, np.ones((2, 3, 1)), [1.0, 0.0], nu, 2, max_return=None)
    assert np.isfinite(diagram_places(model, None)[:, 0]).tolist() == [True, True, False]
    assert "1 never visited" in draw_model(model).get_title()


def test_arrows_point_where_actions_go():
    maze = action_directions(lm.make("maze:slip=0.3,walls=4"))
    np.testing.assert_allclose(maze, [[0, -1], [1, 0], [0, 1], [-1, 0]], atol=0.35)
    river = action_directions(lm.make("riverswim"))
    np.testing.assert_allclose(river, [[-1, 0], [1, 0]])


def test_shares_are_probabilities_of_state_and_action():
    model = lm.make("garnet:states=5,actions=3,contexts=2,horizon=4")
    policy = lm.PolicyGraph.from_belief(model, lambda step, state, b: int(b[0] > 0.5) + step % 2)
    state = np.array([(model.w[:, None] * model.nu).sum(axis=0)])
    np.testing.assert_allclose(action_shares(model, policy, 0).sum(axis=1), state[0])
    for step in range(4):
        share = action_shares(model, policy, step)
        assert share.sum() == pytest.approx(1)
        assert set(np.flatnonzero(share.sum(axis=0))) <= {step % 2, 1 + step % 2}
    ax = draw_policy(model, policy, 2)
    assert any(text.endswith("%") for text in texts(ax))


def test_a_policy_with_memory_has_several_arrows_in_one_cell():
    model = lm.make("maze:size=3,goals=4,slip=0,horizon=6")
    policy = lm.PolicyGraph.from_belief(
        model, lambda step, state, b: int(np.argmax(b)) if step > 2 else step % 4
    )
    ax = draw_policy(model, policy, 4)
    assert "step 4" in ax.get_title()
    markov = lm.PolicyGraph.from_table(np.zeros((6, model.S), dtype=int))
    assert (picture_of(ax) != picture_of(draw_policy(model, markov, 4))).any()


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_files_by_ending(tmp_path, ending):
    path = tmp_path / f"picture.{ending}"
    model = lm.make("maze:size=3,goals=2")
    assert save_picture(model, path) == path
    start = path.read_bytes()[:100]
    assert start.startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[ending])
    assert list(tmp_path.iterdir()) == [path]  # no temporary file stays
    table = lm.PolicyGraph.from_table(np.zeros((model.H, model.S), dtype=int))
    save_picture(model, path, policy=table, step=3)
    assert path.read_bytes()[:4] == start[:4]


def test_refusals(tmp_path):
    model = lm.make("maze:size=3,goals=2,horizon=4")
    with pytest.raises(lm.ModelError, match=r"must end in .png, .svg, .pdf; it is 'x.gif'"):
        save_picture(model, tmp_path / "x.gif")
    with pytest.raises(lm.ModelError, match="the folder of the picture must exist"):
        save_picture(model, tmp_path / "absent" / "x.png")
    with pytest.raises(lm.ModelError, match="context must be between 0 and 1; it is 2"):
        draw_model(model, context=2)
    table = lm.PolicyGraph.from_table(np.zeros((4, model.S), dtype=int))
    with pytest.raises(lm.ModelError, match="step must be between 0 and 3; it is 4"):
        draw_policy(model, table, 4)
