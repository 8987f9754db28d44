"""`Study.compare`, `profile`, `exponents` and `study report` on a study that was run."""

import pandas as pd
import pytest
from cli_answers import last_json, only_line
from study_kills import HERE

from latentmdp.commands import cli
from latentmdp.errors import ModelError
from latentmdp.experiments.study import Study
from latentmdp.report.study_page import write_study_page

TOML = """
title = "Three horizons"
episodes = 2000
seeds = 3
algorithms = ["mvp", "random"]

[[models]]
name = "my bandit"
model = "bandit:arms=2,contexts=2,horizon={H}"
sweep = { H = [2, 3, 4] }
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    place = tmp_path_factory.mktemp("study") / "small.toml"
    place.write_text(TOML)
    Study.load(place).run(jobs=1)
    return place


def run(capsys, *arguments):
    code = cli.run([str(argument) for argument in arguments])
    return (code, *capsys.readouterr())


def test_comparisons_profiles_and_exponents(path):
    study = Study.load(path)
    found = study.compare("mvp", "random")
    assert len(found.table) == 3
    assert "my bandit, H 2, markov, episodes 2000: mvp beats random on" in str(found)
    assert set(study.profile().learner) == {"mvp", "random"}
    assert list(study.exponents("H").columns[:2]) == ["model", "policy_class"]


def test_the_page_is_written_beside_the_study(path, capsys):
    code, output, _ = run(capsys, "study", "report", path, "--json")
    assert code == 0
    found = last_json(output)
    assert found["runs"] == 18
    html = path.with_suffix(".html").read_text(encoding="utf-8")
    assert "Three horizons" in html
    assert "my bandit, H 4" in html
    assert ">Scaling</h2>" in html


def test_without_a_finished_run_there_is_a_sentence(tmp_path, capsys):
    (tmp_path / "new.toml").write_text(TOML)
    words = only_line(*run(capsys, "study", "report", tmp_path / "new.toml"))
    assert "at least one finished run" in words


def test_a_study_of_functions_without_regret_has_no_page(tmp_path):
    table = pd.DataFrame({"task": ["roots"], "seed": [0], "value": [2.0]})
    with pytest.raises(ModelError, match="must be learners', or of functions with"):
        write_study_page(tmp_path / "p.html", table, pd.DataFrame(), title="calls")


def test_runs_beyond_the_limits_do_not_count(tmp_path, capsys):
    here = f"{HERE}/study_tasks.py"
    text = f"""
limits = {{ short = 0.5 }}
seeds = 2
[[tasks]]
name = "powers"
function = "{here}:power"
sweep = {{ x = [1, 2, 4], algorithm = ["mvp", "lucrl"] }}
exponent = 0.5
note = "regret is the root of x"
"""
    path = tmp_path / "powers.toml"
    path.write_text(text)
    study = Study.load(path).run(jobs=1)
    assert len(study.table()) == 12
    assert len(study.counted()) == 10
    found = study.exponents("x")
    assert found["exponent"].tolist() == pytest.approx([0.5, 0.5])
    assert study.compare("mvp", "lucrl").table["seeds"].tolist() == [2, 2]  # none at x = 4
    assert run(capsys, "study", "report", path)[0] == 0
    html = path.with_suffix(".html").read_text(encoding="utf-8")
    assert "2 runs with short above 0.5 are left out" in html
    assert "regret is the root of x" in html
    path.write_text(text.replace("short", "shrot"))
    words = only_line(*run(capsys, "study", "report", path))
    assert "line 2: limits must name columns of the table (id, task, x, algorithm" in words
    assert "it has 'shrot'" in words
