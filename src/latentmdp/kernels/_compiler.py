"""How kernels are compiled: Numba's stages, without what costs time and gains nothing here.

Compiling is most of a first `learn` or `plan`. Compared with plain `njit`:

- a call such as `int64 + int64` or `array[int64]` is typed once, not at every place, and a helper
  is not compiled again for every constant it is called with (`_Remembering`);
- a field of a tuple of arrays is read once, where the tuple comes from (`_Hoisting`);
- an element of an array takes a dozen instructions of intermediate code, not thirty (`_Lower`);
- references are counted only in functions that make or return arrays (`_counts_references`);
- helpers get no machine code of their own (`_HelperLibrary`), and functions are optimised where
  they are inlined, hardly before that (`_KernelLibrary`);
- which variables are alive is worked out before lowering, not after every stage
  (`_SingleAssignment`, `_PlainAssignment`);
- Python's stack has room for all of it (`_stack.py`);
- closures, array expressions, `with`, `raise`, slices of tuples and the like, which kernels do not
  use, are not looked for.

The machine code is as fast as before, and computes the same bits.
"""

import operator
from collections import defaultdict
from typing import Any

from numba.core import ir, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import FunctionPass, PassManager, register_pass
from numba.core.ir_utils import build_definitions, replace_vars
from numba.core.lowering import Lower
from numba.core.ssa import reconstruct_ssa
from numba.core.typed_passes import (
    AnnotateTypes,
    IRLegalization,
    NativeLowering,
    NoPythonBackend,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.untyped_passes import FixupArgs, IRProcessing, TranslateByteCode
from numba.np.arrayobj import fix_integer_index, load_item, store_item

from latentmdp._stack import with_room

# ------------------------------------------------------------- assignments


@register_pass(mutates_CFG=False, analysis_only=False)
class _SingleAssignment(FunctionPass):
    """A variable that is set at ten places becomes ten variables, without Numba's bookkeeping."""

    _name = "latentmdp_single_assignment"

    def __init__(self) -> None:  # Numba wants every pass to have its own
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        state.func_ir = reconstruct_ssa(state.func_ir)
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        return True


@register_pass(mutates_CFG=False, analysis_only=False)
class _PlainAssignment(PreLowerStripPhis):
    """Where these variables meet, they are one again; likewise."""

    _name = "latentmdp_plain_assignment"

    def run_pass(self, state: Any) -> bool:
        state.func_ir = self._strip_phi_nodes(state.func_ir)
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        return True


# ------------------------------------------------------------- fields


@register_pass(mutates_CFG=False, analysis_only=False)
class _Hoisting(FunctionPass):
    """`x.F` at ten places becomes one variable, set right after `x`."""

    _name = "latentmdp_hoisting"

    def __init__(self) -> None:  # Numba wants every pass to have its own
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        changed = False
        while _hoist(state.func_ir.blocks):  # again, for fields of fields
            changed = True
        return changed


def _hoist(blocks: dict[int, Any]) -> bool:
    """Move and merge reads of a field of a variable that is set once; whether there were any."""
    definitions: dict[str, list[Any]] = defaultdict(list)
    reads: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for block in blocks.values():
        for assign in block.find_insts(ir.Assign):
            definitions[assign.target.name].append(assign)
            if isinstance(assign.value, ir.Expr) and assign.value.op == "getattr":
                reads[assign.value.value.name, assign.value.attr].append(assign)

    def set_once(name: str) -> bool:
        values = [assign.value for assign in definitions[name]]
        return len(values) == 1 and getattr(values[0], "op", "") != "phi"

    groups = [
        (definitions[name][0], same)
        for (name, _), same in reads.items()
        if len(same) > 1 and all(map(set_once, [name, *(read.target.name for read in same)]))
    ]
    candidates = {id(read) for _, same in groups for read in same}
    after: dict[int, list[Any]] = defaultdict(list)
    removed: set[int] = set()
    merged: dict[str, Any] = {}
    for source, same in groups:
        if id(source) not in candidates:  # else next time
            after[id(source)].append(same[0])
            removed |= set(map(id, same))
            merged |= {read.target.name: same[0].target for read in same[1:]}
    for block in blocks.values():
        kept = [statement for statement in block.body if id(statement) not in removed]
        block.body = [new for old in kept for new in (old, *after[id(old)])]
    replace_vars(blocks, merged)
    return bool(merged)


# ------------------------------------------------------------- types

_KNOWN: dict[Any, dict[Any, Any]] = {}  # by compiler flags: signatures of calls


class _Remembering:
    """A typing context that remembers what calls of Numba's own functions return.

    Helpers see an integer where the call has `0` or `-1`: else each constant has its own copy.
    """

    def __init__(self, context: Any, flags: Any) -> None:
        self._context, self._known = context, _KNOWN.setdefault(flags.copy(), {})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def resolve_function_type(self, function: Any, args: Any, kws: Any) -> Any:
        if isinstance(function, types.Dispatcher):
            args = tuple(map(types.unliteral, args))
        if not (isinstance(function, types.Function) or function is operator.getitem):
            return self._context.resolve_function_type(function, args, kws)
        return self._remember(
            (function, tuple(args), tuple(kws.items())),
            lambda: self._context.resolve_function_type(function, args, kws),
        )

    def resolve_setitem(self, target: Any, index: Any, value: Any) -> Any:
        return self._remember(
            (operator.setitem, target, index, value),
            lambda: self._context.resolve_setitem(target, index, value),
        )

    def _remember(self, call: Any, resolve: Any) -> Any:
        if call not in self._known:
            self._known[call] = resolve()
        return self._known[call]


@register_pass(mutates_CFG=True, analysis_only=False)
class _Inference(NopythonTypeInference):
    _name = "latentmdp_inference"

    def run_pass(self, state: Any) -> bool:
        context = state.typingctx
        state.typingctx = _Remembering(context, state.flags)
        try:
            return bool(super().run_pass(state))
        finally:
            state.typingctx = context


# ------------------------------------------------------------- intermediate code


def _is_element(signature: Any) -> bool:
    """Whether an array of numbers in C order is indexed by as many integers as it has axes."""
    array, index = signature.args[:2]
    integers: Any = index if isinstance(index, types.BaseTuple) else (index,)
    return (
        isinstance(array, types.Array)
        and array.layout == "C"
        and isinstance(array.dtype, types.Number | types.Boolean)
        and len(integers) == array.ndim
        and all(isinstance(i, types.Integer) for i in integers)
    )


class _Lower(Lower):
    """Numba's code, but for elements of arrays; calls are not typed a second time."""

    def lower_binop(self, resty: Any, expr: Any, op: Any) -> Any:
        if not expr.static_lhs is expr.static_rhs is ir.UNDEFINED:
            return super().lower_binop(resty, expr, op)
        return self._call(resty, op, (expr.lhs, expr.rhs), self.fndesc.calltypes[expr])

    def _call(self, resty: Any, op: Any, variables: Any, signature: Any) -> Any:
        function = self.context.typing_context.resolve_value_type(op)
        if signature.args not in function._impl_keys:  # `x += y` was typed, and is done by `x + y`
            function.get_call_type(self.context.typing_context, signature.args, {})
        values = [self._cast_var(*pair) for pair in zip(variables, signature.args, strict=True)]
        result = self.context.get_function(function, signature)(self.builder, values)
        return self.context.cast(self.builder, result, signature.return_type, resty)

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        if not _is_element(signature):
            return self._call(resty, operator.getitem, (value, index), signature)
        address = self._address(value, index, signature)
        item = load_item(self.context, self.builder, signature.args[0], address)
        return self.context.cast(self.builder, item, signature.return_type, resty)

    def lower_setitem(self, target: Any, index: Any, value: Any, signature: Any) -> Any:
        if not _is_element(signature):
            return self._call(types.none, operator.setitem, (target, index, value), signature)
        array, _, kind = signature.args
        address = self._address(target, index, signature)
        item = self.context.cast(self.builder, self._cast_var(value, kind), kind, array.dtype)
        return store_item(self.context, self.builder, array, item, address)

    def _address(self, array: Any, index: Any, signature: Any) -> Any:
        """Where the element lies; negative indices count from the end, as ever."""
        kind, kinds = signature.args[:2]
        builder, model = self.builder, self.context.data_model_manager[kind]
        value, at = self.loadvar(array.name), self._cast_var(index, kinds)
        data = builder.extract_value(value, model.get_field_position("data"))
        shape = builder.extract_value(value, model.get_field_position("shape"))
        many = isinstance(kinds, types.BaseTuple)
        offset = None
        for axis in range(kind.ndim):
            size = builder.extract_value(shape, axis)
            i = builder.extract_value(at, axis) if many else at
            i = fix_integer_index(self.context, builder, kinds[axis] if many else kinds, i, size)
            offset = i if offset is None else builder.add(builder.mul(offset, size), i)
        return builder.gep(data, [offset])


def _counts_references(state: Any) -> bool:
    """Whether a call in this function returns an array, or the function itself does.

    All other arrays are lent by the caller, who keeps them alive.
    """
    returned = [state.return_type] + [
        state.typemap[assign.target.name]
        for block in state.func_ir.blocks.values()
        for assign in block.find_insts(ir.Assign)
        if isinstance(assign.value, ir.Expr) and assign.value.op == "call"
    ]
    models = state.targetctx.data_model_manager
    return any(models[kind].contains_nrt_meminfo() for kind in returned)


class _KernelLibrary(JITCodeLibrary):
    """Code that is optimised when all of it is together: before that, functions hardly are."""

    level = 0  # of optimising single functions

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout
        if self.level > 0:
            manager, builder = self._codegen._function_pass_manager(opt=self.level)
            for function in module.functions:
                if not function.is_declaration:
                    manager.run(function, builder)


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(NativeLowering):
    _name = "latentmdp_lowering"
    library: Any = _KernelLibrary

    @property
    def lowering_class(self) -> Any:
        return _Lower

    def run_pass(self, state: Any) -> bool:
        state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        if not _counts_references(state):
            state.targetctx = state.targetctx.subtarget(enable_nrt=False)
        return bool(super().run_pass(state))


# ------------------------------------------------------------- helpers


class _HelperLibrary(_KernelLibrary):
    """Code that is only ever linked into kernels, and optimised there."""

    level = 1

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class _NoEntry:
    """Stands for the entry from Python, by which Numba knows a compiled function."""


@register_pass(mutates_CFG=True, analysis_only=False)
class _HelperLowering(_Lowering):
    _name = "latentmdp_helper_lowering"
    library = _HelperLibrary

    def run_pass(self, state: Any) -> bool:
        state.flags.no_compile = True
        super().run_pass(state)
        entry, lowered = _NoEntry(), state["cr"]
        state.targetctx.insert_user_function(entry, lowered.fndesc, [state.library])
        state["cr"] = lowered._replace(cfunc=entry)
        return True


# ------------------------------------------------------------- all stages


class KernelCompiler(CompilerBase):
    """What `@kernel` compiles with."""

    lowering: Any = _Lowering

    @with_room
    def _compile_core(self) -> Any:
        return super()._compile_core()

    def define_pipelines(self) -> list[Any]:
        stages = PassManager("latentmdp")
        for stage in (
            TranslateByteCode, FixupArgs, IRProcessing, _SingleAssignment, _Hoisting,
            _Inference, _PlainAssignment, IRLegalization, AnnotateTypes, self.lowering,
            NoPythonBackend,
        ):  # fmt: skip
            stages.add_pass(stage, stage.__name__)
        stages.finalize()
        return [stages]


class HelperCompiler(KernelCompiler):
    """What `@helper` compiles with."""

    lowering = _HelperLowering
