"""NumPy's own C samplers, callable from kernels: same bits as `numpy.random.Generator`.

A kernel gets the random stream as `bitgen`, the address of the generator's C state
(`address(generator)`; keep the generator alive). The binomial sampler keeps its set-up in
`scratch (SCRATCH,)`. Passing a `Generator` instead would cost about 20 microseconds per call.

The C functions are registered by name here, before anything is decorated: machine code from the
on-disk cache that calls an unregistered name would crash the process without an exception. A
kernel that samples must therefore import these wrappers (it cannot get them otherwise).
"""

import ctypes
from typing import Any

import llvmlite.binding
import numba
import numpy as np
from numba import types
from numpy.random import _generator

from latentmdp.runtime.kernel_cache import kernel

SCRATCH = 24
"""Doubles that NumPy's `binomial_t` fits into (it has 17 fields of at most 8 bytes)."""

HYPERGEOMETRIC_LIMIT = 10**9
"""NumPy's hypergeometric sampler is exact for good + bad below this."""

_SIGNATURES: dict[str, tuple[str, ...]] = {
    "random_standard_uniform": ("double", "address"),
    "random_binomial": ("int64", "address", "double", "int64", "address"),
    "random_hypergeometric": ("int64", "address", "int64", "int64", "int64"),
}
_NUMBA = {"double": types.float64, "int64": types.int64, "address": types.intp}
_CTYPES: dict[str, Any] = {
    "double": ctypes.c_double,
    "int64": ctypes.c_int64,
    "address": ctypes.c_void_p,
}


def _external(name: str) -> Any:
    """The C function `name` as something a kernel can call, or one clear sentence."""
    try:
        function = getattr(ctypes.CDLL(_generator.__file__), name)
    except (AttributeError, OSError) as error:
        raise ImportError(
            f"count simulation needs NumPy's C function {name}, which numpy {np.__version__} "
            f"does not export ({error}); install numpy 2.x from its published wheels"
        ) from None
    result, *arguments = _SIGNATURES[name]
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        function.restype = _CTYPES[result]
        function.argtypes = [_CTYPES[argument] for argument in arguments]
        return function
    symbol = f"latentmdp_{name}"
    llvmlite.binding.add_symbol(symbol, ctypes.cast(function, ctypes.c_void_p).value)
    signature = _NUMBA[result](*(_NUMBA[argument] for argument in arguments))
    return types.ExternalFunction(symbol, signature)


_random_standard_uniform = _external("random_standard_uniform")
_random_binomial = _external("random_binomial")
_random_hypergeometric = _external("random_hypergeometric")


def address(generator: np.random.Generator) -> int:
    """Address of the generator's C state; valid while the generator lives."""
    return int(generator.bit_generator.ctypes.bit_generator.value)


@kernel
def uniform(bitgen):
    """A double in [0, 1), as `Generator.random()`."""
    return _random_standard_uniform(bitgen)


@kernel
def binomial(bitgen, n, p, scratch):
    """Successes among `n` trials, as `Generator.binomial(n, p)`; `p` may round above 1."""
    if n == 0 or p <= 0.0:
        return 0
    if p >= 1.0:
        return n
    return _random_binomial(bitgen, p, n, scratch.ctypes.data)


@kernel
def hypergeometric(bitgen, good, bad, sample):
    """Good ones among `sample` of `good + bad`, as `Generator.hypergeometric`.

    Exact for `good + bad < HYPERGEOMETRIC_LIMIT`; certain answers draw nothing.
    """
    if sample == 0 or good == 0:
        return 0
    if bad == 0:
        return sample
    if sample == good + bad:
        return good
    return _random_hypergeometric(bitgen, good, bad, sample)
