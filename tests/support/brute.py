"""The oracle: plain Python that enumerates histories; shares no code with the package.

A history is `(s_0, a_0, seen_0, s_1, ..., s_t)` where `seen` is the reward if it is observed and
None if it is hidden. Only dense `P`, `R` and the scalars of a model are read.
"""

import itertools
from collections import defaultdict


class Dense:
    """The model as nested lists."""

    def __init__(self, model):
        self.P, self.w, self.nu = model.P.tolist(), model.w.tolist(), model.nu.tolist()
        R = model.R
        self.on_transitions = R.ndim == 4
        self.R = R.tolist()
        self.M, self.S, self.A, self.H = model.M, model.S, model.A, model.H
        self.discount, self.observed = model.discount, model.observe_rewards

    def outcomes(self, m, s, a):
        """`(prob, reward, seen, next)` of row `(m, s, a)`."""
        for nxt, p in enumerate(self.P[m][s][a]):
            if p > 0:
                r = self.R[m][s][a][nxt] if self.on_transitions else self.R[m][s][a]
                yield p, r, (r if self.observed else None), nxt

    def actions(self, s):
        """The available actions: those with outcomes."""
        return [a for a in range(self.A) if any(any(self.P[m][s][a]) for m in range(self.M))]

    def symbol(self, s, a, seen, nxt):
        """Index of the seen reward among the contexts' rewards there."""
        if seen is None:
            return 0
        values = {
            r
            for m in range(self.M)
            for _, r, _, to in self.outcomes(m, s, a)
            if to == nxt or not self.on_transitions
        }
        return sorted(values, reverse=self.on_transitions).index(seen)


def returns(model, choose):
    """Distribution `{(context, total): prob}` of an episode under `choose(history) -> action`."""
    d = Dense(model)
    result = defaultdict(float)

    def walk(m, t, history, total, prob):
        if t == d.H:
            result[m, total] += prob
            return
        s = history[-1]
        a = choose(history)
        for p, r, seen, nxt in d.outcomes(m, s, a):
            walk(m, t + 1, (*history, a, seen, nxt), total + d.discount**t * r, prob * p)

    for m in range(d.M):
        for s in range(d.S):
            if d.w[m] * d.nu[m][s] > 0:
                walk(m, 0, (s,), 0.0, d.w[m] * d.nu[m][s])
    return result


def follow(model, policy):
    """`choose(history)` that runs a policy graph by its definition."""
    d = Dense(model)

    def node_after(history):
        node = int(policy.root[history[0]])
        for i in range(0, len(history) - 3, 3):
            s, a, seen, nxt = history[i : i + 4]
            symbol = d.symbol(s, a, seen, nxt)
            step = int(policy.step[node])
            found = int(policy.default[step + 1][nxt])
            for e in range(policy.indptr[node], policy.indptr[node + 1]):
                if policy.symbol[e] == symbol and policy.next[e] == nxt:
                    found = int(policy.node[e])
            node = found
        return node

    return lambda history: int(policy.action[node_after(history)])


def mean_and_variance(distribution):
    """Mean and variance (second moment minus squared mean) of `{(context, total): prob}`."""
    mean = sum(p * x for (_, x), p in distribution.items())
    return mean, sum(p * x * x for (_, x), p in distribution.items()) - mean * mean


def value(model, policy):
    """Value of a policy graph."""
    return mean_and_variance(returns(model, follow(model, policy)))[0]


def best_history_value(model):
    """Optimum over all history-dependent policies, by recursion over histories."""
    d = Dense(model)

    def best(t, s, g):
        if t == d.H:
            return 0.0
        tops = []
        for a in d.actions(s):
            now, after = 0.0, {}
            for m in range(d.M):
                if g[m] > 0:
                    for p, r, seen, nxt in d.outcomes(m, s, a):
                        now += g[m] * p * r
                        weights = after.setdefault((seen, nxt), [0.0] * d.M)
                        weights[m] += g[m] * p
            tops.append(
                now + d.discount * sum(best(t + 1, nxt, h) for (_, nxt), h in after.items())
            )
        return max(tops)

    return sum(
        best(0, s, [d.w[m] * d.nu[m][s] for m in range(d.M)])
        for s in range(d.S)
        if any(d.w[m] * d.nu[m][s] > 0 for m in range(d.M))
    )


def markov_value(d, table):
    """Value of the Markov policy `table[t][s]`, by backward recursion."""
    v = [[0.0] * d.S for _ in range(d.M)]
    for t in reversed(range(d.H)):
        v = [
            [
                sum(
                    p * (r + d.discount * v[m][nxt])
                    for p, r, _, nxt in d.outcomes(m, s, table[t][s])
                )
                for s in range(d.S)
            ]
            for m in range(d.M)
        ]
    return sum(d.w[m] * d.nu[m][s] * v[m][s] for m in range(d.M) for s in range(d.S))


def reachable(d):
    """`(t, s)` pairs that some policy reaches."""
    now = {s for s in range(d.S) if any(d.w[m] * d.nu[m][s] > 0 for m in range(d.M))}
    layers = [now]
    for _ in range(d.H - 1):
        now = {
            nxt
            for m in range(d.M)
            for s in now
            for a in range(d.A)
            for _, _, _, nxt in d.outcomes(m, s, a)
        }
        layers.append(now)
    return [(t, s) for t, layer in enumerate(layers) for s in sorted(layer)]


def markov_tables(model):
    """All Markov policies as tables, up to what cannot be reached. Tiny models only."""
    d = Dense(model)
    places = reachable(d)
    assert d.A ** len(places) <= 200_000, "too large for brute force"
    for actions in itertools.product(*(d.actions(s) for _, s in places)):
        table = [[0] * d.S for _ in range(d.H)]
        for (t, s), a in zip(places, actions, strict=True):
            table[t][s] = a
        yield table


def best_markov_value(model):
    """Optimum over all Markov (step-dependent) policies, by enumeration."""
    d = Dense(model)
    return max(markov_value(d, table) for table in markov_tables(model))
