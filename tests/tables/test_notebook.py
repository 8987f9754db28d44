"""What notebooks show: well-formed, escaped, and nothing that is fetched or run."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import models

import latentmdp as lm
from latentmdp.tables import notebook

HOSTILE = "</td><script>alert('x')</script><img src=x onerror=\"run()\">\x1b[2J&amp;"


def parsed(html):
    """The page as a tree; it must be well-formed and bring nothing along."""
    assert "\x1b" not in html
    tree = ElementTree.fromstring(html)
    allowed = {"div", "strong", "small", "table", "thead", "tbody", "tr", "th", "td"}
    allowed |= {"svg", "rect", "polyline", "text"}
    for element in tree.iter():
        assert element.tag in allowed
        for name, value in element.attrib.items():
            assert not name.startswith("on")
            assert name not in ("href", "src")
            assert "url(" not in value
    return tree


@settings(deadline=None, max_examples=40)
@given(models(), st.text(max_size=30))
def test_models_and_evaluations_of_any_names(model, name):
    names = [f"{name}{m}" for m in range(model.M)]
    model = model.replace(context_names=names)
    tree = parsed(model._repr_html_())
    cells = [cell.text for cell in tree.iter("td")]
    assert notebook.printable(names[0]) in cells or not names[0]
    parsed(lm.evaluate(model, np.zeros((model.H, model.S), dtype=int))._repr_html_())


def test_hostile_names_are_text():
    model = lm.make("maze:size=3,goals=2,horizon=4")
    hostile = model.replace(
        context_names=[HOSTILE + str(m) for m in range(model.M)],
        state_names=[HOSTILE + str(s) for s in range(model.S)],
    )
    plan = lm.plan(hostile)
    run = lm.learn(hostile, "mvp", episodes=100)
    shown = (hostile, plan, lm.evaluate(hostile, plan), run, lm.audit(run))
    for thing in shown:
        html = thing._repr_html_()
        parsed(html)
        assert "<script" not in html
        assert "<img" not in html


def test_a_grid_shows_goals_walls_and_starts():
    model = lm.make("maze:size=4,goals=3,horizon=8,walls=2,seed=2")
    tree = parsed(model._repr_html_())
    assert sorted(mark.text for mark in tree.iter("text")) == ["A", "B", "C"]
    dark = [x for x in tree.iter("rect") if x.get("opacity") == "0.6"]
    assert len(dark) == len(model.layout.walls) == 2
    assert (
        "svg" not in lm.make("garnet").replace(context_names=None)._repr_html_().split("<table")[0]
    )


def test_step_dependent_models_are_shown():
    P, R = np.ones((3, 2, 1, 2, 1)), np.zeros((3, 2, 1, 2))
    model = lm.LatentMDP.from_arrays(P, R, [0.5, 0.5], [[1]] * 2, 3, context_names=["<a>", "b"])
    tree = parsed(model._repr_html_())
    assert "<a>" in [cell.text for cell in tree.iter("td")]


def test_long_tables_and_curves_are_cut():
    wide = lm.make("bandit:contexts=40")
    tree = parsed(wide._repr_html_())
    assert len(list(tree.iter("tr"))) == 1 + notebook.MOST_ROWS
    assert "and 28 more" in wide._repr_html_()
    line = notebook.curves(range(10**5), [("red", range(10**5))], "many")
    assert line.count(",") < 2 * notebook.MOST_POINTS
    assert 'aria-label="many: 0 to 99999; values 0 to 99999"' in line


@pytest.mark.parametrize("values", [[], [float("nan")], [float("inf")]])
def test_nothing_to_draw(values):
    assert notebook.curves(range(len(values)), [("red", values)], "x") == ""


@pytest.mark.parametrize(("value", "low", "high"), [(1, 0, 0), (float("nan"), 0, 1), (9, 0, 1)])
def test_bars_stay_inside(value, low, high):
    left, width = drawn_bar(notebook.bar(value, low, high))
    assert 0 <= left <= left + width <= 120


def drawn_bar(picture):
    """Left end and width of a bar."""
    return tuple(map(float, re.search(r'x="([\d.]+)" width="([\d.]+)"', picture).groups()))


@pytest.mark.parametrize(
    ("value", "low", "high", "expected"),
    [(-3, -4, 0, (30, 90)), (-4, -4, 0, (0, 120)), (-1, -1, 3, (0, 30)), (3, -1, 3, (30, 90)),
     (1, 0, 2, (0, 60))],
)  # fmt: skip
def test_bars_are_drawn_from_zero(value, low, high, expected):
    assert drawn_bar(notebook.bar(value, low, high)) == expected


def test_the_largest_cost_has_the_longest_bar():
    P = np.ones((2, 1, 1, 1))
    model = lm.LatentMDP.from_arrays(
        P, [[[-1.0]], [[-4.0]]], [0.5, 0.5], [[1], [1]], 1, max_return=None
    )
    page = lm.evaluate(model, [[0]])._repr_html_()
    bars = [drawn_bar(picture) for picture in re.findall(r"<svg.*?</svg>", page)]
    assert bars == [(90, 30), (0, 120)]


def test_reports_and_plans_say_their_numbers():
    model = lm.make("maze:size=3,goals=2,horizon=4")
    plan = lm.plan(model)
    assert f"{plan.lower:.6g}" in plan._repr_html_()
    run = lm.learn(model, "mvp", episodes=1000)
    assert run.regret_bracket.text() in run._repr_html_()
    assert "<polyline" in run._repr_html_()
    report = lm.audit(run)
    rows = list(parsed(report._repr_html_()).iter("tr"))
    assert len(rows) == 1 + len(report.rows)
