"""`Study.compare`, `profile`, `exponents` and `study report` on a study that was run."""

import pandas as pd
import pytest

from cli_answers import last_json, only_line
from latentmdp import cli
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


def test_a_study_of_functions_has_no_page(tmp_path):
    table = pd.DataFrame({"task": ["roots"], "seed": [0], "value": [2.0]})
    with pytest.raises(ModelError, match="must be learners"):
        write_study_page(tmp_path / "p.html", table, pd.DataFrame(), title="calls")
