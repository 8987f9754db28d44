"""Slow twins of optimistic planning: plain Python, straight from the paper's equations; problems.

Shares no code with `latentmdp.optimism` but `BonusConstants.iota`, which has its own test.
"""

import itertools
import math

import numpy as np

from latentmdp import LatentMDP
from latentmdp.optimism.confidence import BonusConstants


def random_counts(rng, model, sizes=(0, 1, 2, 5, 20, 100, 1000, 10**4, 10**5)):
    """Observed transitions `(M, S, A, S)`, every row with its own number of visits."""
    P = model.P
    visits = np.zeros(P.shape, dtype=int)
    for row in np.ndindex(*P.shape[:3]):
        visits[row] = rng.multinomial(int(rng.choice(sizes)), P[row] / P[row].sum())
    return visits


def small_model(rng, M=2, S=3, A=2, H=2, on_transitions=False, observe=True):
    """A model whose policies differ: sparse rows, rewards of at most 1/H, some of them 0."""
    P = rng.dirichlet(np.full(S, 0.7), size=(M, S, A))
    P[P < 0.08] = 0.0
    P /= P.sum(axis=-1, keepdims=True)
    shape = (M, S, A, S) if on_transitions else (M, S, A)
    R = rng.random(shape) * rng.integers(0, 2, shape) / H
    w, nu = rng.dirichlet(np.full(M, 2.0)), rng.dirichlet(np.ones(S), size=M)
    return LatentMDP.from_arrays(P, R, w, nu, H, observe_rewards=observe)


def backup(model, visits, algorithm, constants, m, s, a, v):
    """One optimistic value, from the definition; `v` are the values of the next states."""
    R, n = model.R[m, s, a], visits[m, s, a]
    N, S, iota, scale = n.sum(), constants.S, constants.iota, constants.scale
    v = np.asarray(v, dtype=float)
    if np.ndim(R):
        v, R = np.minimum(R + v, 1.0), 0.0
    if N == 0:
        return 1.0 if algorithm in ("mvp", "lucrl", "greedy") else min(R + v.max(), 1.0)
    p = n / N
    if algorithm == "greedy":
        return min(R + p @ v, 1.0)
    if algorithm == "lucrl":
        radius = math.sqrt(5 * S * math.log(constants.episodes / constants.delta) / N)
        return min(R + p @ v + min(scale * radius, 1.0), 1.0)
    if algorithm == "mvp":  # Eqs. (3), (4)
        support = (n > 0).sum()
        variance = p @ (v - p @ v) ** 2
        flat = max(scale * 16 * S, scale**2 * 16 * support) * iota / N
        bonus = max(flat, scale * 4 * math.sqrt(support * variance * iota / N))
        return min(R + bonus + p @ v, 1.0)
    if algorithm == "bernstein":  # Eq. (2)
        radius = scale * (2 * np.sqrt(p * iota / N) + 5 * iota / N)
        q, high = np.maximum(p - radius, 0.0), np.minimum(p + radius, 1.0)
        for x in np.argsort(-v):
            q[x] += min(high[x] - q[x], 1.0 - q.sum())
        return min(R + q @ v, 1.0)
    from scipy.optimize import linprog

    assert algorithm == "ucrl"
    distance = scale * math.sqrt((2 * S * math.log(2) + iota) / N)
    one, none = np.eye(S), np.zeros(S)
    limits = np.block([[one, -one], [-one, -one], [none[None], np.ones((1, S))]])
    found = linprog(
        np.concatenate([-v, none]),
        A_ub=limits,
        b_ub=np.concatenate([p, -p, [distance]]),
        A_eq=np.concatenate([np.ones(S), none])[None],
        b_eq=[1.0],
        bounds=[(0, 1)] * S + [(0, None)] * S,
    )
    return min(R - found.fun, 1.0)


def table_value(model, visits, algorithm, constants, table):
    """Optimistic value of a Markov policy, Eq. (5)."""
    alpha = np.zeros((model.M, model.S))
    for t in reversed(range(model.H)):
        alpha = np.array(
            [
                [
                    backup(model, visits, algorithm, constants, m, s, int(table[t][s]), alpha[m])
                    for s in range(model.S)
                ]
                for m in range(model.M)
            ]
        )
    return float((model.w[:, None] * model.nu * alpha).sum())


def symbol(model, m, s, a, nxt):
    """What the agent sees in context `m` besides `nxt`."""
    if not model.observe_rewards:
        return 0
    R = model.R
    if R.ndim == 3:
        return sorted(set(R[:, s, a].tolist())).index(R[m, s, a])
    return sorted(set(R[:, s, a, nxt].tolist()), reverse=True).index(R[m, s, a, nxt])


def graph_value(model, visits, algorithm, constants, policy):
    """Optimistic value of a policy graph: every next state leads to its successor or default."""
    known = {}

    def successor(node, y, x):
        for e in range(policy.indptr[node], policy.indptr[node + 1]):
            if policy.symbol[e] == y and policy.next[e] == x:
                return int(policy.node[e])
        return int(policy.default[policy.step[node] + 1][x])

    def alpha(m, node):
        if (m, node) not in known:
            s, a = int(policy.state[node]), int(policy.action[node])
            v = np.zeros(model.S)
            if policy.step[node] + 1 < model.H:
                for x in range(model.S):
                    v[x] = alpha(m, successor(node, symbol(model, m, s, a, x), x))
            known[m, node] = backup(model, visits, algorithm, constants, m, s, a, v)
        return known[m, node]

    return sum(
        model.w[m] * model.nu[m, s] * alpha(m, int(policy.root[s]))
        for m in range(model.M)
        for s in range(model.S)
    )


def best_table(model, visits, algorithm, constants):
    """Largest optimistic value over all Markov policies, by enumeration."""
    available = [model.actions_in(s).tolist() for s in range(model.S)] * model.H
    return max(
        table_value(model, visits, algorithm, constants, np.reshape(actions, (model.H, model.S)))
        for actions in itertools.product(*available)
    )


def best_history(model, visits, algorithm, constants):
    """Largest optimistic value over all policies, without pruning anything but equals."""

    def vectors(s, togo):
        if togo == 0:
            return np.zeros((1, model.M))
        found = []
        for a in range(model.A):
            seen = [[symbol(model, m, s, a, x) for x in range(model.S)] for m in range(model.M)]
            pairs = sorted({(seen[m][x], x) for m in range(model.M) for x in range(model.S)})
            for choice in itertools.product(*(vectors(x, togo - 1) for _, x in pairs)):
                after = dict(zip(pairs, choice, strict=True))
                found.append(
                    [
                        backup(
                            model, visits, algorithm, constants, m, s, a,
                            [after[seen[m][x], x][m] for x in range(model.S)],
                        )
                        for m in range(model.M)
                    ]
                )  # fmt: skip
        return np.unique(np.round(found, 13), axis=0)

    return sum(
        float(np.max(vectors(s, model.H) @ (model.w * model.nu[:, s]))) for s in range(model.S)
    )


SIZES = ((2, 2), (3, 2), (2, 3), (3, 3))
COMPARED = (20, 20, 100, 100, 1000, 10**4, 10**5, 5, 1, 0)


def random_problem(rng, on_transitions=False):
    """A tiny model with counts, and a scale at which not everything is capped."""
    S, H = SIZES[rng.integers(len(SIZES))]
    S = 2 if on_transitions else S  # the exact solver has to choose for every (reward, next)
    observe = bool(rng.integers(2))
    model = small_model(rng, int(rng.integers(2, 4)), S, 2, H, on_transitions, observe)
    scale = float(rng.choice([1.0, 0.1, 0.03, 0.01]))
    return model, random_counts(rng, model, COMPARED), scale


def setting_of(model, scale=1.0, episodes=1000):
    return BonusConstants(model.M, model.S, model.A, model.H, episodes, 0.1, scale)
