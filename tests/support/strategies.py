"""Random tiny models and policies: as NumPy generators for bulk loops, as Hypothesis strategies."""

import numpy as np
from hypothesis import strategies as st

from latentmdp import LatentMDP, PolicyGraph


def _distribution(rng, n):
    """Often with zeros, often with ties, sometimes with a weight near 0."""
    style = rng.integers(4)
    if style == 0:
        x = np.zeros(n)
        x[rng.integers(n)] = 1.0
    elif style == 1:
        x = rng.integers(0, 3, n).astype(float)
    elif style == 2:
        x = rng.random(n)
    else:
        x = np.where(rng.random(n) < 0.3, 1e-9, rng.random(n))
    if x.sum() == 0:
        x[:] = 1.0
    return x / x.sum()


def random_model(
    rng, M=3, S=3, A=3, H=3, *, negative=True, discounted=True, on_transitions=None, observe=None
):
    """A model with sizes up to those given; many are degenerate on purpose."""
    M, S, A, H = (int(rng.integers(1, k + 1)) for k in (M, S, A, H))
    P = np.array([_distribution(rng, S) for _ in range(M * S * A)]).reshape(M, S, A, S)
    if rng.random() < 0.3:  # some rows agree in all contexts
        same = rng.random((S, A)) < 0.5
        P[:, same] = P[0, same]
    if rng.random() < 0.15:  # identical contexts
        P[:] = P[0]
    if on_transitions is None:
        on_transitions = rng.random() < 0.4
    shape = (M, S, A, S) if on_transitions else (M, S, A)
    R = rng.integers(0, 3, shape) / 2 if rng.random() < 0.5 else rng.random(shape)
    if rng.random() < 0.2:
        R[:] = R[0]
    if rng.random() < 0.1:
        R[:] = 0.0
    if negative and rng.random() < 0.4:
        R = R - rng.random()
    if not negative:
        R = R / H
    w = _distribution(rng, M)
    nu = np.array([_distribution(rng, S) for _ in range(M)])
    if rng.random() < 0.5:
        nu[:] = nu[0]
    return LatentMDP.from_arrays(
        P,
        R,
        w,
        nu,
        H,
        observe_rewards=bool(rng.random() < 0.5) if observe is None else observe,
        discount=float(rng.choice([1.0, 0.9, 0.5])) if discounted else 1.0,
        max_return=None if negative else 1.0,
    )


def random_mask(rng, S, A):
    """`(S, A)` available actions; most states lack one, each has one."""
    allowed = rng.random((S, A)) < 0.6
    allowed[np.arange(S), rng.integers(A, size=S)] = True
    return allowed


def random_masked(rng, *sizes, **options):
    """As `random_model`, with an unavailable action at least."""
    while True:
        model = random_model(rng, *sizes, **options)
        allowed = random_mask(rng, model.S, model.A)
        if not allowed.all():
            return model.replace(allowed=allowed)


def random_policy(rng, model):
    """A policy graph with memory: a few nodes per (step, state), some successors missing."""
    H, S = model.H, model.S
    step, state = [], []
    at = {}
    for t in range(H):
        for s in range(S):
            at[t, s] = list(range(len(step), len(step) + int(rng.integers(1, 4))))
            step += [t] * len(at[t, s])
            state += [s] * len(at[t, s])
    n_symbols = int(model.symbol.max()) + 1
    indptr, symbol, nxt, node = [0], [], [], []
    for t in step:
        if t + 1 < H:
            for y in range(n_symbols):
                for s in range(S):
                    if rng.random() < 0.7:
                        symbol.append(y)
                        nxt.append(s)
                        node.append(int(rng.choice(at[t + 1, s])))
        indptr.append(len(node))
    return PolicyGraph.from_arrays(
        step,
        state,
        rng.integers(0, model.A, len(step)),
        indptr,
        np.array(symbol, dtype=np.int64),
        np.array(nxt, dtype=np.int64),
        np.array(node, dtype=np.int64),
        [int(rng.choice(at[0, s])) for s in range(S)],
        [[int(rng.choice(at[t, s])) for s in range(S)] for t in range(H)],
    )


seeds = st.integers(0, 2**32 - 1)


def models(**limits):
    """Hypothesis strategy for `random_model`."""
    return seeds.map(lambda seed: random_model(np.random.default_rng(seed), **limits))


@st.composite
def models_and_policies(draw, **limits):
    """A random model with a random policy graph for it."""
    rng = np.random.default_rng(draw(seeds))
    model = random_model(rng, **limits)
    return model, random_policy(rng, model)
