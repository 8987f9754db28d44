"""The oracle for models that change with the step and pay noisy rewards: plain Python.

It reads the raw outcomes that a model is built from, never the model: `rows[t][m][s][a]` lists
`(probability, reward, next state)`, several rewards per next state if they are noisy.
`World.random` draws tiny ones; `World.model()` builds the model by the package.
"""

import itertools
from collections import defaultdict

import numpy as np

from latentmdp import LatentMDP


class World:
    """Raw outcomes with weights, first states, terminal rewards, and what the agent sees.

    An action with an empty list of outcomes is unavailable at that step and state.
    """

    def __init__(self, rows, w, nu, terminal=None, discount=1.0, observed=True, stationary=False):
        self.rows, self.w, self.nu, self.terminal = rows, w, nu, terminal
        self.discount, self.observed, self.stationary = discount, observed, stationary
        self.H, self.M = len(rows), len(rows[0])
        self.S, self.A = len(rows[0][0]), len(rows[0][0][0])

    @classmethod
    def random(cls, rng, M=2, S=2, A=2, H=3, **fixed):
        """A world with sizes up to those given.

        `fixed` may say whether it is `noisy`, `timed`, `terminal`, `observed`, `masked`, and
        whether its rewards are `shared`: from a grid, so that contexts often pay the same.
        """
        M, S, A, H = (int(rng.integers(1, k + 1)) for k in (M, S, A, H))
        kinds = ("noisy", "timed", "terminal", "observed", "masked", "shared")
        is_ = {kind: bool(rng.random() < 0.5) for kind in kinds} | fixed
        on_transitions = is_["noisy"] or rng.random() < 0.4

        def reward():
            return float(rng.integers(-2, 3)) / 2 if is_["shared"] else float(rng.normal())

        def row():
            same, outcomes = reward(), []
            for n, p in enumerate(weights(rng, S)):
                several = {reward() for _ in range(int(rng.integers(1, 4)) if is_["noisy"] else 1)}
                several = sorted(several) if on_transitions else [same]
                shares = weights(rng, len(several))
                outcomes += [(p * q, r, n) for r, q in zip(several, shares, strict=True)]
            return [x for x in outcomes if x[0] > 0]

        def layer():
            rows = [[[row() for _ in range(A)] for _ in range(S)] for _ in range(M)]
            for s in range(S if is_["masked"] else 0):
                for a in rng.permutation(A)[: int(rng.integers(0, A))]:
                    for m in range(M):
                        rows[m][s][a] = []
            return rows

        rows = [layer() for _ in range(H)] if is_["timed"] else [layer()] * H
        after = [[reward() for _ in range(S)] for _ in range(M)] if is_["terminal"] else None
        w = weights(rng, M)
        nu = [weights(rng, S) for _ in range(M)]
        discount = float(rng.choice([1.0, 0.9, 0.5]))
        return cls(rows, w, nu, after, discount, is_["observed"], not is_["timed"])

    def actions(self, t, s):
        """The available actions."""
        return [a for a in range(self.A) if self.rows[t][0][s][a]]

    def columns(self, steps):
        """`(step, context, state, action, next, prob, reward)` lists of these steps."""
        lines = [
            (t, m, s, a, n, p, r)
            for t in steps
            for m, s, a in itertools.product(range(self.M), range(self.S), range(self.A))
            for p, r, n in self.rows[t][m][s][a]
        ]
        return [list(column) for column in zip(*lines, strict=True)]

    def model(self, **options):
        """The model of it; an ordinary one where nothing depends on the step."""
        steps = [0] if self.stationary else range(self.H)
        step, m, s, a, n, p, r = self.columns(steps)
        return LatentMDP.from_rows(
            m, s, a, n, p, r, self.w, self.nu, self.H, n_actions=self.A,
            observe_rewards=self.observed, discount=self.discount, max_return=None,
            step=None if self.stationary else step, terminal=self.terminal, **options,
        )  # fmt: skip

    # ------------------------------------------------------------------ what happens

    def outcomes(self, t, m, s, a):
        """`(prob, reward with the terminal one, seen, next)`; hidden rewards are averaged."""
        found = self.rows[t][m][s][a]
        if not self.observed:
            found = averaged(found)
        for p, r, n in found:
            if t == self.H - 1 and self.terminal is not None:
                r = r + self.discount * self.terminal[m][n]
            yield p, r, (r if self.observed else None), n

    def on_transitions(self):
        """Whether some row pays different rewards."""
        rows = (row for layer in self.rows for m in layer for s in m for row in s)
        rows = rows if self.observed else map(averaged, rows)
        return any(len({r for _, r, _ in row}) > 1 for row in rows)

    def symbol(self, t, s, a, seen, nxt):
        """Index of the seen reward among the contexts' rewards there."""
        if seen is None:
            return 0
        on_transitions = self.on_transitions()
        values = {
            r
            for m in range(self.M)
            for _, r, _, n in self.outcomes(t, m, s, a)
            if n == nxt or not on_transitions
        }
        return sorted(values, reverse=on_transitions).index(seen)


def weights(rng, n):
    """A distribution, often with zeros and ties."""
    x = rng.integers(0, 3, n).astype(float) if rng.random() < 0.6 else rng.random(n)
    x = x if x.sum() > 0 else np.ones(n)
    return (x / x.sum()).tolist()


def averaged(outcomes):
    """One outcome per next state, with the mean reward."""
    total, paid = defaultdict(float), defaultdict(float)
    for p, r, n in outcomes:
        total[n] += p
        paid[n] += p * r
    return [(total[n], paid[n] / total[n], n) for n in sorted(total)]


def best_history_value(world):
    """Optimum over all history-dependent policies, by recursion over histories."""

    def best(t, s, g):
        if t == world.H:
            return 0.0
        tops = []
        for a in world.actions(t, s):
            now, after = 0.0, {}
            for m in range(world.M):
                if g[m] > 0:
                    for p, r, seen, n in world.outcomes(t, m, s, a):
                        now += g[m] * p * r
                        after.setdefault((seen, n), [0.0] * world.M)[m] += g[m] * p
            later = sum(best(t + 1, n, h) for (_, n), h in after.items())
            tops.append(now + world.discount * later)
        return max(tops)

    start = [[world.w[m] * world.nu[m][s] for m in range(world.M)] for s in range(world.S)]
    return sum(best(0, s, g) for s, g in enumerate(start) if any(g))


def best_markov_value(world):
    """Optimum over all Markov policies, by enumeration."""
    places = [(t, s) for t in range(world.H) for s in range(world.S)]
    assert world.A ** len(places) <= 5_000, "too large for brute force"
    values = []
    for actions in itertools.product(*(world.actions(t, s) for t, s in places)):
        table = dict(zip(places, actions, strict=True))
        v = [[0.0] * world.S for _ in range(world.M)]
        for t in reversed(range(world.H)):
            v = [
                [
                    sum(
                        p * (r + world.discount * v[m][n])
                        for p, r, _, n in world.outcomes(t, m, s, table[t, s])
                    )
                    for s in range(world.S)
                ]
                for m in range(world.M)
            ]
        values.append(
            sum(
                world.w[m] * world.nu[m][s] * v[m][s]
                for m in range(world.M)
                for s in range(world.S)
            )
        )
    return max(values)


def returns(world, policy):
    """Distribution `{(context, total): prob}` of an episode under a policy graph."""
    result = defaultdict(float)

    def walk(t, m, s, node, total, prob):
        a = int(policy.action[node])
        for p, r, seen, n in world.outcomes(t, m, s, a):
            earned = total + world.discount**t * r
            if t == world.H - 1:
                result[m, earned] += prob * p
                continue
            symbol = world.symbol(t, s, a, seen, n)
            following = int(policy.default[t + 1][n])
            for e in range(policy.indptr[node], policy.indptr[node + 1]):
                if policy.symbol[e] == symbol and policy.next[e] == n:
                    following = int(policy.node[e])
            walk(t + 1, m, n, following, earned, prob * p)

    for m in range(world.M):
        for s in range(world.S):
            if world.w[m] * world.nu[m][s] > 0:
                walk(0, m, s, int(policy.root[s]), 0.0, world.w[m] * world.nu[m][s])
    return result


def mean_and_variance(distribution):
    """Mean and variance of `{(context, total): prob}`."""
    mean = sum(p * x for (_, x), p in distribution.items())
    return mean, sum(p * (x - mean) ** 2 for (_, x), p in distribution.items())
