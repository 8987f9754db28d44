"""The page of a study: complete, escaped, quick, and sortable in a browser."""

import itertools
import math
import re

import numpy as np
import pandas as pd
import pytest

from latentmdp.errors import ModelError
from latentmdp.experiments.exponents import exponents, swept_numbers
from latentmdp.report.static_chart import Axis, Line, line_chart
from latentmdp.report.study_page import label, write_study_page

HOSTILE = "<script>alert(1)</script>&'"


LEARNERS = ("mvp", "bernstein")


def study_tables(models=("maze", HOSTILE), sizes=(4, 8, 16), seeds=3, learners=LEARNERS):
    """A made-up study: regret grows like `H^0.5` times a learner's constant."""
    rng = np.random.default_rng(0)
    rows, curves = [], []
    episode = np.unique(np.geomspace(1, 10**6, 30).astype(int))
    for model, H, (i, name), seed in itertools.product(
        models, sizes, enumerate(learners), range(seeds)
    ):
        regret = (1 + i) * H**0.5 * 100 * np.exp(rng.normal(0, 0.05))
        key = {"id": f"{model}-{H}-{name}-{seed}", "model": model, "H": H, "algorithm": name,
               "policy_class": "markov", "episodes": 10**6, "seed": seed}  # fmt: skip
        rows.append(key | {"regret": regret, "final_value": 0.9, "updates": 40, "seconds": 0.5})
        curves.append(pd.DataFrame(key | {"episode": episode, "regret": regret * (episode / 1e6)}))
    return pd.DataFrame(rows), pd.concat(curves, ignore_index=True)


def test_the_page_has_every_part_and_no_name_breaks_out(tmp_path):
    runs, curves = study_tables()
    write_study_page(tmp_path / "p.html", runs, curves, title=HOSTILE, notes=["1 run failed"])
    html = (tmp_path / "p.html").read_text(encoding="utf-8")
    for words in ("In short", "Regret", "Scaling", "Who beats whom", "Profiles", "All runs"):
        assert f">{words}</h2>" in html
    assert "<script>alert" not in html
    assert html.count("<svg") >= len(runs.groupby(["model", "H"]))
    assert "1 run failed" in html
    assert not re.search(r"https?://", html.replace("http://www.w3.org/2000/svg", ""))


def test_long_tables_come_after_the_charts_and_empty_columns_not_at_all(tmp_path):
    for models, first in ((("a",), "short"), ([f"model {i}" for i in range(9)], "medians")):
        runs, curves = study_tables(models)
        runs["final_value"] = np.nan
        write_study_page(tmp_path / "p.html", runs, curves, title="t")
        html = (tmp_path / "p.html").read_text(encoding="utf-8")
        sections = re.findall(r"<section[^>]* id=\"(\w+)\"", html)
        where = sections.index(first)
        assert where < sections.index("regret") if first == "short" else where == len(sections) - 2
        table = html[html.index(f'id="{first}"') :].split("</table>")[0]
        assert "seconds" in table
        assert "final value" not in table
        assert "</input>" not in html


def test_exponents_are_the_slopes():
    runs, _ = study_tables()
    assert swept_numbers(runs) == ["H"]
    found = exponents(runs, "H")
    assert len(found) == 4
    assert (abs(found.exponent - 0.5) < 0.15).all()
    assert (found.lower <= found.exponent).all()
    assert (found.seeds == 3).all()


def powers(slopes, sizes, spread=0.0, seed=0):
    """A table of one learner: regret is a power of `x`, another one for each seed."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame([
        {"task": "t", "x": x, "algorithm": "mvp", "seed": i,
         "regret": math.exp(3 * i + spread * rng.standard_normal()) * x**slope}
        for i, slope in enumerate(slopes)  # instances may differ by any factor
        for x in sizes
    ])  # fmt: skip


def test_exponents_of_known_powers():
    for power in (0.0, 0.5, 2.0):
        (found,) = exponents(powers([power] * 5, (1, 2, 4, 8), 0.05), "x").itertuples()
        assert abs(found.exponent - power) < 0.1
        assert 0.0 < found.upper - found.lower < 0.3
        assert found.exponent == pytest.approx((found.lower + found.upper) / 2)
    (alone,) = exponents(powers([0.5], (1, 2, 4)), "x").itertuples()
    assert alone.seeds == 1
    assert math.isnan(alone.lower)
    assert math.isnan(alone.upper)
    assert len(exponents(powers([0.5], (4,)), "x")) == 0
    with pytest.raises(ModelError, match="must have the column 'H'"):
        exponents(powers([0.5], (1, 2)), "H")
    for sizes in ((0, 1, 2), ("small", "large")):
        table = powers([0.5], (1, 2, 3)[: len(sizes)]).assign(x=sizes)
        with pytest.raises(ModelError, match="x must have numbers above 0 for exponents; it has"):
            exponents(table, "x")


def test_intervals_cover_as_often_as_they_say():
    """Slopes that differ between seeds: 95% intervals, 2,000 trials (4 standard errors: 2%)."""
    rng, covered = np.random.default_rng(1), 0
    for _ in range(2000):
        (found,) = exponents(powers(0.5 + 0.2 * rng.standard_normal(5), (1, 4)), "x").itertuples()
        covered += found.lower <= 0.5 <= found.upper
    assert 0.93 < covered / 2000 < 0.97


def test_two_sizes_are_no_part_of_the_page():
    runs, _ = study_tables(sizes=(4, 8))
    assert swept_numbers(runs) == []


def test_tasks_are_drawn_with_what_their_file_says(tmp_path):
    runs = pd.concat([powers([0.5, 0.6], (1, 4, 16)),
                      powers([1.0, 1.1], (2, 4, 8)).assign(task="plain")])  # fmt: skip
    about = {"t": {"size": "K", "setting": HOSTILE, "exponent": 0.25, "note": "as expected"}}
    write_study_page(tmp_path / "p.html", runs, pd.DataFrame(), title="tasks", about=about)
    html = (tmp_path / "p.html").read_text(encoding="utf-8")
    panel, other = html.split("<h3>t</h3>")[1].split("<h3>plain</h3>")
    assert ">K</text>" in panel
    assert ">x</text>" not in panel
    assert "<title>slope 0.25</title>" in panel
    assert panel.count("<circle") == 3  # the theorem's line has no dots
    assert "as expected" in panel
    assert "&lt;script&gt;alert" in panel
    assert "<script>alert" not in html
    assert ">x</text>" in other
    assert "slope" not in other.split("</section>")[0].split("<table")[0]
    assert "0.250" in other  # in the table of exponents


def test_a_thousand_runs_take_little_space(tmp_path):
    runs, curves = study_tables(models=[f"m{i}" for i in range(17)], seeds=10)
    assert len(runs) >= 1000
    write_study_page(tmp_path / "p.html", runs, curves, title="many")
    assert (tmp_path / "p.html").stat().st_size < 3_000_000


def test_small_studies_leave_out_what_they_cannot_say(tmp_path):
    runs, curves = study_tables(models=("maze",), sizes=(4,), seeds=1, learners=("mvp",))
    write_study_page(tmp_path / "p.html", runs, curves, title="one run")
    html = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert "Who beats whom" not in html
    assert "Profiles" not in html


def test_a_study_without_runs_is_refused(tmp_path):
    with pytest.raises(ModelError, match="at least one finished run"):
        write_study_page(tmp_path / "p.html", pd.DataFrame(), pd.DataFrame(), title="none")


def test_charts_leave_out_what_a_logarithm_cannot_show():
    line = Line("a", 0, np.array([0.0, 1.0, 10.0]), np.array([1.0, 0.0, 5.0]))
    chart = line_chart([line], x_label="x", y_label="y", description="d")
    assert chart.count("<circle") == 1
    nothing = line_chart([line._replace(y=np.zeros(3))], x_label="x", y_label="y", description="d")
    assert "nothing to draw" in nothing


def test_rounding_errors_do_not_stretch_a_chart(tmp_path):
    """A learner that is right at first has a regret of 1e-16 there: that is drawn as none."""
    runs, curves = study_tables()
    pages = []
    for first in (0.0, 1e-16):
        changed = curves.assign(regret=curves["regret"].where(curves["episode"] > 2, first))
        write_study_page(tmp_path / "page.html", runs, changed, title="x")
        pages.append((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert pages[0] == pages[1]


def test_logarithmic_axes_have_several_ticks():
    expected = {(2.0, 16.0): (2, 5, 10), (3.0, 4.5): (3, 3.5, 4, 4.5), (1.0, 1e4): (1, 100)}
    for sizes, ticks in expected.items():
        found = Axis(True, *sizes, 0.0, 1.0).ticks()
        assert set(ticks) <= set(found.round(9))
        assert len(found) <= 7


def test_labels_have_names_as_given_and_numbers_for_people():
    names = ["model", "H", "policy_class", "episodes"]
    found = label(names, ["my maze", np.int64(16), "markov", 10**9])
    assert found == "my maze, H 16, markov, episodes 10⁹"


def test_keys_that_a_model_does_not_have_are_left_out(tmp_path):
    swept, curves = study_tables(models=("maze",))
    alone, more = study_tables(models=("bandit",), sizes=(1,))
    runs = pd.concat([swept, alone.assign(H=np.nan)], ignore_index=True)
    curves = pd.concat([curves, more.assign(H=np.nan)], ignore_index=True)
    assert swept_numbers(runs) == ["H"]
    write_study_page(tmp_path / "p.html", runs, curves, title="two kinds")
    html = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert "<h3>bandit</h3>" in html
    assert "<h3>maze, H 16</h3>" in html


UNSEEN = "\0\x07\x1b[31m\x85\u200f\u202egnp.exe\u2066\u2028\ufffe"


def test_what_nobody_sees_is_written_out(tmp_path):
    """Controls and marks of direction, in all names of a page; letters and emoji stay."""
    family = "\U0001f469\u200d\U0001f467 größer 語"
    runs, curves = study_tables(models=(UNSEEN, family), learners=(f"a{UNSEEN}", "b"))
    write_study_page(tmp_path / "p.html", runs, curves, title=f"t{UNSEEN}", notes=[f"n{UNSEEN}"])
    html = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert not set(html) & set(UNSEEN.replace("[31m", "").replace("gnp.exe", ""))
    seen = r"\x00\x07\x1b[31m\x85\u200f\u202egnp.exe\u2066\u2028\ufffe"
    for before in ("<title>t", "<h1>t", "<li>n", "<h3>"):
        assert f"{before}{seen}" in html, before
    assert f">{family}" in html
