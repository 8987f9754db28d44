"""The sweeps of docs/theorem.md: which sizes, on which instances, and what the theorem says.

Three kinds of instance, because an upper bound is about the worst one:

- *worst gap*: one decision whose gap is chosen as badly as possible for the learner, at each size
  and K (a grid of factor 2). Here the main term of the bound is at work;
- *fixed*: one random instance, copied so that only the size changes. Its gap does not shrink, so
  regret stops growing with K and the second term is what is left;
- *random*: a new random instance at each size.
"""

from __future__ import annotations

import math
from functools import partial

from latentmdp.domains import make
from latentmdp.model import LatentMDP
from latentmdp.theory.scaling import choice, more_actions, more_contexts, more_states, slowed
from latentmdp.theory.study import Sweep

GAPS = tuple(2.0**-j for j in range(5, 15))
LARGE = 10**10
GARNET = "garnet:contexts={M},states={S},actions={A},branching={G},horizon=4,seed={seed}"
SMALL = {"M": 1, "S": 3, "A": 2, "G": 2}


def _worst(kind: str, x: float, seed: int, gap: float) -> LatentMDP:
    n = int(x)
    if kind == "Var*":
        return choice(gap, p=0.5 - math.sqrt(0.25 - x))  # p (1 - p) = x; the reward stays 1
    model = choice(gap)
    if kind == "M":
        return more_contexts(model, n)
    if kind == "S":
        return more_states(model, n // model.S)
    if kind == "A":
        return more_actions(model, n // model.A)
    if kind == "Gamma":
        return more_states(model, 8, mixed=n // 2)
    if kind == "H":
        return slowed(model, n // model.H)
    return model


def _fixed(kind: str, x: float, seed: int, gap: float) -> LatentMDP:
    model = make(GARNET.format(**SMALL, seed=seed))
    n = int(x)
    if kind == "M":
        return more_contexts(model, n)
    if kind == "S":
        return more_states(model, n // model.S)
    if kind == "A":
        return more_actions(model, n // model.A)
    if kind == "Gamma":
        return more_states(model, 8, mixed=n // 2)
    if kind == "H":
        return slowed(model, n // model.H)
    return model


def _random(kind: str, x: float, seed: int, gap: float) -> LatentMDP:
    sizes = {"M": 1, "S": 6, "A": 2, "G": 2}
    sizes["G" if kind == "Gamma" else kind] = int(x)
    return make(GARNET.format(**sizes, seed=seed))


def _inverse(x: float) -> float:
    return 3.0 / x


_CHOICE = "one decision, 1/2 against 1/2 + gap, the worst gap of 2^-5 .. 2^-15"
_COPIED = GARNET.format(**SMALL, seed="{seed}")
SWEEPS = (
    Sweep(
        "K", "K", "worst gap", _CHOICE, partial(_worst, "K"), (10**8, 10**9, 10**10, 10**11), 0.5,
        "", gaps=GAPS, quick=(10**9, 10**11),
    ),
    Sweep(
        "M", "M", "worst gap, contexts copied", _CHOICE + "; each context {x} times",
        partial(_worst, "M"), (1, 2, 4, 8), 0.5, "", LARGE, GAPS,
    ),
    Sweep(
        "S", "S", "worst gap, states copied", _CHOICE + "; each state {x}/3 times",
        partial(_worst, "S"), (3, 6, 12, 24), 0.5, "", LARGE, GAPS,
    ),
    Sweep(
        "A", "A", "worst gap, actions copied", _CHOICE + "; each action {x}/2 times",
        partial(_worst, "A"), (2, 4, 8, 16), 0.5, "", LARGE, GAPS,
    ),
    Sweep(
        "Gamma", "Gamma", "worst gap, 24 states mixed",
        _CHOICE + "; each state 8 times, {x}/2 of them mixed", partial(_worst, "Gamma"),
        (2, 4, 8, 16), 0.5, "", LARGE, GAPS,
    ),
    Sweep(
        "Var*", "Var*", "worst gap, p (1 - p) = Var*", "one decision, p against p + gap",
        partial(_worst, "Var*"), (0.25 / 64, 0.25 / 16, 0.25 / 4, 0.25), 0.5, "", LARGE, GAPS,
        quick=(0.25 / 16, 0.25),
    ),
    Sweep(
        "H", "H", "worst gap, time cut finer", _CHOICE + "; {x}/2 times as slow",
        partial(_worst, "H"), (4, 8, 16, 32), 0.0, "", LARGE, GAPS,
    ),
    Sweep(
        "K fixed", "K", "fixed instances", _COPIED, partial(_fixed, "K"),
        (10**7, 10**8, 10**9, 10**10), 0.0, "", quick=(10**7, 10**9),
    ),
    Sweep(
        "M fixed", "M", "fixed instances, contexts copied", _COPIED + "; each context {x} times",
        partial(_fixed, "M"), (1, 2, 4, 8), 1.0, "", quick=(1, 4),
    ),
    Sweep(
        "S fixed", "S", "fixed instances, states copied", _COPIED + "; each state {x}/3 times",
        partial(_fixed, "S"), (3, 6, 12, 24), 2.0, "", quick=(3, 12),
    ),
    Sweep(
        "S fixed, bonus 3/S", "S", "the same with bonus_scale = 3/S",
        _COPIED + "; each state {x}/3 times", partial(_fixed, "S"), (3, 6, 12, 24), None, "",
        scale=_inverse, algorithms=("mvp",), quick=(3, 12),
    ),
    Sweep(
        "A fixed", "A", "fixed instances, actions copied", _COPIED + "; each action {x}/2 times",
        partial(_fixed, "A"), (2, 4, 8, 16), 1.0, "", quick=(2, 8),
    ),
    Sweep(
        "Gamma fixed", "Gamma", "fixed instances, 24 states mixed",
        _COPIED + "; each state 8 times, {x}/2 of them mixed", partial(_fixed, "Gamma"),
        (2, 4, 8, 16), 0.0, "", quick=(2, 8),
    ),
    Sweep(
        "H fixed", "H", "fixed instances, time cut finer", _COPIED + "; {x}/4 times as slow",
        partial(_fixed, "H"), (8, 16, 32, 64, 128), 0.0, "", quick=(16, 64),
    ),
    Sweep(
        "M random", "M", "random instances", GARNET, partial(_random, "M"), (1, 2, 4, 8), 1.0, "",
    ),
    Sweep(
        "S random", "S", "random instances", GARNET, partial(_random, "S"), (4, 6, 9, 13), 2.0, "",
    ),
    Sweep(
        "A random", "A", "random instances", GARNET, partial(_random, "A"), (2, 3, 4, 6), 1.0, "",
    ),
    Sweep(
        "Gamma random", "Gamma", "random instances", GARNET, partial(_random, "Gamma"),
        (2, 3, 4, 6), 0.0, "",
    ),
)  # fmt: skip
