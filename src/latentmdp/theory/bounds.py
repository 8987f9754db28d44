"""The theorem's bounds as functions, with constants worked out from the audit's rows.

Write `G = M Gamma S A` and `U` for the number of updates; `x <= a + b sqrt(x)` implies
`x <= 2a + b^2`.

- `X5 <= 3 Var* K + 46 iota^2`, `X6 <= 42 iota + 4 X4 + 2 U`;
- `sum V(P, alpha~) I(k,t) <= 2 (X5 + X6) + U/4` (a variance on [0,1] is at most 1/4), so
  `X4 <= 7 sqrt(3 G) iota sqrt(6 Var* K + 92 iota^2 + 84 iota + 8 X4 + 17/4 U) + 90 M S^2 A iota^2`
  `   <= 14 sqrt(3 G) iota (sqrt(6 Var* K) + sqrt(92 iota^2 + 84 iota + 17/4 U))`
  `      + 180 M S^2 A iota^2 + 1176 G iota^2`;
- `X1 + X3 <= 8 sqrt(X5 iota) + 8 sqrt(X6 iota) + 10 iota` (X3 as corrected, see docs/errata.md) and
  `8 sqrt(4 X4 iota) <= X4 + 64 iota`, so with `X2 <= 2 sqrt(2 Var* K iota) + 5 iota`
  `Regret <= 2 X4 + (8 sqrt 3 + 2 sqrt 2) sqrt(Var* K iota)`
  `          + 8 sqrt(46) iota^1.5 + 8 sqrt((42 iota + 2 U) iota) + 79 iota + U`.

All of it holds with probability `1 - 9 delta`: `iota` has the `delta` that was given.
"""

import math
from dataclasses import dataclass

from latentmdp.builtin_domains.lower_bound import encoding_length, gap_from_episodes, tree_depth
from latentmdp.errors import ModelError, check_share


def iota(M: int, S: int, A: int, H: int, K: int, delta: float) -> float:
    """The paper's logarithm, `2 ln(2 M S A H K / delta)`.

    >>> round(iota(1, 1, 1, 1, 1, 0.5), 6)
    2.772589
    """
    check_share("delta", delta)
    return 2.0 * (math.log(2.0 * M * S * A * H / delta) + math.log(K))


def max_updates(M: int, S: int, A: int, H: int, K: int) -> float:
    """`M S A (log2(H K) + 1)`: a row triggers at 1, 2, 4, ... visits, at most `H K` of them."""
    return M * S * A * (math.log2(H) + math.log2(K) + 1.0)


@dataclass(frozen=True)
class UpperBound:
    """`Regret(K) <= main + lower_order`; `main` is what grows with `sqrt(Var* K)`."""

    main: float
    lower_order: float
    iota: float
    main_constant: float  # main / (sqrt(Var* M Gamma S A K) iota), 0 where Var* = 0
    lower_order_constant: float  # lower_order / (M S^2 A iota^2)

    @property
    def total(self) -> float:
        """The bound."""
        return self.main + self.lower_order


def upper_bound(
    M: int, S: int, A: int, H: int, K: int, *, Gamma: int, variance: float, delta: float
) -> UpperBound:
    """The theorem's bound on the regret, `variance` being `Var*` of the policy class.

    >>> bound = upper_bound(2, 5, 2, 10, 10**6, Gamma=2, variance=0.25, delta=0.1)
    >>> bound.main > bound.lower_order / 100 and bound.main_constant < 136
    True
    """
    log = iota(M, S, A, H, K, delta)
    updates = max_updates(M, S, A, H, K)
    G, spread = M * Gamma * S * A, math.sqrt(variance * K)
    main_x4 = 14.0 * math.sqrt(3.0 * G) * log * math.sqrt(6.0) * spread
    rest_x4 = (
        14.0 * math.sqrt(3.0 * G) * log * math.sqrt(92.0 * log**2 + 84.0 * log + 4.25 * updates)
        + 180.0 * M * S**2 * A * log**2
        + 1176.0 * G * log**2
    )
    main = 2.0 * main_x4 + (8.0 * math.sqrt(3.0) + 2.0 * math.sqrt(2.0)) * spread * math.sqrt(log)
    lower_order = (
        2.0 * rest_x4
        + 8.0 * math.sqrt(46.0) * log**1.5
        + 8.0 * math.sqrt((42.0 * log + 2.0 * updates) * log)
        + 79.0 * log
        + updates
    )
    unit = math.sqrt(G) * spread * log
    return UpperBound(
        main, lower_order, log, main / unit if unit else 0.0, lower_order / (M * S**2 * A * log**2)
    )


@dataclass(frozen=True)
class LowerBound:
    """What every learner suffers on average over the secrets; `failed` lists broken conditions."""

    value: float
    eps: float
    choices: int
    failed: tuple[str, ...]

    @property
    def applies(self) -> bool:
        """Whether all conditions of the theorem's proof hold."""
        return not self.failed

    def __str__(self) -> str:
        if self.applies:
            return f"every learner suffers at least {self.value:.6g} on average over the secrets"
        return f"the lower bound ({self.value:.6g}) is not proved here: " + "; ".join(self.failed)


def lower_bound(
    M: int, S: int, A: int, K: int, *, x: float = 1.0, policy_class: str = "history"
) -> LowerBound:
    """Theorem 3: `x sqrt(M C K) / (32 sqrt 2)` on the `hard` family, with its conditions on `K`.

    The conditions: `K > (6 + 4 sqrt 2) M^2 ln(2 M C / delta')` with
    `delta' = sqrt(M C) / (16 sqrt(2 K))`; `floor(K / (2M)) >= S A`; and three choices or more
    (for two the constant does not follow, see docs/errata.md).

    >>> lower_bound(2, 11, 2, 10**6).applies, lower_bound(2, 11, 2, 100).applies
    (True, False)
    """
    if policy_class != "history":
        raise ModelError(
            "the lower bound is for the history class (all policies); a Markov policy cannot use "
            "the code of the context, and the theorem says nothing about that class"
        )
    if S < 6 or A < 2 or M < 1 or not 0.0 < x <= 1.0 or K < 1:
        raise ModelError(
            "the lower bound needs S >= 6, A >= 2, M >= 1, K >= 1 and 0 < x <= 1; "
            f"they are S={S}, A={A}, M={M}, K={K}, x={x:g}"
        )
    d1 = encoding_length(M)
    if d1 > S // 2:
        raise ModelError(f"the lower bound needs M <= floor(S/2)!; M is {M}, S is {S}")
    C = 2 ** (tree_depth(S, d1) - 1) * A
    small = math.sqrt(M * C) / (16.0 * math.sqrt(2.0 * K))
    least = (6.0 + 4.0 * math.sqrt(2.0)) * M**2 * math.log(2.0 * M * C / small)
    failed = []
    if not least < K:
        failed.append(f"K must exceed (6 + 4 sqrt 2) M^2 ln(2MC/delta') = {least:.6g}; it is {K}")
    if K // (2 * M) < S * A:
        failed.append(f"K/(2M) must be at least S A = {S * A}; it is {K // (2 * M)}")
    if C < 3:
        failed.append(f"there must be at least 3 choices for this constant; there are {C}")
    value = x * math.sqrt(M * C * K) / (32.0 * math.sqrt(2.0))
    return LowerBound(value, gap_from_episodes(M, C, K), C, tuple(failed))


def predecessor_bound(M: int, S: int, A: int, H: int, K: int, *, delta: float) -> float:
    """`sqrt(M S^2 A H K ln(K / delta))`: Kwon et al. 2021 in our scaling, up to a constant.

    Their theorem is stated with hidden constants and logarithms; this is its shape, not a
    certificate.
    """
    check_share("delta", delta)
    return math.sqrt(M * S**2 * A * H * K * math.log(K / delta))
