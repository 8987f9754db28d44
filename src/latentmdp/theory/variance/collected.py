"""A latent MDP with the reward collected so far in its state: what the variance needs.

`E[(X - c)^2]` is then an ordinary total reward: a step from `C` to `C'` pays
`(C' - c)^2 - (C - c)^2`, and the start pays `c^2`.
"""

from dataclasses import dataclass

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.planning.budget import StopCheck


@dataclass(frozen=True)
class Collected:
    """Rows of the augmented model; `model(c)` prices them, `error` bounds what rounding lost."""

    base: LatentMDP
    context: Ints
    state: Ints
    action: Ints
    next: Ints
    prob: Floats
    before: Floats  # (nnz,) reward collected before the outcome
    after: Floats
    nu: Floats  # (M, augmented states)
    error: float  # |X - rounded X| is at most this
    base_state: Ints  # (augmented states,) state of the base model

    def model(self, centre: float | None) -> LatentMDP:
        """Paying `(C' - c)^2 - (C - c)^2`, or plainly `C' - C` for None."""
        step = self.after - self.before
        pay = step if centre is None else step * (self.after + self.before - 2.0 * centre)
        return LatentMDP.from_rows(
            self.context, self.state, self.action, self.next, self.prob, pay, self.base.w,
            self.nu, self.base.H, n_actions=self.base.A, observe_rewards=False, max_return=None,
        )  # fmt: skip


def with_collected(
    model: LatentMDP, limit: int, grid: float | None = None, stop: StopCheck = lambda: False
) -> Collected | None:
    """Augment by the collected reward.

    None if it takes more than `limit` outcomes, or `stop` says so before.

    With a `grid` the collected reward is rounded to its multiples (what was seen stays part of the
    state, so that nothing is forgotten); then totals are off by at most `H grid / 2`.
    """
    timed = model.discount != 1.0
    ids: dict[tuple, int] = {}
    nu: list[tuple[int, int, float]] = []
    layer: set[tuple[int, int]] = set()  # (context, augmented state) to expand
    keys: list[tuple] = []

    def number(key: tuple) -> int:
        if key not in ids:
            ids[key] = len(keys)
            keys.append(key)
        return ids[key]

    for m, s in np.argwhere(model.w[:, None] * model.nu > 0):
        start = number((0, int(s), 0.0, 0))
        nu.append((int(m), start, float(model.nu[m, s])))
        layer.add((int(m), start))
    done: set[tuple[int, int]] = set()
    rows: list[tuple] = []
    for t in range(model.H):
        following: set[tuple[int, int]] = set()
        for m, place in sorted(layer - done):
            done.add((m, place))
            _, s, C, _ = keys[place]
            for a in range(model.A):
                row = (m * model.S + s) * model.A + a
                for i in range(model.indptr[row], model.indptr[row + 1]):
                    total = C + model.discount**t * float(model.reward[i])
                    symbol = 0
                    if grid is not None:
                        total, symbol = grid * round(total / grid), int(model.symbol[i])
                    after = number((t + 1 if timed else 0, int(model.next[i]), total, symbol))
                    rows.append((m, place, a, after, float(model.prob[i]), C, total))
                    following.add((m, after))
            if len(rows) > limit or stop():
                return None
        layer = following
    for m in range(model.M):  # what cannot happen stays where it is, at no reward
        if stop():
            return None
        for place in range(len(keys)):
            if (m, place) not in done:
                rows += [(m, place, a, place, 1.0, 0.0, 0.0) for a in range(model.A)]
    columns = list(zip(*rows, strict=True))
    first = np.zeros((model.M, len(keys)))
    for m, place, p in nu:
        first[m, place] = p
    first[model.w == 0] = np.eye(1, len(keys))  # contexts that never occur
    context, state, action, following_state = (np.array(c, dtype=np.int64) for c in columns[:4])
    prob, collected_before, collected_after = (np.array(c, dtype=float) for c in columns[4:])
    return Collected(
        model, context, state, action, following_state, prob, collected_before, collected_after,
        first,
        0.0 if grid is None else model.H * grid / 2.0,
        np.array([key[1] for key in keys], dtype=np.int64),
    )  # fmt: skip
