"""Statistics of ragged studies against obvious twins in plain Python.

Ragged: models that sweep different keys, models and functions in one study, missing runs, runs
without the metric. Every aggregation is compared with a slow one on rows as dictionaries.
"""

import itertools
import math
import re
from collections import defaultdict

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from latentmdp.errors import ModelError
from latentmdp.experiments.compare import compare, compare_all, performance_profile
from latentmdp.experiments.exponents import exponents
from latentmdp.report.study_page import write_study_page

KEYS = ("H", "size", "slip")


def ragged(seed):
    """A study's table: each model sweeps keys of its own, some runs are missing."""
    rng = np.random.default_rng(seed)
    rows = []
    for kind, name in [("model", "maze"), ("model", "bandit"), ("task", "call"), ("model", "one")]:
        if kind == "task" and rng.random() < 0.5:
            continue
        swept = [] if name == "one" else [key for key in KEYS if rng.random() < 0.5]
        values = [sorted(rng.choice([1.0, 2.0, 4.0, 8.0], 3, replace=False)) for _ in swept]
        for place in itertools.product(*values):
            for algorithm, run in itertools.product(("mvp", "random", "ucrl"), range(3)):
                if rng.random() < 0.15:
                    continue
                regret = math.nan if rng.random() < 0.05 else float(rng.integers(0, 6))
                row = {kind: name, **dict(zip(swept, place, strict=True)), "algorithm": algorithm}
                if kind == "model":
                    row["policy_class"] = "markov"
                rows.append(row | {"seed": run, "regret": regret})
    names = ["task", "model", *KEYS, "algorithm", "policy_class", "seed", "regret"]
    found = pd.DataFrame(rows)
    found = found[[name for name in names if name in found]]
    return found.assign(id=[f"run-{i}" for i in range(len(found))])


def rows_of(table):
    """The rows with a metric, as dictionaries without what is missing."""
    rows = [{k: v for k, v in row.items() if v == v} for row in table.to_dict("records")]
    return [row for row in rows if "regret" in row]


def problem(row, without=()):
    names = ("task", "model", *KEYS, "policy_class")
    return tuple((name, row[name]) for name in names if name in row and name not in without)


@pytest.mark.parametrize("seed", range(40))
def test_profile(seed):
    table = ragged(seed)
    places, names = defaultdict(dict), {row["algorithm"] for row in rows_of(table)}
    for row in rows_of(table):
        places[problem(row), row["seed"]][row["algorithm"]] = row["regret"]
    found = performance_profile(table, points=7)
    assert set(found["learner"]) == names
    for _, line in found.iterrows():
        within = 0
        for by_name in places.values():
            best, own = min(by_name.values()), by_name.get(line.learner)
            if own is not None:  # a missing run is beyond every factor
                within += own == best or (best > 0 and own / best <= line.factor)
        assert line.share == pytest.approx(within / len(places))


@pytest.mark.parametrize("seed", range(40))
def test_comparisons(seed):
    table = ragged(seed)
    rows, p_values, corrected = rows_of(table), [], []
    for found in compare_all(table):
        expected = defaultdict(list)
        for x in rows:
            for y in rows:
                same = problem(x) == problem(y) and x["seed"] == y["seed"]
                if same and (x["algorithm"], y["algorithm"]) == (found.a, found.b):
                    expected[problem(x)].append((x["regret"], y["regret"]))
        assert len(found.table) == len(expected)
        for _, line in found.table.iterrows():
            pairs = expected[problem({k: v for k, v in line.items() if v == v})]
            differences = [x - y for x, y in pairs]
            assert line.seeds == len(pairs)
            assert line.mean_a == pytest.approx(np.mean([x for x, _ in pairs]))
            assert line.difference == pytest.approx(np.mean(differences))
            assert line.wins == sum(d < 0 for d in differences)
            assert line.ties == sum(d == 0 for d in differences)
            p = 1.0
            if any(differences):
                p = stats.wilcoxon(differences, zero_method="pratt").pvalue
            assert line.p == pytest.approx(p)
        p_values += found.table.p.tolist()
        corrected += found.table.p_corrected.tolist()
        assert "nan" not in str(found)
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    running = 0.0
    for rank, i in enumerate(order):  # Holm's method over all tests of the study
        running = max(running, min(1.0, p_values[i] * (len(p_values) - rank)))
        assert corrected[i] == pytest.approx(running)


@pytest.mark.parametrize("seed", range(40))
def test_exponents(seed):
    table = ragged(seed)
    for key in [key for key in KEYS if key in table]:
        slopes = defaultdict(list)
        with_key = [row for row in rows_of(table) if key in row and row["regret"] > 0]
        for place in {(problem(row, [key]), row["algorithm"], row["seed"]) for row in with_key}:
            points = [
                (math.log(row[key]), math.log(row["regret"])) for row in with_key
                if (problem(row, [key]), row["algorithm"], row["seed"]) == place
            ]  # fmt: skip
            x, y = (np.array(part) for part in zip(*points, strict=True))
            if len(set(x)) >= 2:
                slope = ((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum()
                slopes[place[:2]].append(slope)
        found = exponents(table, key)
        assert len(found) == len(slopes)
        for _, line in found.iterrows():
            own = {k: v for k, v in line.items() if v == v}
            expected = slopes[problem(own, [key]), line.learner]
            assert line.seeds == len(expected)
            assert line.exponent == pytest.approx(np.mean(expected), abs=1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_the_page(seed, tmp_path):
    """Medians for every problem and learner; curves may be missing for functions."""
    table = ragged(seed).assign(seconds=1.0)
    curves = pd.DataFrame(
        [
            {k: v for k, v in row.items() if k not in ("regret", "seconds")}
            | {"episode": episode, "regret": 1.0 * episode}
            for row in table.to_dict("records")
            if row.get("model") == row.get("model")
            for episode in (1, 10)
        ]
    )
    curves = curves.dropna(axis=1, how="all")
    write_study_page(tmp_path / "page.html", table, curves, title="ragged")
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert not re.search(r"\bnan\b", html)
    rows = rows_of(table)
    kept = table[table["regret"].notna()]
    told = [
        name
        for name in ("model", "task", *KEYS, "policy_class")
        if name in ("model", "task") or kept.get(name, table.seed * 0).nunique(False) > 1
    ]
    for place in {problem(row) for row in rows}:
        words = [
            str(value) if name in ("model", "task", "policy_class") else f"{name} {value:g}"
            for name, value in place if name in told
        ]  # fmt: skip
        assert f">{', '.join(words)}</th>" in html
    assert f"{len({(problem(r), r['seed']) for r in rows})} pairs of problem and seed" in html


def test_functions_without_a_learner_are_left_out_and_counted(tmp_path):
    table = ragged(1)
    more = pd.DataFrame([{"task": "timing", "seed": 0, "id": "t", "speed": 3.0}])
    table = pd.concat([table, more], ignore_index=True)
    write_study_page(tmp_path / "p.html", table, pd.DataFrame(), title="mixed")
    html = (tmp_path / "p.html").read_text(encoding="utf-8")
    missing = int(table["regret"].isna().sum())
    assert f"{missing} runs of functions without an algorithm or a regret" in html
    assert set(performance_profile(table)["learner"]) == {"mvp", "random", "ucrl"}


def test_learners_that_share_no_problem_are_not_compared():
    rows = [("x", "a", 0, 1.0), ("x", "b", 0, 2.0), ("y", "c", 0, 3.0)]
    table = pd.DataFrame(rows, columns=["model", "algorithm", "seed", "regret"])
    assert [(one.a, one.b) for one in compare_all(table)] == [("a", "b")]
    with pytest.raises(ModelError, match="must have finished runs with the same seeds"):
        compare(table, "a", "c")


def test_two_variants_under_one_name_are_refused_in_a_profile():
    rows = [("x", "a", 0, 1.0), ("x", "a", 0, 9.0), ("x", "b", 0, 2.0)]
    table = pd.DataFrame(rows, columns=["model", "algorithm", "seed", "regret"])
    with pytest.raises(ModelError, match="one run per seed"):
        performance_profile(table)
