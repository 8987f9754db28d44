"""From counts to optimism: pure functions, one per algorithm, and the registry that names them.

A rule looks at the `Evidence` of some rows and answers with coefficients for one of two kernels:

- `Bonus(c1, c2, c3)` per row: `min(cap, r + p.v + max(c1 sqrt(Var(p, v)), c2) + c3)`, Eq. (4);
- `Interval(lower, upper, unseen, budget)`: the best distribution with every observed outcome inside
  its box, at most `unseen` on each never-seen next state, and at most `budget` of mass moved.

A new rule is one such function and one call of `register`; nothing else in the package changes.
Rows never visited are worth the cap whatever the rule says (`c2 = inf`, or the whole simplex),
unless it registers with `own_unvisited=True`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError, check_share
from latentmdp.kernels.optimism import refresh as compiled


@dataclass(frozen=True)
class BonusConstants:
    """What the constants depend on besides counts."""

    M: int
    S: int
    A: int
    H: int
    episodes: int
    delta: float = 0.1
    scale: float = 1.0  # the paper is 1; recorded in every result

    def __post_init__(self) -> None:
        if self.episodes < 1:
            raise ModelError(f"episodes must be at least 1; it is {self.episodes}")
        check_share("delta", self.delta)
        if not (math.isfinite(self.scale) and self.scale >= 0.0):
            raise ModelError(f"bonus_scale must be finite and at least 0; it is {self.scale}")
        if self.delta < 1e-200 or self.scale > 1e100:  # squares and quotients stay finite
            raise ModelError(
                "delta must be at least 1e-200 and bonus_scale at most 1e100; "
                f"they are {self.delta} and {self.scale}"
            )

    @cached_property
    def iota(self) -> float:
        """`2 ln(2 M S A H K / delta)`, the paper's logarithm."""
        size = math.log(2.0 * self.M * self.S * self.A * self.H / self.delta)
        return 2.0 * (size + math.log(self.episodes))


@dataclass(frozen=True)
class Evidence:
    """Snapshot counts of some rows; `row (slots,)` says which of them a slot belongs to."""

    N: Ints  # (rows,) visits
    support: Ints  # (rows,) next states seen, supp(P_hat)
    row: Ints  # (slots,)
    N_next: Ints  # (slots,) visits that went to the slot's next state; 0 for one never seen
    p_hat: Floats  # (slots,)
    rows: Ints | None = None  # (rows,) their numbers; None where they do not matter
    next: Ints | None = None  # (slots,) next states; None where they do not matter


class Bonus(NamedTuple):
    """Coefficients of the bonus kernel, per row; `p` replaces `p_hat` per slot if given."""

    c1: Floats | float
    c2: Floats | float
    c3: Floats | float
    p: Floats | None = None


class Interval(NamedTuple):
    """Boxes of the interval kernel: `lower, upper` per slot, `unseen, budget` per row."""

    lower: Floats | float
    upper: Floats | float
    unseen: Floats | float
    budget: Floats | float = 1.0


Compute = Callable[[Evidence, BonusConstants, np.random.Generator], Bonus | Interval]


@dataclass(frozen=True)
class Rule:
    """A named way of being optimistic."""

    name: str
    kind: Literal["bonus", "interval"]
    compute: Compute
    cap: float = 1.0
    own_unvisited: bool = False  # the rule itself says what a row without visits is worth
    every_next: bool = False  # the rule wants a slot for every next state, seen or not
    last_next: bool = False  # the rule wants a slot for the last state in every row
    random: bool = False  # coefficients of unchanged rows change too
    every_episode: bool = False  # a new policy after every episode, and not only at doublings
    direction: float = 1.0  # of confidence sets: -1 takes the worst distribution, not the best
    code: int = compiled.GIVEN  # of its compiled twin, if it has one


def mvp(evidence: Evidence, constants: BonusConstants, rng: np.random.Generator) -> Bonus:
    """Eq. (3): `max{16 S iota / N, 4 sqrt(supp V iota / N)}`.

    The backup is monotone while `c1^2 <= c2` (`iota / N` apart). `scale` multiplies both terms;
    above `S / supp` the second would outgrow that, so `c2` then grows with its square.
    """
    unit = constants.iota / np.maximum(evidence.N, 1)
    scale = constants.scale
    flat = np.maximum(scale * 16.0 * constants.S, scale**2 * 16.0 * evidence.support)
    return Bonus(scale * 4.0 * np.sqrt(evidence.support * unit), flat * unit, 0.0)


def bernstein(evidence: Evidence, constants: BonusConstants, rng: np.random.Generator) -> Interval:
    """Eq. (2): `|P~ - P_hat| <= 2 sqrt(P_hat iota / N) + 5 iota / N` at every next state."""
    unit = constants.iota / np.maximum(evidence.N, 1)
    radius = bernstein_radius(evidence.p_hat, unit[evidence.row], constants.scale)
    return Interval(
        np.maximum(evidence.p_hat - radius, 0.0),
        np.minimum(evidence.p_hat + radius, 1.0),
        np.minimum(constants.scale * 5.0 * unit, 1.0),
    )


def bernstein_radius(p: Floats, unit: Floats, scale: float) -> Floats:
    """The radius of Eq. (2) at a probability `p`, with `unit` for `iota / N`, times `scale`."""
    return scale * (2.0 * np.sqrt(p * unit) + 5.0 * unit)


def lucrl(evidence: Evidence, constants: BonusConstants, rng: np.random.Generator) -> Bonus:
    """Kwon et al. 2021 with hindsight: `min(1, sqrt(5 S ln(K / eta) / N))` at every step.

    Their L1 radius in our scaling (totals at most 1), `eta = delta`; see docs/optimism.md.
    """
    log_term = math.log(constants.episodes / constants.delta)
    radius = np.sqrt(5.0 * constants.S * log_term / np.maximum(evidence.N, 1))
    return Bonus(0.0, 0.0, np.where(evidence.N > 0, np.minimum(constants.scale * radius, 1.0), 1.0))


def l1_ball(evidence: Evidence, constants: BonusConstants, rng: np.random.Generator) -> Interval:
    """UCRL: `|P~ - P_hat|_1 <= sqrt((2 S ln 2 + iota) / N)` (Weissman et al. 2003)."""
    log_term = 2.0 * constants.S * math.log(2.0) + constants.iota
    radius = constants.scale * np.sqrt(log_term / np.maximum(evidence.N, 1))
    return Interval(0.0, 1.0, 1.0, np.minimum(radius / 2.0, 1.0))


def estimate(evidence: Evidence, constants: BonusConstants, rng: np.random.Generator) -> Bonus:
    """No optimism where there are counts: `P_hat` itself."""
    return Bonus(0.0, 0.0, 0.0)


def posterior_sample(
    evidence: Evidence, constants: BonusConstants, rng: np.random.Generator
) -> Bonus:
    """One draw from the posterior of every row; the prior is Dirichlet with `1/S` on each state."""
    gamma = rng.standard_gamma(evidence.N_next + 1.0 / constants.S)
    total = np.bincount(evidence.row, weights=gamma, minlength=len(evidence.N))
    return Bonus(0.0, 0.0, 0.0, p=gamma / np.maximum(total, 1e-300)[evidence.row])


def one_standard_error(
    evidence: Evidence, constants: BonusConstants, rng: np.random.Generator
) -> Bonus:
    """The tie rule's secondary optimism: `max{sqrt(V / N), 1 / N}`."""
    unit = 1.0 / np.maximum(evidence.N, 1)
    return Bonus(np.sqrt(unit), unit, 0.0)


RULES: dict[str, Rule] = {}


def register(
    name: str, kind: Literal["bonus", "interval"], compute: Compute, **how: object
) -> None:
    """Make a rule available as `algorithm=name` everywhere."""
    RULES[name] = Rule(name, kind, compute, **how)  # type: ignore[arg-type]


def rule_named(name: str) -> Rule:
    """The registered rule, or a sentence that lists what there is."""
    if name not in RULES:
        raise ModelError(f"algorithm must be one of {', '.join(sorted(RULES))}; it is {name!r}")
    return RULES[name]


register("mvp", "bonus", mvp, code=compiled.MVP)
register("bernstein", "interval", bernstein, code=compiled.BERNSTEIN)
register("lucrl", "bonus", lucrl)
register("lucrl-uncapped", "bonus", lucrl, cap=math.inf, own_unvisited=True)
register("ucrl", "interval", l1_ball)
register("greedy", "bonus", estimate, code=compiled.ESTIMATE)
register("psrl", "bonus", posterior_sample, own_unvisited=True, every_next=True, random=True)
register(
    "psrl-episode", "bonus", posterior_sample, own_unvisited=True, every_next=True, random=True,
    every_episode=True,
)  # fmt: skip

# what breaks ties, see ties.py
SECONDARY = Rule(
    "one-standard-error", "bonus", one_standard_error, code=compiled.ONE_STANDARD_ERROR
)
ESTIMATE = Rule("estimate", "bonus", estimate, code=compiled.ESTIMATE)
