"""A made-up clinic: many states, few visits each, doctors who know the diagnosis.

A patient has some vital signs, each low, normal or high, and some treatments that are on or off.
An action sets all treatments. Each sign moves by itself; which way a treatment pushes it depends on
the diagnosis, which is written down when the patient leaves. Patients recover (+1) when all signs
(but one of four) are normal without treatment, and may die (-1) while several are abnormal; nothing
else pays.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd

import latentmdp as lm
from latentmdp.planning.baselines import context_values, row_values


class Clinic(NamedTuple):
    """The true model, with the doctors' probabilities `(H, M, S, A)` and what they earn."""

    model: lm.LatentMDP
    doctors: np.ndarray
    value: float

    def log(self, patients: int, seed: int) -> pd.DataFrame:
        """Episodes of the doctors, each until its end (or the horizon)."""
        return episodes_of(self.model, self.doctors, patients, np.random.default_rng(seed))

    def known(self) -> dict[str, range]:
        """All names of the model, so that none is lost because a log has not shown it."""
        model = self.model
        return {"contexts": range(model.M), "states": range(model.S), "actions": range(model.A)}


def clinic(
    signs: int = 3,
    treatments: int = 3,
    diagnoses: int = 2,
    horizon: int = 20,
    *,
    slips: float = 0.3,
    informed: bool = True,
    seed: int = 0,
) -> Clinic:
    """A clinic with `3^signs 2^treatments + 2` states and `2^treatments` actions.

    `slips`: how often doctors do something other than what they think best. `informed`: whether
    they know the diagnosis; others treat all patients by the average over diagnoses.
    """
    rng = np.random.default_rng(seed)
    levels = list(product((-1, 0, 1), repeat=signs))
    actions = list(product((0, 1), repeat=treatments))
    L, A, M = len(levels), len(actions), diagnoses
    S = L * A + 2
    spare = max(signs - 3, 0)  # signs that may be abnormal in patients who recover
    recovered, died = S - 2, S - 1
    # which sign each treatment pushes, and which way for each diagnosis
    push = np.zeros((M, treatments, signs))
    for k in range(treatments):
        push[:, k, k % signs] = rng.choice([-1.0, 1.0], M)
        push[:, k, (k + 1) % signs] = rng.choice([-0.5, 0.0, 0.5], M)
    drift = rng.choice([-0.6, 0.6], (M, signs))
    rows: list[tuple[np.ndarray, ...]] = []
    level = np.array(levels)
    number = {value: i for i, value in enumerate(levels)}
    steps = np.array(list(product((-1, 0, 1), repeat=signs)))
    for m in range(M):
        for a, on in enumerate(actions):
            force = drift[m] + np.asarray(on) @ push[m]
            for i, now in enumerate(levels):
                up, down = 0.1 + 0.35 * np.clip(force, 0, 1.5), 0.1 + 0.35 * np.clip(-force, 0, 1.5)
                up, down = np.minimum(up, 0.6), np.minimum(down, 0.6)
                chance = np.stack([down, 1.0 - up - down, up])  # (3, signs)
                prob = np.prod(chance[steps + 1, np.arange(signs)], axis=1)
                after = np.clip(level[i] + steps, -1, 1)
                to = np.array([number[tuple(x)] for x in after.tolist()]) * A + a
                bad = max(int(np.abs(now).sum()) - spare, 0)
                dies = (0.0, 0.0, 0.02, 0.1)[bad]
                well = bad == 0 and not any(on)
                total = np.bincount(to, prob, S) * (1.0 - dies) * (not well)
                total[died] += dies * (not well)
                total[recovered] += float(well)
                nxt = np.flatnonzero(total)
                for before in range(A):
                    s = i * A + before
                    n = len(nxt)
                    rows.append((np.full(n, m), np.full(n, s), np.full(n, a), nxt, total[nxt]))
        for s in (recovered, died):
            for a in range(A):
                rows.append(tuple(np.array([x]) for x in (m, s, a, s, 1.0)))
    context, state, action, nxt, prob = (np.concatenate(x) for x in zip(*rows, strict=True))
    reward = np.where(state >= L * A, 0.0, (nxt == recovered) * 1.0 - (nxt == died) * 1.0)
    nu = np.zeros((M, S))
    start = (np.abs(level).sum(axis=1) == 2 + spare).astype(float)
    nu[:, np.arange(L) * A] = start / start.sum()
    w = rng.dirichlet(np.full(M, 5.0))
    model = lm.LatentMDP.from_rows(
        context, state, action, nxt, prob, reward, w, nu, horizon, n_actions=A, max_return=None,
    )  # fmt: skip
    later, _ = context_values(model)
    doctors = np.empty((horizon, M, S, A))
    for t in range(horizon):
        q = row_values(model, later[t + 1])
        if not informed:
            q = np.broadcast_to(np.einsum("m,msa->sa", w, q), q.shape)
        best = q.argmax(axis=2)
        doctors[t] = slips / (A - 1)
        np.put_along_axis(doctors[t], best[:, :, None], 1.0 - slips, axis=2)
    return Clinic(model, doctors, value_of(model, doctors))


def value_of(model: lm.LatentMDP, behaviour: np.ndarray) -> float:
    """What an episode of the behaviour `(H, M, S, A)` earns on average."""
    value = np.zeros((model.M, model.S))
    for t in reversed(range(model.H)):
        value = (behaviour[t] * row_values(model, value)).sum(axis=2)
    return float((model.w[:, None] * model.nu * value).sum())


def episodes_of(
    model: lm.LatentMDP, behaviour: np.ndarray, episodes: int, rng: np.random.Generator
) -> pd.DataFrame:
    """A log of `behaviour (H, M, S, A)`: rows until a state in which nothing happens any more."""
    over = _over(model)
    total = np.cumsum(model.prob)
    first = np.concatenate([[0.0], total])[model.indptr]
    m = rng.choice(model.M, episodes, p=model.w)
    s = (np.cumsum(model.nu, axis=1)[m] < rng.random((episodes, 1))).sum(axis=1)
    s = s.clip(max=model.S - 1)
    alive, parts = np.ones(episodes, dtype=bool), []
    for t in range(model.H):
        e = np.flatnonzero(alive)
        mm, ss = m[e], s[e]
        chance = np.cumsum(behaviour[t, mm, ss], axis=1)
        a = (chance < rng.random((len(e), 1)) * chance[:, -1:]).sum(axis=1)
        row = (mm * model.S + ss) * model.A + a
        draw = first[row] + rng.random(len(e)) * (first[row + 1] - first[row])
        i = np.clip(np.searchsorted(total, draw, side="right"), model.indptr[row],
                    model.indptr[row + 1] - 1)  # fmt: skip
        parts.append(
            pd.DataFrame({"episode": e, "step": t, "context": mm, "state": ss, "action": a,
                          "reward": model.reward[i], "next_state": model.next[i],
                          "terminated": over[model.next[i]]})
        )  # fmt: skip
        s[e] = model.next[i]
        alive[e] = ~over[model.next[i]]
    return pd.concat(parts).sort_values(["episode", "step"], ignore_index=True)


def _over(model: lm.LatentMDP) -> np.ndarray:
    """`(S,)` states that all actions leave as they are, in all contexts, and pay nothing."""
    row = np.repeat(np.arange(len(model.indptr) - 1), np.diff(model.indptr))
    state = row // model.A % model.S
    moves = (model.next != state) | (model.reward != 0.0)
    return np.bincount(state, moves, model.S) == 0
