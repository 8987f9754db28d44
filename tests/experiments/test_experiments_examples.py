"""The example studies: they can be read, and (long) the first run of each model is well."""

import places
import pytest

import latentmdp as lm

STUDIES = sorted(places.EXAMPLES.glob("*.toml"))


@pytest.mark.parametrize("path", STUDIES, ids=[path.stem for path in STUDIES])
def test_examples_are_studies(path):
    study = lm.Study.load(path)
    runs = list(study.spec.runs())
    assert study.spec.title
    assert 20 <= len(runs) <= 500
    assert len({run.key for run in runs}) == len(runs)


@pytest.mark.slow
@pytest.mark.parametrize("path", STUDIES, ids=[path.stem for path in STUDIES])
def test_first_runs_of_examples(path, tmp_path):
    study = lm.Study(lm.Study.load(path).spec, tmp_path)
    study.run(jobs=2, only="*-0-*")
    status = study.status("*-0-*")
    assert not status["failures"]
    assert status["left"] == 0
