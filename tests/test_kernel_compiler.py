"""Kernels compiled by the shortened pipeline do what the same functions do in plain Python."""

import operator
import sys
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from numba.core import types
from numba.core.runtime import _nrt_python, rtsys

from latentmdp.canonical import Floats, Ints
from latentmdp.kernels import _cache
from latentmdp.kernels._cache import helper
from latentmdp.kernels._compiler import KernelCompiler
from latentmdp.kernels.flat import record_at, write_header

pytestmark = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="is about what compiling does"
)


kernel = numba.njit(pipeline_class=KernelCompiler)


class Inner(NamedTuple):
    table: Any  # (N, M)
    flags: Any  # (N,) booleans


class Outer(NamedTuple):
    inner: Inner
    value: Any  # (N,)
    cube: Any  # (2, N, M)
    size: int


def example():
    rng = np.random.default_rng(0)
    table, cube = rng.normal(size=(5, 3)), rng.normal(size=(2, 5, 3))
    return Outer(Inner(table, np.zeros(5, np.bool_)), np.zeros(5), cube, 5)


def row_sum(row):
    total = 0.0
    for x in row:
        total += x
    return total


def work(o, small, every_other):
    """Elements by signed, unsigned, negative and mixed indices; rows; fields of fields; writes."""
    last = 0.0
    for n in range(o.size):
        u = np.uint64(n)
        o.value[n] = row_sum_of(o.inner.table[n]) + o.inner.table[n, -1] + o.cube[1, u, 0]
        o.value[-1] += every_other[n]
        o.inner.flags[n] = o.inner.table[n, 0] > 0.0
        small[u] = n * 1000 + o.inner.flags[n]
        if o.inner.flags[n]:
            o = o  # set again, so that its fields may not be read early
            last = o.value[n]
    return last, o.inner.table.shape[1]


def scratch(n):
    return np.zeros(n)


def with_scratch(x):
    """An array made here and one from a helper: both are counted, and freed."""
    a, b = np.empty(len(x)), make_scratch(len(x))
    for i in range(len(x)):
        a[i] = x[i]
        b[i] += 2.0 * a[i]
    return b[-1]


def back(x):
    return x


def test_elements_rows_and_fields():
    twin = example()
    plain = (np.zeros(5, np.int16), np.arange(10.0)[::2])
    global row_sum_of
    row_sum_of = row_sum
    expected = work(twin, *plain)
    row_sum_of = helper(row_sum)
    x, given = example(), (np.zeros(5, np.int16), np.arange(10.0)[::2])
    assert kernel(work)(x, *given) == expected
    assert np.array_equal(given[0], plain[0])
    for a, b in zip([*x.inner, *x[1:3]], [*twin.inner, *twin[1:3]], strict=True):
        assert np.array_equal(a, b)
    assert len(set(x.inner.flags)) == 2


@pytest.mark.parametrize("function", [with_scratch, back])
def test_arrays_are_lent_and_given_back(function):
    global make_scratch
    make_scratch = helper(scratch)
    compiled, x = kernel(function), np.arange(10_000.0)
    assert np.array_equal(compiled(x), 2.0 * x[-1] if function is with_scratch else x)
    _nrt_python.memsys_enable_stats()
    try:
        before, references = rtsys.get_allocation_stats(), sys.getrefcount(x)
        for _ in range(50):
            compiled(x)
        after = rtsys.get_allocation_stats()
    finally:
        _nrt_python.memsys_disable_stats()
    assert sys.getrefcount(x) == references
    assert after.alloc - before.alloc == after.free - before.free
    assert after.alloc - before.alloc >= (100 if function is with_scratch else 0)


def swapped(x, i):
    """The same kind of read at nine places, two kinds of writes at five."""
    for n in range(5):
        x[n], x[9 - n] = x[9 - n], x[n]
    x[i], x[i + 1] = x[i + 1], x[i]
    x[i] = x[i] + x[i - 1] + x[i - 2] + x[i - 3] + x[i - 4]


def test_reads_and_writes_are_typed_once(monkeypatch):
    typed = []
    resolve = types.Function.get_call_type

    def watched(self, context, args, kws):
        if self.typing_key in (operator.getitem, operator.setitem):
            typed.append((self.typing_key, args))
        return resolve(self, context, args, kws)

    monkeypatch.setattr(types.Function, "get_call_type", watched)
    x, y = np.arange(10, dtype=np.int8), np.arange(10, dtype=np.int8)
    swapped(x, 4)
    kernel(swapped)(y, 4)  # a kind of array that no kernel has
    assert np.array_equal(x, y)
    assert len(typed) == len(set(typed)) == 3  # reads; writes of int8 and, for the sum, of int64


def test_a_numba_newer_than_we_know_compiles_by_its_own_stages(monkeypatch):
    def double(x):
        return 2 * x

    assert numba.njit(**_cache.stages())(double)._compiler.pipeline_class is KernelCompiler
    monkeypatch.setattr(_cache, "NEWEST", (0, 1))
    assert _cache.stages() == _cache.stages(inside=True) == {}


class Shelf(NamedTuple):
    size: int
    scale: float
    books: Ints
    prices: Floats


def test_records_by_address_have_the_fields_of_the_tuple():
    shelf_at = record_at(Shelf)

    @helper
    def cost(shelf, i):
        return shelf.scale * shelf.prices[shelf.books[i]]

    @kernel
    def total(here):
        shelf, result = shelf_at(here), 0.0
        for i in range(shelf.size):
            result += cost(shelf, i)
            shelf.books[i] = -1
        return result

    shelf = Shelf(2, -0.5, np.array([2, 0]), np.array([1.0, 3.0, 5.0]))
    header = np.zeros(4, dtype=np.int64)
    write_header(shelf, header)
    assert total(header.ctypes.data) == -3.0
    assert shelf.books.tolist() == [-1, -1]

    @kernel
    def misspelt(here):
        return shelf_at(here).price

    with pytest.raises(numba.TypingError, match="price"):
        misspelt(header.ctypes.data)
