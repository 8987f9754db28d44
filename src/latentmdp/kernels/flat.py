"""Arrays by address alone, inside kernels: `F[i]` is one load.

Numba's own arrays look at the sign and at the length at every access, and count references. That
doubles the time of kernels that do little else, and their time to compile. Here an index must lie
inside, and is never counted from the end.
"""

import operator

from llvmlite import ir
from numba import types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model


class Flat(types.Type):
    """The type of such an array."""

    def __init__(self, dtype):
        self.dtype = dtype
        self.pointer = (ir.DoubleType() if dtype is types.float64 else ir.IntType(64)).as_pointer()
        super().__init__(f"Flat({dtype})")


@register_model(Flat)
class _Model(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, kind.pointer)


@infer_global(operator.getitem)
class _TypeOfLoad(AbstractTemplate):
    def generic(self, args, kws):
        if not isinstance(args[0], Flat):
            return None
        return signature(args[0].dtype, args[0], types.int64)


@infer_global(operator.setitem)
class _TypeOfStore(AbstractTemplate):
    def generic(self, args, kws):
        if not isinstance(args[0], Flat):
            return None
        return signature(types.none, args[0], types.int64, args[0].dtype)


@lower_builtin(operator.getitem, Flat, types.int64)
def _load(context, builder, sig, args):
    return builder.load(builder.gep(args[0], [args[1]]))


@lower_builtin(operator.setitem, Flat, types.int64, types.Any)
def _store(context, builder, sig, args):
    builder.store(args[2], builder.gep(args[0], [args[1]]))


def _at(dtype):
    def at(typing_context, address):
        """The array at this address."""
        kind = Flat(dtype)

        def codegen(context, builder, sig, args):
            return builder.inttoptr(args[0], kind.pointer)

        return kind(types.int64), codegen

    return intrinsic(at)


integers, floats = _at(types.int64), _at(types.float64)
