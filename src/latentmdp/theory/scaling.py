"""Families of models in which one size changes and nothing else does.

An exponent means little if the instances of different sizes are different problems. Here a model is
*copied*: contexts, states or actions are repeated, or time is cut finer. Optimal value, gaps and
the distribution of the return stay as they are (tests check it); only the size grows.
"""

import numpy as np

from latentmdp.csr import Floats
from latentmdp.errors import ModelError
from latentmdp.model.latent_mdp import LatentMDP


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
