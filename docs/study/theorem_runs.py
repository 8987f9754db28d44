"""The runs of docs/theorem.md: regret of one algorithm on instances in which one size changes.

Names, sizes, algorithms, seeds and what the theorem says of each are in `theorem.toml` beside this
file, a study whose tasks call `measure_named`.

Three kinds of instance, because an upper bound is about the worst one:

- *worst gap*: one decision whose gap is chosen as badly as possible for the learner, at each size
  and K. Here the main term of the bound is at work;
- *fixed*: one random instance, copied so that only the size changes. Its gap does not shrink, so
  regret stops growing with K and the second term is what is left;
- *random*: a new random instance at each size.

An exponent means little if the instances of different sizes are different problems. So a model is
*copied*: contexts, states or actions are repeated, or time is cut finer. Optimal value, gaps and
the distribution of the return stay as they are (tests check it); only the size grows.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from latentmdp.builtin_domains import make
from latentmdp.csr import Floats
from latentmdp.errors import ModelError
from latentmdp.learning.learn import learn
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.planning.plan import plan_whole

PLAN_WORK = 2 * 10**7
RESOLUTION = 2.0 ** (1 / 16)  # between neighbouring gaps, where the worst one is looked for
GAPS = tuple(2.0**-j for j in range(5, 15))
MANY_EPISODES = 10**10
GARNET = "garnet:contexts={M},states={S},actions={A},branching={G},horizon=4,seed={seed}"
SMALL_GARNET = {"M": 1, "S": 3, "A": 2, "G": 2}


@dataclass(frozen=True)
class Sweep:
    """One size varied. `make(x, seed, gap)` is the instance; `gap` is nan for fixed instances.

    With `gaps` the regret of a size is the largest over them (and below them while that is more,
    and then between the neighbours, down to a factor `RESOLUTION`): the worst of a family.
    """

    make: Callable[[float, int, float], LatentMDP]
    episodes: int | None = 10**9  # None: the size is K
    gaps: tuple[float, ...] = ()
    scale: Callable[[float], float] | None = None  # bonus_scale by size; None is the paper's 1
    policy_class: str = "markov"


def _worst(kind: str, x: float, seed: int, gap: float) -> LatentMDP:
    if kind == "Var*":
        return choice(gap, p=0.5 - math.sqrt(0.25 - x))  # p (1 - p) = x; the reward stays 1
    return _copied(choice(gap, horizon=int(x) if kind == "H" else 2), kind, int(x))


def _fixed(kind: str, x: float, seed: int, gap: float) -> LatentMDP:
    model = make(GARNET.format(**SMALL_GARNET, seed=seed))
    return slowed(model, int(x) // model.H) if kind == "H" else _copied(model, kind, int(x))


def _told(remembered: bool, x: float, seed: int, gap: float) -> LatentMDP:
    return more_contexts(told(gap, remembered=remembered), int(x) // 2)


def _two_contexts(x: float, seed: int, gap: float) -> LatentMDP:
    return more_contexts(make(GARNET.format(**SMALL_GARNET | {"M": 2}, seed=seed)), int(x) // 2)


def _copied(model: LatentMDP, kind: str, n: int) -> LatentMDP:
    """The model with contexts, states, actions or outcomes copied until there are `n`."""
    if kind == "M":
        return more_contexts(model, n)
    if kind == "S":
        return more_states(model, n // model.S)
    if kind == "A":
        return more_actions(model, n // model.A)
    if kind == "Gamma":
        return more_states(model, 8, mixed=n // 2)
    return model


def _random(kind: str, x: float, seed: int, gap: float) -> LatentMDP:
    sizes = {"M": 1, "S": 6, "A": 2, "G": 2}
    sizes["G" if kind == "Gamma" else kind] = int(x)
    return make(GARNET.format(**sizes, seed=seed))


def _inverse(x: float) -> float:
    return 3.0 / x


SWEEPS = {
    "K": Sweep(partial(_worst, "K"), None, GAPS),
    "M": Sweep(partial(_worst, "M"), MANY_EPISODES, GAPS),
    "M different": Sweep(partial(_told, False), MANY_EPISODES, GAPS),
    "M different, memory": Sweep(partial(_told, True), 10**9, GAPS[2:8], policy_class="history"),
    "S": Sweep(partial(_worst, "S"), MANY_EPISODES, GAPS),
    "A": Sweep(partial(_worst, "A"), MANY_EPISODES, GAPS),
    "Gamma": Sweep(partial(_worst, "Gamma"), MANY_EPISODES, GAPS),
    "Var*": Sweep(partial(_worst, "Var*"), MANY_EPISODES, GAPS),
    "H": Sweep(partial(_worst, "H"), MANY_EPISODES, GAPS),
    "K fixed": Sweep(partial(_fixed, "K"), None),
    "M fixed": Sweep(partial(_fixed, "M")),
    "M fixed, different": Sweep(_two_contexts),
    "M fixed, memory": Sweep(_two_contexts, 10**8, policy_class="history"),
    "S fixed": Sweep(partial(_fixed, "S")),
    "S fixed, bonus 3/S": Sweep(partial(_fixed, "S"), scale=_inverse),
    "A fixed": Sweep(partial(_fixed, "A")),
    "Gamma fixed": Sweep(partial(_fixed, "Gamma")),
    "H fixed": Sweep(partial(_fixed, "H")),
    "M random": Sweep(partial(_random, "M")),
    "S random": Sweep(partial(_random, "S")),
    "A random": Sweep(partial(_random, "A")),
    "Gamma random": Sweep(partial(_random, "Gamma")),
}


def measure_named(sweep: str, x: float, algorithm: str, seed: int, stream: int) -> dict[str, float]:
    """A run of the study: one algorithm at one size of the sweep of this name.

    `seed` draws the instance, the learner's randomness and the grid of gaps, as it did before runs
    had streams of their own: so the numbers stay comparable.
    """
    if sweep not in SWEEPS:
        raise ModelError(f"sweep must be one of {', '.join(SWEEPS)}; it is {sweep!r}")
    return measure(SWEEPS[sweep], x, seed, algorithm)


def measure(sweep: Sweep, x: float, seed: int, algorithm: str) -> dict[str, float]:
    """The regret of one algorithm at one size and seed; `short` is how far optimism was missed."""
    if not sweep.gaps:
        regret, short = _regret(sweep, x, seed, algorithm, math.nan)
        return {"regret": regret, "short": short}
    # Regret is the gap times a number of episodes that comes in powers of two (snapshots double):
    # a grid with the same phase at all sizes would give lattice points, whose slopes agree to the
    # digit for all seeds. So every seed and size shifts the grid, and the search goes on finely.
    shift = 2.0 ** -float(np.random.default_rng([seed, *np.float64(x).tobytes()]).random())
    found = {g: _regret(sweep, x, seed, algorithm, g * shift) for g in sweep.gaps}
    while (g := _worst_gap(found)) == min(found):  # the worst one may lie below the grid
        found[g / 2.0] = _regret(sweep, x, seed, algorithm, g / 2.0 * shift)
    step = math.sqrt(2.0)
    while step >= RESOLUTION * (1.0 - 1e-9):
        for g in (_worst_gap(found) * step, _worst_gap(found) / step):
            found[g] = _regret(sweep, x, seed, algorithm, g * shift)
        step = math.sqrt(step)
    worst = _worst_gap(found)
    short = max(short for _, short in found.values())
    return {"regret": found[worst][0], "short": short, "gap": worst * shift}


def _worst_gap(found: dict[float, tuple[float, float]]) -> float:
    return max(found, key=lambda gap: found[gap][0])


def _regret(sweep: Sweep, x: float, seed: int, algorithm: str, gap: float) -> tuple[float, float]:
    model = sweep.make(x, seed, gap)
    limits: dict[str, Any] = {"gap": 1e-6, "time_limit": None, "work_limit": PLAN_WORK}
    optimal = plan_whole(model, sweep.policy_class, **limits)
    scale = 1.0 if sweep.scale is None else sweep.scale(x)
    run = learn(
        model, algorithm, sweep.episodes or int(x), sweep.policy_class, bonus_scale=scale,
        seed=seed, optimal=optimal,
    )  # fmt: skip
    return run.regret, max(float(run.best_value - run.table["optimistic_value"].min()), 0.0)


# ---------------------------------------------------------------------- instances


def choice(gap: float, *, p: float = 0.5, horizon: int = 2) -> LatentMDP:
    """One decision: action 1 wins with probability `p + gap`, action 0 with `p`.

    States: start, win, lose; the first step decides, each later one pays `1/(H-1)` in `win`. So the
    return is 1 or 0 whatever the horizon, and `Var*` is the larger variance of the two coins.
    """
    if not (0.0 < p <= p + gap < 1.0 and horizon >= 2):
        raise ModelError(
            f"choice needs 0 < p <= p + gap < 1 and a horizon of 2 at least; found p={p}, "
            f"gap={gap}, horizon={horizon}"
        )
    P = np.zeros((1, 3, 2, 3))
    P[0, 0, 0, 1:] = p, 1.0 - p
    P[0, 0, 1, 1:] = p + gap, 1.0 - p - gap
    P[0, 1, :, 1] = P[0, 2, :, 2] = 1.0
    R = np.zeros((1, 3, 2))
    R[0, 1] = 1.0 / (horizon - 1)
    return LatentMDP.from_arrays(P, R, [1.0], [[1.0, 0.0, 0.0]], horizon)


def told(gap: float, *, signal: float = 0.75, remembered: bool = False) -> LatentMDP:
    """Two contexts that differ: in context `m` action `m` wins with `1/2 + gap`, the other 1/2.

    First a state tells the context, rightly with probability `signal`: the belief decides what is
    best. States: start, told 0, told 1, decide, win, lose. The decision is made where one was told,
    or, if it is to be `remembered`, one step later, where policies without memory know nothing.
    """
    if not (0.0 < gap < 0.5 and 0.0 < signal < 1.0):
        raise ModelError(f"told needs gaps in (0, 1/2), signals in (0, 1); {gap}, {signal} found")
    P, R = np.zeros((2, 6, 2, 6)), np.zeros((2, 6, 2))
    for m in (0, 1):
        P[m, 0, :, 1 + m], P[m, 0, :, 2 - m] = signal, 1.0 - signal
        for s in (1, 2, 3):
            for a in (0, 1):
                better = 0.5 + gap * (a == m)
                P[m, s, a, 4:] = better, 1.0 - better
        if remembered:
            P[m, 1:3] = np.eye(6)[3]
        P[m, 4, :, 4] = P[m, 5, :, 5] = 1.0
    R[:, 4] = 1.0
    nu = np.eye(6)[[0, 0]]
    return LatentMDP.from_arrays(P, R, [0.5, 0.5], nu, 4 if remembered else 3)


def more_contexts(model: LatentMDP, copies: int) -> LatentMDP:
    """Each context `copies` times, with its share of the weight."""
    P, R, w, nu = _arrays(model)
    w = np.tile(w, copies) / copies
    return LatentMDP.from_arrays(
        np.tile(P, (copies, 1, 1, 1)), np.tile(R, (copies, 1, 1)), w, np.tile(nu, (copies, 1)),
        model.H,
    )  # fmt: skip


def more_actions(model: LatentMDP, copies: int) -> LatentMDP:
    """Each action `copies` times."""
    P, R, w, nu = _arrays(model)
    P, R = np.tile(P, (1, 1, copies, 1)), np.tile(R, (1, 1, copies))
    return LatentMDP.from_arrays(P, R, w, nu, model.H)


def more_states(model: LatentMDP, copies: int, mixed: int = 1) -> LatentMDP:
    """Each state `copies` times; an episode starts in any copy of the world, equally likely.

    `mixed = 1`: it stays in that copy, `S` grows and `Gamma` does not. `mixed = g` (a divisor of
    `copies`): each step moves to one of `g` copies at random, `Gamma` is `g` times as large.
    """
    if copies % mixed:
        raise ModelError(f"mixed must divide copies; they are {mixed} and {copies}")
    P, R, w, nu = _arrays(model)
    M, S, A = R.shape
    move = np.kron(np.eye(copies // mixed), np.full((mixed, mixed), 1.0 / mixed))
    P = np.einsum("msat,ij->misajt", P, move).reshape(M, copies * S, A, copies * S)
    nu = np.tile(nu, (1, copies)) / copies
    return LatentMDP.from_arrays(P, np.tile(R, (1, copies, 1)), w, nu, model.H)


def slowed(model: LatentMDP, factor: int) -> LatentMDP:
    """`factor` times the steps, each moving with probability, and paying, `1/factor` as much.

    The same problem in finer time: the return's mean and variance change a little, as its
    waiting times become random.
    """
    P, R, w, nu = _arrays(model)
    P = P / factor
    P[:, np.arange(model.S), :, np.arange(model.S)] += 1.0 - 1.0 / factor
    return LatentMDP.from_arrays(P, R / factor, w, nu, model.H * factor)


def _arrays(model: LatentMDP) -> tuple[Floats, Floats, Floats, Floats]:
    R = np.array(model.R)
    if R.ndim != 3:
        raise ModelError("rewards must sit on (state, action)")
    return np.array(model.P), R, np.array(model.w), np.array(model.nu)
