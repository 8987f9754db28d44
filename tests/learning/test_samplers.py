"""The C samplers give the same bits as NumPy's Generator, also from a second process's cache."""

import subprocess
import sys

import numpy as np
import pytest

from latentmdp.kernels import samplers

CASES_BINOMIAL = [(1, 0.5), (20, 0.01), (1000, 0.3), (10**9, 0.7), (10**12, 1e-9), (10**15, 0.5)]
CASES_HYPERGEOMETRIC = [(3, 4, 2), (100, 5, 50), (5, 10**6, 10**3), (4 * 10**8, 5 * 10**8, 10**8)]


def test_same_bits_as_numpy() -> None:
    ours, theirs = np.random.default_rng(7), np.random.default_rng(7)
    bitgen, scratch = samplers.address(ours), np.zeros(samplers.SCRATCH)
    for _ in range(50):
        assert samplers.uniform(bitgen) == theirs.random()
        for n, p in CASES_BINOMIAL:
            assert samplers.binomial(bitgen, n, p, scratch) == theirs.binomial(n, p)
        for good, bad, sample in CASES_HYPERGEOMETRIC:
            assert samplers.hypergeometric(bitgen, good, bad, sample) == theirs.hypergeometric(
                good, bad, sample
            )
    assert ours.bit_generator.state == theirs.bit_generator.state


def test_certain_answers_draw_nothing() -> None:
    generator = np.random.default_rng(0)
    before = generator.bit_generator.state
    bitgen, scratch = samplers.address(generator), np.zeros(samplers.SCRATCH)
    assert samplers.binomial(bitgen, 9, 1.0 + 1e-15, scratch) == 9
    assert samplers.binomial(bitgen, 9, 0.0, scratch) == 0
    assert samplers.binomial(bitgen, 0, 0.5, scratch) == 0
    assert samplers.hypergeometric(bitgen, 0, 5, 3) == 0
    assert samplers.hypergeometric(bitgen, 5, 0, 3) == 3
    assert samplers.hypergeometric(bitgen, 5, 6, 11) == 5
    assert samplers.hypergeometric(bitgen, 5, 6, 0) == 0
    assert generator.bit_generator.state == before


def test_missing_symbol_is_one_clear_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(samplers._SIGNATURES, "random_nonsense", ("double", "address"))
    with pytest.raises(ImportError, match="needs NumPy's C function random_nonsense"):
        samplers._external("random_nonsense")


DRAWS = """
import numpy as np
from latentmdp.kernels import samplers
g = np.random.default_rng(3)
b, s = samplers.address(g), np.zeros(samplers.SCRATCH)
print(samplers.uniform(b), samplers.binomial(b, 10**6, 0.4, s),
      samplers.hypergeometric(b, 10**5, 10**6, 10**4))
"""


@pytest.mark.parametrize("disable_jit", ["0", "1"])
def test_fresh_process_same_bits_cached_or_not_compiled(
    disable_jit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = np.random.default_rng(3)
    expected = (
        f"{generator.random()} {generator.binomial(10**6, 0.4)} "
        f"{generator.hypergeometric(10**5, 10**6, 10**4)}"
    )
    monkeypatch.setenv("NUMBA_DISABLE_JIT", disable_jit)
    output = subprocess.run([sys.executable, "-c", DRAWS], capture_output=True, text=True)
    assert output.returncode == 0, output.stderr
    assert output.stdout.strip() == expected
