"""Search settings: runs keep them, say what is not as usual, and go on with their own only."""

from dataclasses import replace

import pytest

import latentmdp as lm
from latentmdp.optimism.settings import SEARCH, SearchSettings


def test_only_what_is_not_as_usual_is_shown():
    assert repr(SEARCH) == "SearchSettings()"
    assert repr(replace(SEARCH, tilt=2.0, few_states=6)) == "SearchSettings(tilt=2.0, few_states=6)"
    assert eval(repr(replace(SEARCH, ladder=(0.5,)))) == SearchSettings(ladder=(0.5,))


def test_a_run_with_other_settings_keeps_them_and_is_only_read(tmp_path):
    model, other = lm.make("hard:contexts=2,states=6"), replace(SEARCH, further_searches=0)
    run = lm.learn(model, "mvp", 300, bonus_scale=0.001, settings=other)
    assert run.settings["further_searches"] == 0
    run.save(tmp_path / "run")
    found = lm.load_run(tmp_path / "run")
    assert found.table.equals(run.table)
    assert found.settings == run.settings
    with pytest.raises(lm.ModelError, match=r"further_searches must be 8 .* is only read"):
        found.more(100)
