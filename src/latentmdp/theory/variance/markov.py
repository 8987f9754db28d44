"""`Var*` over Markov policies: ascent from many starts, and an exact search for small models."""

import itertools
from collections.abc import Iterator

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.kernels.structs import Moments, PricedRows
from latentmdp.kernels.theory.variance import raise_variance
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.planning.budget import StopCheck
from latentmdp.theory.variance.history import ActionKinds, solve_contexts, value_range

CENTRES = 9  # values of c tried in the search's bound
Place = tuple[int, int, float]  # context, state, reward collected so far


def ascend(
    model: LatentMDP, tables: list[Ints], stop: StopCheck = lambda: False,
    tolerance: float = 1e-14, max_sweeps: int = 100,
) -> Iterator[Ints]:  # fmt: skip
    """Each `table (H, S)` improved by single switches until none raises the variance.

    After `stop` says so there are no more sweeps, and no more tables after this one.
    """
    H, M, S = model.H, model.M, model.S
    moments = Moments(*np.empty((2, H, S, M)), *np.empty((2, H + 1, M, S)))
    rows = PricedRows(model.A, model.indptr, model.next, model.symbol, model.prob, model.reward)
    start = model.w[:, None] * model.nu
    for given in tables:
        table = np.array(given, dtype=np.int64)
        for _ in range(max_sweeps):
            before = table.copy()
            raise_variance(rows, model.discount, start, table, tolerance, 1, moments)
            if stop() or np.array_equal(table, before):
                break
        yield table
        if stop():
            return


def start_tables(model: LatentMDP, random_starts: int, seed: int) -> list[Ints]:
    """Tables to ascend from: each context's best and worst policy, and random ones."""
    tables: list[Ints] = []
    for sign in (1.0, -1.0):
        _, best = solve_contexts(model, sign)
        tables += [best[:, m] for m in range(min(model.M, 4))]
    rng = np.random.default_rng(seed)
    tables += [rng.integers(model.A, size=(model.H, model.S)) for _ in range(random_starts)]
    return tables


def search(
    model: LatentMDP, limit: int, incumbent: float, stop: StopCheck = lambda: False
) -> tuple[Ints | None, bool]:
    """`(table, finished)`: a table with a variance above `incumbent`, if there is one.

    Branches on the actions of the states reached at a step, first step first. Cuts where
    `min_c max E[(X - c)^2]`, context and collected reward known, shows nothing better. Not
    finished after looking at `limit` places (context, state, collected reward), or when `stop`
    says so.
    """
    low, high = value_range(model)
    start = model.w[:, None] * model.nu
    ends = (start * low[0]).sum(), (start * high[0]).sum()
    centres = np.linspace(*ends, CENTRES)
    actions = ActionKinds(model)
    memo: dict[tuple[int, Place], Floats] = {}
    table = np.zeros((model.H, model.S), dtype=np.int64)
    best: list = [incumbent, None]
    left = [limit]

    def outcomes(m: int, s: int, a: int) -> range:
        row = (m * model.S + s) * model.A + a
        return range(model.indptr[row], model.indptr[row + 1])

    def bound(t: int, place: Place) -> Floats:
        """`(CENTRES,)` largest expected `(X - c)^2` from here on, context and reward known."""
        key = (t, place)
        if key not in memo:
            m, s, C = place
            left[0] = -1 if stop() else left[0] - 1
            if t == model.H or left[0] < 0:
                memo[key] = (C - centres) ** 2
            else:
                scale = model.discount**t
                memo[key] = np.max([
                    sum(
                        model.prob[i]
                        * bound(t + 1, (m, int(model.next[i]), C + scale * model.reward[i]))
                        for i in outcomes(m, s, a)
                    )
                    for a in actions[s]
                ], axis=0)  # fmt: skip
        return memo[key]

    def branch(t: int, reach: dict[Place, float]) -> None:
        if left[0] < 0:
            return
        if t == model.H:
            mean = sum(p * C for (_, _, C), p in reach.items())
            variance = sum(p * (C - mean) ** 2 for (_, _, C), p in reach.items())
            if variance > best[0]:
                best[:] = variance, table.copy()
            return
        states = sorted({s for _, s, _ in reach})
        scale = model.discount**t
        for chosen in itertools.product(*(actions[s] for s in states)):
            left[0] = -1 if stop() else left[0] - len(reach)
            table[t, states] = chosen
            after: dict[Place, float] = {}
            for (m, s, C), p in reach.items():
                for i in outcomes(m, s, table[t, s]):
                    place = (m, int(model.next[i]), C + scale * model.reward[i])
                    after[place] = after.get(place, 0.0) + p * model.prob[i]
            if left[0] < 0:
                return
            most = sum(p * bound(t + 1, place) for place, p in after.items())
            if np.min(most) > best[0] + 1e-13:
                branch(t + 1, after)

    branch(0, {(int(m), int(s), 0.0): float(start[m, s]) for m, s in np.argwhere(start > 0)})
    return best[1], left[0] >= 0
