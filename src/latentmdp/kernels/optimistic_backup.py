"""One optimistic step, whatever the model: `backup` and `push`.

They reach the model's kernel (`optimistic_bonus.py` or `optimistic_interval.py`) through its
address: a compiled function that includes these kernels would compile them again, and there are
a dozen of them.
"""

from functools import cache

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from latentmdp.kernels._cache import cached_cfunc, kernel
from latentmdp.kernels.optimistic_arena import arena_at
from latentmdp.kernels.optimistic_bonus import bonus_block, bonus_push
from latentmdp.kernels.optimistic_interval import interval_push, interval_values


@intrinsic
def _call_values(
    typing_context, address, here, n0, n1, mask, policy, action, m0, m1, which, out
):  # fmt: skip
    """Call the function at `address` with ten integers."""

    def codegen(context, builder, signature, args):
        function = ir.FunctionType(ir.VoidType(), [ir.IntType(64)] * 10)
        builder.call(builder.inttoptr(args[0], function.as_pointer()), args[1:])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 11), codegen


@intrinsic
def _call_push(typing_context, address, here, n0, n1, policy, which, through_cap):
    """Call the function at `address` with five integers and a float."""

    def codegen(context, builder, signature, args):
        kinds = [ir.IntType(64)] * 5 + [ir.DoubleType()]
        function = ir.FunctionType(ir.VoidType(), kinds)
        builder.call(builder.inttoptr(args[0], function.as_pointer()), args[1:])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 6, types.float64), codegen


def _bonus_values(here, n0, n1, mask, policy, action, m0, m1, which, out):
    bonus_block(arena_at(here), n0, n1, mask, policy, action, m0, m1, which, out)


def _bonus_push(here, n0, n1, policy, which, through_cap):
    bonus_push(arena_at(here), n0, n1, policy, which, through_cap)


def _interval_values(here, n0, n1, mask, policy, action, m0, m1, which, out):
    interval_values(arena_at(here), n0, n1, mask, policy, action, m0, m1, which, out)


def _interval_push(here, n0, n1, policy, which, through_cap):
    interval_push(arena_at(here), n0, n1, policy, which, through_cap)


@cache
def compiled(interval):
    """The values and the push of a kind of model, compiled at first use; kept for ever."""
    integers = types.int64
    pair = (_interval_values, _interval_push) if interval else (_bonus_values, _bonus_push)
    kinds = types.void(*[integers] * 10), types.void(*[integers] * 5, types.float64)
    return [cached_cfunc(kind, function) for kind, function in zip(kinds, pair, strict=True)]


def addresses(interval):
    """Where they lie; nowhere in plain Python."""
    if numba.config.DISABLE_JIT:
        return 0, 0
    values, push = compiled(interval)
    return values.address, push.address


def _plain_backup(x, n0, n1, mask, policy, action, m0, m1, which, out):
    if x.interval:
        interval_values(x, n0, n1, mask, policy, action, m0, m1, which, out)
    else:
        bonus_block(x, n0, n1, mask, policy, action, m0, m1, which, out)


def _plain_push(x, n0, n1, policy, which, through_cap):
    if x.interval:
        interval_push(x, n0, n1, policy, which, through_cap)
    else:
        bonus_push(x, n0, n1, policy, which, through_cap)


@kernel
def backup(x, n0, n1, mask, policy, action, m0, m1, which, out):
    """Optimistic values of a block of nodes of one step; arguments as in `bonus_block`."""
    _call_values(x.values_at, x.here, n0, n1, mask, policy, action, m0, m1, which, out)


@kernel
def push(x, n0, n1, policy, which, through_cap):
    """Push the weights `g` of a block of nodes of one step to their children."""
    _call_push(x.push_at, x.here, n0, n1, policy, which, through_cap)


if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
    backup, push = _plain_backup, _plain_push
