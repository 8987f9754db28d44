"""`maze`: a grid with one hidden goal among several candidate cells."""

import numpy as np

from latentmdp.builtin_domains.spec import MAX_SEED, Domain, Key, generator, require_size
from latentmdp.errors import ModelError
from latentmdp.model.horizons import MAX_HORIZON
from latentmdp.model.labels import Layout
from latentmdp.model.latent_mdp import LatentMDP

ACTIONS = ("up", "right", "down", "left")
_MOVES = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])


def build(
    size: int,
    goals: int,
    horizon: int,
    slip: float,
    seed: int,
    walls: float,
    blocked: bool | None,
    observe_rewards: bool = True,
) -> LatentMDP:
    """A square grid; each context hides its goal in another cell, and the agent starts in the
    middle.

    Good for: watching a belief move. A candidate cell that does not pay is ruled out, so memory
    is worth something, beliefs merge exactly, and the best route is a search plan. A move goes
    astray with probability `slip`, evenly to the other three directions; off the grid or into a
    wall it stays; with `blocked=1` such a move is unavailable, and only a slip can try it. Walls
    never cut the grid in two. Any action on the goal pays 1 and ends the
    episode in the absorbing state `done`, which pays nothing: so totals are at most 1.
    """
    cells = size * size
    if walls >= 1 and walls != int(walls):
        raise ModelError(f"maze: walls must be a whole number or below 1; it is {walls:g}")
    count = int(walls) if walls >= 1 else round(walls * cells)
    free = cells - count
    if free < 2:
        raise ModelError(f"maze: walls must leave 2 of {cells} cells free; {count} are walls")
    if goals > free - 1:
        raise ModelError(
            f"maze: goals must be at most {free - 1} (free cells without the start); it is {goals}"
        )
    S, A = free + 1, len(ACTIONS)
    require_size("maze", goals * S * A * (A if slip > 0 else 1))

    rng = generator("maze", seed)
    start_cell = (size // 2) * size + size // 2
    is_wall = _carve(size, count, start_cell, rng)
    state_of = np.where(is_wall, -1, np.cumsum(~is_wall) - 1)  # (cells,)
    start, done = int(state_of[start_cell]), free
    goal_states = rng.permutation(np.delete(np.arange(free), start))[:goals]

    context, state, action, next_state, prob = _rows(size, state_of, goals, slip)
    paid = state == goal_states[context]  # rows on the goal: replaced by a sure step to `done`
    keep = ~paid
    m, a = (grid.ravel() for grid in np.meshgrid(np.arange(goals), np.arange(A), indexing="ij"))
    context = np.concatenate([context[keep], m, m])
    state = np.concatenate([state[keep], goal_states[m], np.full(m.size, done)])
    action = np.concatenate([action[keep], a, a])
    next_state = np.concatenate([next_state[keep], np.full(2 * m.size, done)])
    prob = np.concatenate([prob[keep], np.ones(2 * m.size)])
    reward = np.zeros(prob.size)
    reward[keep.sum() : keep.sum() + m.size] = 1.0

    nu = np.zeros((goals, S))
    nu[:, start] = 1.0
    free_cells = np.flatnonzero(~is_wall)
    names = [f"r{r}c{c}" for r, c in _row_column(free_cells, size)]
    layout = Layout(
        shape=(size, size),
        positions=(*_row_column(free_cells, size), (-1, -1)),
        walls=_row_column(np.flatnonzero(is_wall), size),
        marks=tuple((int(goal),) for goal in goal_states),
    )
    return LatentMDP.from_rows(
        context,
        state,
        action,
        next_state,
        prob,
        reward,
        np.full(goals, 1.0 / goals),
        nu,
        horizon,
        n_actions=A,
        allowed=_open_ways(size, state_of) if blocked else None,
        observe_rewards=observe_rewards,
        state_names=(*names, "done"),
        action_names=ACTIONS,
        context_names=tuple(f"goal {names[goal]}" for goal in goal_states),
        layout=layout,
    )


def _open_ways(size: int, state_of: np.ndarray) -> np.ndarray:
    """`(S, A)` whether a move leads to another cell; in `done` all actions are available."""
    target = _targets(size, state_of)
    return np.vstack([target != np.arange(len(target))[:, None], np.ones((1, len(ACTIONS)), bool)])


def _targets(size: int, state_of: np.ndarray) -> np.ndarray:
    """`(free, 4)` where each direction leads: to the cell itself off the grid or into a wall."""
    cell = np.flatnonzero(state_of >= 0)
    r = (cell // size)[:, None] + _MOVES[:, 0]
    c = (cell % size)[:, None] + _MOVES[:, 1]
    inside = (r >= 0) & (r < size) & (c >= 0) & (c < size)
    target = np.where(inside, state_of[np.where(inside, r * size + c, 0)], -1)
    return np.where(target >= 0, target, np.arange(cell.size)[:, None])


def _rows(
    size: int, state_of: np.ndarray, goals: int, slip: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Moves of the empty grid for every context: context, state, action, next, prob (each (n,))."""
    target = _targets(size, state_of)
    free = len(target)

    A = len(ACTIONS)
    weight = np.full((A, A), slip / 3.0)  # [action, direction really taken]
    np.fill_diagonal(weight, 1.0 - slip)
    s, a, d = (g.ravel() for g in np.indices((free, A, A)))
    p = weight[a, d]
    s, a, d, p = s[p > 0], a[p > 0], d[p > 0], p[p > 0]
    # several directions may end in one cell: add them up
    code, inverse = np.unique((s * A + a) * free + target[s, d], return_inverse=True)
    prob = np.bincount(inverse, weights=p)
    state, action, next_state = code // (A * free), code // free % A, code % free
    context = np.repeat(np.arange(goals), code.size)
    return (
        context,
        np.tile(state, goals),
        np.tile(action, goals),
        np.tile(next_state, goals),
        np.tile(prob, goals),
    )


def _carve(size: int, count: int, start: int, rng: np.random.Generator) -> np.ndarray:
    """`count` wall cells (cells,) bool whose complement stays connected and holds the start.

    Leaves of a random spanning tree are walled in one by one: what remains is always a tree.
    Cost: O(cells log cells).
    """
    cells = size * size
    is_wall = np.zeros(cells, dtype=bool)
    if count == 0:
        return is_wall
    index = np.arange(cells).reshape(size, size)
    edges = np.concatenate(
        [
            np.stack([index[:, :-1].ravel(), index[:, 1:].ravel()], axis=1),
            np.stack([index[:-1].ravel(), index[1:].ravel()], axis=1),
        ]
    )
    root = list(range(cells))

    def find(x: int) -> int:
        while root[x] != x:
            root[x] = root[root[x]]
            x = root[x]
        return x

    neighbours: list[set[int]] = [set() for _ in range(cells)]
    for u, v in rng.permutation(edges).tolist():
        ru, rv = find(u), find(v)
        if ru != rv:
            root[ru] = rv
            neighbours[u].add(v)
            neighbours[v].add(u)

    leaves = [x for x in range(cells) if len(neighbours[x]) == 1 and x != start]
    for _ in range(count):
        pick = int(rng.integers(len(leaves)))
        leaves[pick], leaves[-1] = leaves[-1], leaves[pick]
        leaf = leaves.pop()
        is_wall[leaf] = True
        (parent,) = neighbours[leaf]
        neighbours[parent].discard(leaf)
        if len(neighbours[parent]) == 1 and parent != start:
            leaves.append(parent)
    return is_wall


def _row_column(cells: np.ndarray, size: int) -> tuple[tuple[int, int], ...]:
    return tuple(divmod(cell, size) for cell in cells.tolist())


DOMAIN = Domain(
    "maze",
    (
        Key("size", int, 5, 2, 1000, "cells on each side"),
        Key("goals", int, lambda v: min(4, v["size"] ** 2 - 1), 1, 100_000,
            "candidate goals, one per context", "4 (3 if size=2)"),
        Key("horizon", int, lambda v: 4 * v["size"], 1, MAX_HORIZON,
            "steps of an episode", "4 x size"),
        Key("slip", float, 0.1, 0, 1, "probability that a move goes astray"),
        Key("seed", int, 0, 0, MAX_SEED, "places goals and walls"),
        Key("walls", float, 0, 0, 1_000_000,
            "number of wall cells, or below 1 the fraction of cells"),
        Key("blocked", bool, None, 0, 1, "moves into walls and off the grid are unavailable", "0"),
    ),
    build,
)  # fmt: skip
