"""Arrays and records by address alone, inside kernels: `F[i]` is one load, and so is `x.field`.

Numba's own arrays look at the sign and at the length at every access, and count references. That
doubles the time of kernels that do little else, and their time to compile. Here an index must lie
inside, and is never counted from the end.

A record is a named tuple of numbers and flat arrays in Python. Kernels take it by the address of
its header, one integer a field: handing over dozens of fields costs more than a small kernel does,
and most of the time to compile it.
"""

import operator
from collections.abc import Callable
from typing import Any, get_type_hints

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core.typing.templates import (
    AbstractTemplate,
    AttributeTemplate,
    infer_getattr,
    infer_global,
    signature,
)
from numba.extending import (
    intrinsic,
    lower_builtin,
    lower_getattr_generic,
    models,
    register_model,
)

from latentmdp.canonical import Floats, Ints


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


# ------------------------------------------------------------- records

KINDS = {
    int: types.int64, float: types.float64, Ints: Flat(types.int64), Floats: Flat(types.float64)
}  # fmt: skip
PLAIN: dict[int, Any] = {}  # records by address; used without compilation only


class Record(types.Type):
    """The type of a record: fields, their places in the header and their types."""

    def __init__(self, kind):
        hints = get_type_hints(kind)
        self.fields = {name: (i, KINDS[hints[name]]) for i, name in enumerate(kind._fields)}
        super().__init__(f"Record({kind.__module__}.{kind.__name__})")


@register_model(Record)
class _RecordModel(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, ir.IntType(64))


@infer_getattr
class _TypeOfField(AttributeTemplate):
    key = Record

    def generic_resolve(self, record, name):
        return record.fields[name][1] if name in record.fields else None


@lower_getattr_generic(Record)
def _load_field(context, builder, record, address, name):
    place, kind = record.fields[name]
    header = builder.inttoptr(address, ir.IntType(64).as_pointer())
    number = builder.load(builder.gep(header, [ir.Constant(ir.IntType(64), place)]))
    number.set_metadata("invariant.load", builder.module.add_metadata([]))  # read it once
    if isinstance(kind, Flat):
        return builder.inttoptr(number, kind.pointer)
    return builder.bitcast(number, ir.DoubleType()) if kind is types.float64 else number


def record_at(kind: type) -> Callable[[int], Any]:
    """What finds, in kernels, the record of this kind whose header lies at an address."""
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return PLAIN.__getitem__
    record = Record(kind)

    def at(typing_context, address):
        """The record at this address."""
        return record(types.int64), lambda context, builder, sig, args: args[0]

    found: Any = intrinsic(at)
    return found


def header_of(record: Any) -> Ints:
    """A header, whose address is then the record's. Keep both alive."""
    header = np.zeros(len(record), dtype=np.int64)
    write_header(record, header)
    return header


def write_header(record: Any, header: Ints) -> None:
    """Fill in a header that lies elsewhere."""
    for i, value in enumerate(record):
        if isinstance(value, np.ndarray):
            assert value.flags.c_contiguous
            assert value.dtype in (np.int64, np.float64)
            header[i] = value.ctypes.data
        else:
            header[i] = np.float64(value).view(np.int64) if isinstance(value, float) else value
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        flat = (part.reshape(-1) if isinstance(part, np.ndarray) else part for part in record)
        PLAIN[header.ctypes.data] = type(record)(*flat)
