"""Every function and test that the paper map names exists."""

import re
from functools import reduce
from importlib import import_module

import pytest
from places import DOCS, ROOT

TEXT = (DOCS / "paper_map.md").read_text(encoding="utf-8")
FUNCTIONS = sorted(set(re.findall(r"`([a-z_.]+):([\w.]+)`", TEXT)))
TESTS = sorted(set(re.findall(r"`(test_\w+\.py)(?:::(\w+))?`", TEXT)))


@pytest.mark.parametrize(("module", "name"), FUNCTIONS)
def test_function_exists(module, name):
    reduce(getattr, name.split("."), import_module(f"latentmdp.{module}"))


@pytest.mark.parametrize(("file", "name"), TESTS)
def test_test_exists(file, name):
    text = (ROOT / "tests" / file).read_text(encoding="utf-8")
    assert not name or f"def {name}(" in text


def test_every_equation_and_algorithm_is_there():
    for number in range(1, 10):
        assert f"({number})" in TEXT, f"Eq. ({number})"
    for number in range(1, 5):
        assert f"Algorithm {number}" in TEXT
