"""What there is, by name: tables, help and completion say what the code knows."""

import doctest
import subprocess
import sys

import pytest

import latentmdp as lm
from latentmdp.builtin_domains import DOMAINS
from latentmdp.commands import cli
from latentmdp.commands import common as _common
from latentmdp.fitting.off_policy import estimators
from latentmdp.optimism.confidence import RULES
from latentmdp.planning.history.planner import HISTORY_METHODS
from latentmdp.planning.markov.planner import MARKOV_METHODS
from latentmdp.policy.policy_class import POLICY_CLASSES
from latentmdp.runtime import choices
from latentmdp.tables import catalogue

HOME = "latentmdp.optimism.confidence"


def test_examples_in_the_docstrings():
    assert doctest.testmod(catalogue).failed == 0


def test_the_choices_are_those_of_the_code():
    built_in = {name for name, rule in RULES.items() if rule.compute.__module__ == HOME}
    assert set(choices.ALGORITHMS) == {*built_in, "random", "oracle"}
    assert tuple(choices.CLASSES) == POLICY_CLASSES
    assert tuple(choices.METHODS["history"]) == HISTORY_METHODS
    assert tuple(choices.METHODS["markov"]) == MARKOV_METHODS


def test_tables_list_everything():
    table = lm.algorithms()
    assert list(table.columns) == ["name", "description"]
    assert {*RULES, "random", "oracle"} == set(table.name)
    assert (table.description.str.len() > 10).all()
    table = lm.domains()
    assert list(table.name) == list(DOMAINS)
    assert (table.description.str.len() > 10).all()
    for name, keys in zip(table.name, table["keys"], strict=True):
        assert all(f"{key.name}=" in keys for key in DOMAINS[name].keys)


@pytest.mark.parametrize(
    "first",
    ["latentmdp.builtin_domains", "latentmdp.environments", "latentmdp.commands.domains", "os"],
)
def test_lm_domains_is_the_function_whatever_was_imported_before(first):
    code = f"import {first}, latentmdp as lm; lm.make('bandit'); print(len(lm.domains()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == str(len(DOMAINS)), done.stderr


def test_help_lists_algorithms_classes_and_methods(capsys):
    cli.run(["learn", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for name, meaning in (choices.ALGORITHMS | choices.CLASSES).items():
        assert f"{name} {meaning}" in text
    cli.run(["plan", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for methods in choices.METHODS.values():
        for name, meaning in methods.items():
            assert f"{name} {meaning}" in text
    cli.run(["off-policy", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for name, meaning in choices.ESTIMATORS.items():
        assert f"{name} {meaning}" in text
    assert tuple(choices.ESTIMATORS) == estimators.METHODS


def test_help_fits_a_terminal_and_cuts_no_sentence(capsys):
    commands = [command.name for command in cli.app.registered_commands]
    for words in ([], *([name] for name in commands), *(["study", x] for x in ("run", "table"))):
        cli.run([*words, "--help"])
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= 80
        assert not any(line.endswith("...") for line in lines if not line.startswith("Usage:"))


def test_completion():
    class Context:
        params = {"policy_class": "markov"}  # noqa: RUF012

    assert [name for name, _ in _common.complete_algorithm("psrl")] == ["psrl", "psrl-episode"]
    assert [name for name, _ in _common.complete_class("m")] == ["markov"]
    assert [name for name, _ in _common.complete_method(Context, "")] == list(MARKOV_METHODS)
    Context.params = {}
    every = {name for name, _ in _common.complete_method(Context, "")}
    assert every == {*HISTORY_METHODS, *MARKOV_METHODS}
