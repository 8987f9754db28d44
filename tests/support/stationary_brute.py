"""Slow, obvious twins for stationary controllers: dense systems, and all small controllers."""

import itertools
import math

import numpy as np
from strategies import random_model

import latentmdp as lm
from latentmdp.policy.graph import PolicyGraph


def endless(rng, M=3, S=3, A=2, discounts=(0.5, 0.8, 0.9), **options):
    """A random tiny model without a last step."""
    model = random_model(rng, M, S, A, 1, **options)
    return model.replace(discount=float(rng.choice(discounts)), horizon=math.inf, max_return=None)


def random_controller(rng, model, extra=4):
    """Any controller: some observations without a successor of their own."""
    S = model.S
    N = S + int(rng.integers(0, extra + 1))
    state = np.append(np.arange(S), rng.integers(0, S, N - S))
    edges = []
    degree = np.zeros(N, dtype=int)
    for n, y, s in itertools.product(range(N), range(int(model.symbol.max()) + 1), range(S)):
        if rng.random() < 0.7:
            edges.append((n, y, s, int(rng.choice(np.flatnonzero(state == s)))))
            degree[n] += 1
    symbol, following, node = np.array([e[1:] for e in edges], dtype=int).reshape(-1, 3).T
    root = [int(rng.choice(np.flatnonzero(state == s))) for s in range(S)]
    default = [int(rng.choice(np.flatnonzero(state == s))) for s in range(S)]
    return PolicyGraph.from_arrays(
        np.zeros(N, dtype=int), state, rng.integers(0, model.A, N),
        np.append(0, np.cumsum(degree)), symbol, following, node, root, [default],
        stationary=True,
    )  # fmt: skip


def chains(model, policy):
    """Dense `(P (M, N, N), r (M, N))` of the nodes, by looking up one outcome at a time."""
    P, r = np.zeros((model.M, policy.N, policy.N)), np.zeros((model.M, policy.N))
    for m, n in itertools.product(range(model.M), range(policy.N)):
        row = (m * model.S + policy.state[n]) * model.A + policy.action[n]
        for i in range(model.indptr[row], model.indptr[row + 1]):
            k = policy.default[0, model.next[i]]
            for e in range(policy.indptr[n], policy.indptr[n + 1]):
                if (policy.symbol[e], policy.next[e]) == (model.symbol[i], model.next[i]):
                    k = policy.node[e]
            P[m, n, k] += model.prob[i]
            r[m, n] += model.prob[i] * model.reward[i]
    return P, r


def best_small_controller(model, per_state):
    """The best value of all controllers with so many nodes per state."""
    observations = sorted({(int(y), int(s)) for y, s in zip(model.symbol, model.next, strict=True)})
    N = per_state * model.S
    state = np.repeat(np.arange(model.S), per_state)
    best = -math.inf
    start = model.w[:, None] * model.nu
    likelihood = np.zeros((model.M, model.S, model.A, len(observations)))
    for row in range(model.M * model.S * model.A):
        m, sa = divmod(row, model.S * model.A)
        for i in range(model.indptr[row], model.indptr[row + 1]):
            o = observations.index((int(model.symbol[i]), int(model.next[i])))
            likelihood[m, sa // model.A, sa % model.A, o] += model.prob[i]
    R = model.row_reward.reshape(model.M, model.S, model.A)
    choices = [range(per_state)] * (len(observations) * N)
    for action in itertools.product(range(model.A), repeat=N):
        for to in itertools.product(*choices):
            P = np.zeros((model.M, N, N))
            r = np.array([R[:, state[n], action[n]] for n in range(N)]).T
            for n in range(N):
                for o, (_, s) in enumerate(observations):
                    k = s * per_state + to[n * len(observations) + o]
                    P[:, n, k] += likelihood[:, state[n], action[n], o]
            alpha = np.linalg.solve(np.eye(N) - model.discount * P, r[..., None])[..., 0]
            first = alpha.reshape(model.M, model.S, per_state)
            value = sum(
                max((start[:, s] * first[:, s, k].T).sum() for k in range(per_state))
                for s in range(model.S)
            )
            best = max(best, float(value))
    return best


def bounds_by_steps(model, steps):
    """`(lower, upper)` on the optimum without end from the optimum of so many steps."""
    from brute import best_history_value

    cut = model.replace(horizon=steps)
    value = best_history_value(cut)
    tail = model.discount**steps
    each = model.reward / (1.0 - model.discount)
    return value + tail * float(each.min()), value + tail * float(each.max())


def sampled_mean(model, policy, steps, episodes, seed):
    """The mean discounted total of episodes played by cursor in the environment."""
    env = lm.LatentMDPEnv(model)
    totals = []
    for episode in range(episodes):
        state, _ = env.reset(seed=seed + episode)
        cursor, total = policy.cursor(int(state), model), 0.0
        action = cursor.action
        for t in range(steps):
            state, reward, terminated, truncated, info = env.step(action)
            assert not terminated
            assert not truncated
            total += model.discount**t * reward
            action = cursor.observe(int(state), symbol=info["symbol"])
            assert action is not None
        totals.append(total)
    return float(np.mean(totals)), float(np.std(totals) / len(totals) ** 0.5)
