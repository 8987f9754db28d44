"""The page's episodes in Python: the same random numbers, so the same episode for the same seed.

`page/random.js` and `page/episode.js` are the originals; the browser tests hold the two together.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from latentmdp.evaluation.alpha_vectors import AlphaVectors
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.policy.belief import initial_belief, update_belief
from latentmdp.policy.graph import PolicyGraph, fitted

_MASK = 0xFFFFFFFF


class PageStep(NamedTuple):
    """One step of an episode; `belief (M,)` is the one after it."""

    state: int
    action: int
    symbol: int
    reward: float
    next: int
    belief: np.ndarray | None


def uniforms(seed: int) -> Iterator[float]:
    """Numbers in [0, 1) from sfc32, seeded by splitmix32, 12 of them thrown away.

    >>> round(next(uniforms(1)), 6)
    0.563672
    """
    mix = _splitmix32(seed)
    a, b, c, d = next(mix), next(mix), next(mix), 1
    drawn = 0
    while True:
        t = (a + b + d) & _MASK
        d = (d + 1) & _MASK
        a = b ^ (b >> 9)
        b = (c + (c << 3)) & _MASK
        c = (((c << 21) | (c >> 11)) + t) & _MASK
        drawn += 1
        if drawn > 12:
            yield t / 2**32


def _splitmix32(seed: int) -> Iterator[int]:
    a = seed & _MASK
    while True:
        a = (a + 0x9E3779B9) & _MASK
        t = a ^ (a >> 16)
        t = (t * 0x21F0AAAD) & _MASK
        t ^= t >> 15
        t = (t * 0x735A2D97) & _MASK
        yield t ^ (t >> 15)


def page_episode(
    model: LatentMDP,
    policy: PolicyGraph,
    context: int,
    seed: int,
    overrides: Mapping[int, int] | None = None,
) -> tuple[int, list[PageStep]]:
    """`(first state, steps)` of the episode that the page shows for this context and seed.

    `overrides`: actions by step that are clicked in this order. After another action than its own
    the policy goes on at the node that is best for the belief.
    """
    policy = fitted(model, policy)
    vectors, overrides = AlphaVectors(model, policy), overrides or {}
    draw = uniforms(seed)
    first = state = _pick(model.nu[context], next(draw))
    node, belief = int(policy.root[state]), initial_belief(model, state)
    steps = []
    for t in range(model.H):
        asked = int(policy.action[node])
        action = overrides.get(t, asked)
        row = (context * model.S + state) * model.A + action
        start, end = model.indptr[row], model.indptr[row + 1]
        i = int(start) + _pick(model.prob[start:end], next(draw))
        nxt, symbol = int(model.next[i]), int(model.symbol[i])
        if belief is not None:
            belief = update_belief(model, belief, state, action, nxt, symbol=symbol)
        steps.append(PageStep(state, action, symbol, float(model.reward[i]), nxt, belief))
        if t + 1 < model.H:
            if action == asked or belief is None:
                node = int(policy.successors(node, symbol, nxt))
            else:
                node = vectors.best(t + 1, nxt, belief)[1]
        state = nxt
    return first, steps


def _pick(weights: np.ndarray, u: float) -> int:
    """First index at which the running sum exceeds `u` times the total."""
    total, running, last = sum(weights.tolist()), 0.0, 0
    for i, weight in enumerate(weights.tolist()):
        running += weight
        if weight > 0:
            last = i
            if u * total < running:
                return i
    return last
