"""`Var*` over history-dependent policies, exactly, by recursion over the history tree.

What a subtree contributes to an episode's first and second moment, `(mu, q)`, adds up over
disjoint histories, and choices at one history do not bind those at another. With `(u, v)` from the
rest of the tree, `Var = [q - mu^2 - 2 mu u] + v - u^2`: whatever the rest does, the best choice
lies on the upper envelope of the lines `u -> (q - mu^2) - 2 mu u`, over the means `u` the rest can
have. So each history keeps that envelope and nothing else. (The hull of the moments themselves,
or dominance in them, would lose the optimum.)
"""

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.kernels.policies import backward_induction
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.planning.budget import StopCheck
from latentmdp.theory.variance.memory import after_action

Decision = tuple[int, tuple["Moments", ...]]  # the action, and one point per observation after it
Moments = tuple[float, float, Decision | None]  # mu, q, how
# history, step, state, reach by context, reward collected so far by context
Node = tuple[tuple[int, ...], int, int, Floats, Floats]


class _TooLargeError(Exception):
    pass


def history_variance(
    model: LatentMDP, limit: int, stop: StopCheck = lambda: False
) -> dict[tuple[int, ...], int] | None:
    """Actions by history of a policy with the largest variance.

    None beyond `limit` histories, or when `stop` says so.

    A history is `(s_0, a_0, symbol_0, s_1, ...)` as in `PolicyGraph.from_tree`.
    """
    search = _Search(model, limit, stop)
    try:
        point, starts = search.best()
    except _TooLargeError:
        return None
    actions: dict[tuple[int, ...], int] = {}
    stack: list[tuple[tuple[int, ...], Moments]] = [
        ((s,), p) for s, p in zip(starts, point, strict=True)
    ]
    while stack:
        history, (_, _, choice) = stack.pop()
        if choice is None:
            continue
        action, after = choice
        actions[history] = action
        seen = search.observations[history, action]
        stack += [((*history, action, *seen[i]), after[i]) for i in range(len(after))]
    return actions


class _Search:
    def __init__(self, model: LatentMDP, limit: int, stop: StopCheck) -> None:
        self.model, self.left, self.stop = model, limit, stop
        self.low, self.high = value_range(model)
        self.actions = ActionKinds(model)
        self.observations: dict[tuple[tuple[int, ...], int], list[tuple[int, int]]] = {}

    def best(self) -> tuple[tuple[Moments, ...], list[int]]:
        start = self.model.w[:, None] * self.model.nu
        starts = [int(s) for s in np.flatnonzero(start.any(axis=0))]
        none = np.zeros(self.model.M)
        nodes: list[Node] = [((s,), 0, s, start[:, s], none) for s in starts]
        sums = self.combine(nodes, (0.0, 0.0))
        best = max(sums, key=lambda x: x[1] - x[0] * x[0])
        return best[2], starts

    def bounds(self, t: int, s: int, g: Floats, G1: Floats) -> tuple[float, float]:
        """What a subtree's mean can be at most and at least."""
        scale, base = self.model.discount**t, G1.sum()
        return base + scale * (g @ self.low[t, :, s]), base + scale * (g @ self.high[t, :, s])

    def combine(self, nodes: list[Node], rest: tuple[float, float]) -> list:
        """`(mu, q, points)` of the useful joint choices at several disjoint histories."""
        spans = [self.bounds(t, s, g, g * C) for _, t, s, g, C in nodes]
        sums: list = [(0.0, 0.0, ())]
        for i, node in enumerate(nodes):
            lo = rest[0] + sum(b[0] for b in spans[i + 1 :])
            hi = rest[1] + sum(b[1] for b in spans[i + 1 :])
            mus = [x[0] for x in sums]
            points = self.envelope(node, (lo + min(mus), hi + max(mus)))
            grown = [(x[0] + y[0], x[1] + y[1], (*x[2], y)) for x in sums for y in points]
            sums = upper_envelope(grown, lo, hi)
        return sums

    def envelope(self, node: Node, rest: tuple[float, float]) -> list[Moments]:
        """The useful points of one history."""
        history, t, s, g, C = node
        self.left -= 1
        if self.left < 0 or self.stop():
            raise _TooLargeError
        model = self.model
        if t == model.H:
            return [(float(g @ C), float(g @ (C * C)), None)]
        found: list[Moments] = []
        for a in self.actions[s]:
            after = after_action(model, t, s, a, g, C)
            self.observations[history, a] = list(after)
            nodes: list[Node] = [
                ((*history, a, *seen), t + 1, seen[1], weight, collected)
                for seen, (weight, collected) in after.items()
            ]
            found += [(mu, q, (a, how)) for mu, q, how in self.combine(nodes, rest)]
        return upper_envelope(found, *rest)


def upper_envelope(points: list, low: float, high: float) -> list:
    """Of `(mu, q, ...)` those whose line `(q - mu^2) - 2 mu u` is highest at a `u` in between."""
    lines = sorted(((-2.0 * p[0], p[1] - p[0] * p[0], i) for i, p in enumerate(points)))
    kept: list[tuple[float, float, int]] = []
    for line in lines:
        slope, height, _ = line
        if kept and kept[-1][0] == slope:
            kept.pop()  # sorted by height as well
        while kept:
            s1, h1, _ = kept[-1]
            meet = (h1 - height) / (slope - s1)  # from here on the new line is higher
            floor = low
            if len(kept) > 1:
                s0, h0, _ = kept[-2]
                floor = max(low, (h0 - h1) / (s1 - s0))
            if meet > floor:
                break
            kept.pop()
        if not kept or (kept[-1][1] - height) / (slope - kept[-1][0]) < high:
            kept.append(line)
    return [points[i] for _, _, i in kept]


def value_range(model: LatentMDP) -> tuple[Floats, Floats]:
    """`(low, high) (H+1, M, S)`: least and largest value of each context as an MDP of its own."""
    return -solve_contexts(model, -1.0)[0], solve_contexts(model, 1.0)[0]


def solve_contexts(model: LatentMDP, sign: float) -> tuple[Floats, Ints]:
    """`context_optimal` with rewards times `sign`: -1 makes the worst policies the best ones."""
    value = np.zeros((model.H + 1, model.M, model.S))
    best = np.empty((model.H, model.M, model.S), dtype=np.int64)
    backward_induction(
        model.indptr, model.next, model.prob, sign * model.row_reward, model.A, 0,
        model.discount, 0, value, best,
    )  # fmt: skip
    return value, best


class ActionKinds:
    """By state, one action of each kind: actions whose rows agree in all contexts are one kind."""

    def __init__(self, model: LatentMDP) -> None:
        self._model = model
        self._found: dict[int, list[int]] = {}  # of the states that were asked for

    def __getitem__(self, s: int) -> list[int]:
        if s not in self._found:
            kinds: dict[tuple[bytes, ...], int] = {}
            for a in range(self._model.A):
                kinds.setdefault(self._rows(s, a), a)
            self._found[s] = list(kinds.values())
        return self._found[s]

    def _rows(self, s: int, a: int) -> tuple[bytes, ...]:
        model, key = self._model, []
        for m in range(model.M):
            row = (m * model.S + s) * model.A + a
            part = slice(model.indptr[row], model.indptr[row + 1])
            key += [x[part].tobytes() for x in (model.next, model.symbol, model.prob, model.reward)]
        return tuple(key)
