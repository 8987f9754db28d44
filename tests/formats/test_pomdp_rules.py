"""Rules with wildcards against a dense table that is filled in order."""

import doctest
from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import latentmdp as lm
from latentmdp.formats.pomdp import rules
from latentmdp.formats.pomdp.rules import ANY, Allowance, Csr, Rules

SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=4)


@st.composite
def tables(draw):
    """A table by rules, and the same one filled cell by cell."""
    sizes = draw(SIZES)
    table, dense = Rules(sizes), np.zeros(sizes)
    for _ in range(draw(st.integers(0, 8))):
        place = [draw(st.integers(ANY, n - 1)) for n in sizes]
        index = tuple(slice(None) if i == ANY else i for i in place)
        open_ = [i for i, k in enumerate(place) if k == ANY]
        if open_ and draw(st.booleans()):
            shape = [sizes[i] for i in open_]
            numbers = st.lists(st.integers(0, 2), min_size=prod(shape), max_size=prod(shape))
            values = np.array(draw(numbers), dtype=float)
            table.add_block(place, open_, values)
            dense[index] = values.reshape(shape)
        else:
            value = float(draw(st.integers(0, 3)))
            table.add(place, value)
            dense[index] = value
    return table, dense


@given(tables())
def test_the_last_rule_holds(pair):
    table, dense = pair
    places = np.array(list(product(*map(range, dense.shape)))).T
    assert np.array_equal(table.lookup(list(places)), dense.reshape(-1))
    matrix = table.expand(Allowance(0), "it")
    row = np.repeat(np.arange(len(matrix.start) - 1), np.diff(matrix.start))
    found = np.zeros((len(matrix.start) - 1, dense.shape[-1]))
    found[row, matrix.column] = matrix.value
    assert np.array_equal(found, dense.reshape(found.shape))
    assert (matrix.value != 0.0).all()
    assert np.array_equal(
        table.lookup(list(places)), dense.reshape(-1)
    )  # expanding changes nothing


@given(st.lists(st.integers(0, 5), min_size=1), st.data())
def test_rows_of_a_matrix_are_gathered_in_order(lengths, data):
    start = np.concatenate([[0], np.cumsum(lengths)])
    matrix = Csr(start, np.arange(start[-1]), np.ones(start[-1]))
    rows = np.array(data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=6)), dtype=int)
    which, k = matrix.entries(rows)
    expected = [(i, j) for i, row in enumerate(rows) for j in range(start[row], start[row + 1])]
    assert list(zip(which.tolist(), k.tolist(), strict=True)) == expected
    assert matrix.count(rows) == len(expected)


def test_the_example_runs():
    assert doctest.testmod(rules).failed == 0


def test_what_a_small_file_unfolds_into_is_counted_before():
    table = Rules((10**4, 10**4, 10**4))
    table.add([ANY, ANY, 0], 1.0)
    with pytest.raises(lm.ModelError, match="must not be far larger than the file"):
        table.expand(Allowance(100), "T")
    table = Rules((10, 10**5, 10**4))
    table.add([ANY, ANY, ANY], 1e-4)
    with pytest.raises(lm.ModelError, match="T would take"):
        table.expand(Allowance(100), "T")
    with pytest.raises(lm.ModelError, match=r"fewer than 2\^62 entries"):
        Rules((2**40, 2**40))
    with pytest.raises(lm.ModelError, match="at most 60 variables; one has 70"):
        Rules([1] * 70)
