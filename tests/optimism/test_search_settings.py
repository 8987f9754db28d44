"""Search settings: runs keep them, say what is not as usual, and go on with their own."""

from dataclasses import fields, replace
from importlib import import_module

import pytest

import latentmdp as lm
from latentmdp.learning.knowledge import nothing_known
from latentmdp.optimism.settings import SEARCH, Effort, MemoryKind, SearchEffort

OTHERS = replace(
    SEARCH,
    weight_spread=0.5,
    further_searches=0,
    mix_weights=(0.5,),
    efforts=(Effort(10, 2, 1, True, 1e-9, 1, 1), Effort(1000, 1, 0, False, 1e-7, 1, 0)),
    kinds=(MemoryKind(50, 0.0, every=True), MemoryKind(100, 0.2)),
)


def test_only_what_is_not_as_usual_is_shown():
    assert repr(SEARCH) == "SearchEffort()"
    assert (
        repr(replace(SEARCH, weight_spread=2.0, few_states=6))
        == "SearchEffort(weight_spread=2.0, few_states=6)"
    )
    assert eval(repr(OTHERS)) == OTHERS


def test_records_give_the_settings_back():
    for settings in (SEARCH, OTHERS):
        assert SearchEffort.from_record(settings.record()) == settings


@pytest.mark.parametrize(
    ("name", "wrong", "sentence"),
    [
        ("weight_spread", -1.0, "weight_spread must be a float of at least 0; it is -1.0"),
        ("weight_spread", float("nan"), "weight_spread must be a float of at least 0; it is nan"),
        ("weight_spread", "2", "weight_spread must be a float"),
        ("few_states", True, "few_states must be a whole number from 0 to 1000000; it is True"),
        ("memory_pairs", 10**10, "memory_pairs must be a whole number from 0 to 30000000"),
        ("mix_weights", (), "mix_weights must be a tuple of 1 to 20, each a float; it is ()"),
        ("mix_weights", (0.1, None), "mix_weights[1] must be a float of at least 0; it is None"),
        ("kinds", (MemoryKind(5, 0.1, every=1),), "kinds[0].every must be true or false; it is 1"),
        (
            "kinds",
            (MemoryKind(10**7, 0.1),),
            "kinds[0].nodes must be a whole number from 0 to 1000",
        ),
        ("efforts", (1, 2), "efforts[0] must be an Effort; it is 1"),
        ("whole_histories", None, "whole_histories must be an Effort; it is None"),
    ],
)
def test_what_is_refused(name, wrong, sentence):
    with pytest.raises(lm.ModelError) as refused:
        replace(SEARCH, **{name: wrong})
    assert str(refused.value).startswith(f"settings.{sentence}")


@pytest.mark.parametrize("wrong", [None, [], {}, {"weight_spread": 1.0}])
def test_records_that_are_none(wrong):
    with pytest.raises(lm.ModelError, match="settings must hold the search settings"):
        SearchEffort.from_record(wrong)
    for field in fields(SEARCH):
        for value in ({}, [[]], [[1, 2]], "x", None, -1):
            with pytest.raises(lm.ModelError, match=rf"^settings\.{field.name}"):
                SearchEffort.from_record(SEARCH.record() | {field.name: value})


@pytest.mark.parametrize("policy_class", ["markov", "history"])
def test_a_run_goes_on_and_is_replayed_with_its_own_settings(tmp_path, policy_class):
    model = lm.make("maze:size=2,goals=2,horizon=4")

    def learn(episodes, settings=OTHERS):
        return lm.learn(
            model,
            "mvp",
            episodes,
            policy_class,
            bonus_scale=0.001,
            settings=settings,
        )

    learn(300).save(tmp_path / "run")
    found = lm.load_run(tmp_path / "run")
    assert found.settings == OTHERS.record()
    assert found.table.equals(learn(300).table)
    assert found.more(500).table.equals(learn(300).more(500).table)
    assert not found.more(500).table.equals(learn(300, SEARCH).more(500).table)
    phases = []
    found.replay(phases.append)  # refuses where the bits are not the same
    assert len(phases) == len(found.table)


def test_a_learner_that_estimates_keeps_its_settings():
    """What it knows changes at every update, and with it the solver; the settings do not."""
    learner = lm.Learner(nothing_known(1, 1, 2, 1), episodes=10, estimate={"w"}, settings=OTHERS)
    learner.begin(0)
    learner.step(0.0, 0)
    assert learner.end(0)  # the first visit is an update
    assert learner.solver.settings == OTHERS


@pytest.mark.parametrize(
    ("module", "former", "new"),
    [
        ("latentmdp.optimism", "Known", "Given"),
        ("latentmdp.optimism", "OptimisticModel", "ConfidenceModel"),
        ("latentmdp.optimism", "Setting", "BonusConstants"),
        ("latentmdp.optimism.settings", "SearchSettings", "SearchEffort"),
    ],
)
def test_former_names_say_once_what_they_are_now(module, former, new):
    found = import_module(module)
    vars(found).pop(former, None)
    with pytest.warns(DeprecationWarning, match=f"{former} is now {new}"):
        assert getattr(found, former) is getattr(found, new)
    assert getattr(found, former) is getattr(found, new)  # a second warning would be an error
