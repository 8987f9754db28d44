"""What the learner takes as known: `w`, `nu` and `R`, given as in the paper, or estimated.

`estimate={"w", "nu", "R"}` learns those: empirical frequencies for `w` and `nu`; a deterministic
reward of `(context, state, action, next)` is known after one visit. That is beyond the theorem,
which takes all three as given.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from latentmdp.errors import ModelError
from latentmdp.learning.state import State
from latentmdp.model import LatentMDP, whole
from latentmdp.optimism.model import Known

ESTIMABLE = ("w", "nu", "R")
SAME = 1e-9  # rewards closer than this are one reward

Step = tuple[int, int, float, int]  # state, action, reward, next


def known_from(
    R: ArrayLike, w: ArrayLike, nu: ArrayLike, horizon: int, observe_rewards: bool = True
) -> Known:
    """Knowledge without transitions: `R (M,S,A)` or `(M,S,A,S)`, `w (M,)`, `nu (M,S)`."""
    R, w, nu = (np.array(x, dtype=float) for x in (R, w, nu))
    if R.ndim not in (3, 4) or w.shape != R.shape[:1] or nu.shape != R.shape[:2]:
        raise ModelError(
            "R must have the shape (M, S, A) or (M, S, A, S), w (M,), nu (M, S); they have "
            f"{R.shape}, {w.shape}, {nu.shape}"
        )
    if not (np.isfinite(R).all() and R.min() >= 0.0 and R.max() <= 1.0):
        raise ModelError(f"R must lie in [0, 1]; it goes from {R.min():.6g} to {R.max():.6g}")
    for name, p in (("w", w[None]), ("nu", nu)):
        if not (p.min() >= 0.0 and np.abs(p.sum(axis=1) - 1.0).max() <= 1e-9):  # also if NaN
            raise ModelError(f"{name} must hold probabilities that sum to 1")
    horizon = whole("horizon", horizon, 1)
    M, S, A = R.shape[:3]
    symbols = _symbols(R) if observe_rewards else np.zeros(R.shape, dtype=np.int64)
    rows = M * S * A
    if R.ndim == 3:
        return Known(M, S, A, horizon, w, nu, R.reshape(rows), symbols.reshape(rows), None, None)
    return Known(
        M, S, A, horizon, w, nu, np.zeros(rows), np.zeros(rows, dtype=np.int64),
        R.reshape(rows, S), symbols.reshape(rows, S),
    )  # fmt: skip


def nothing_known(contexts: int, states: int, actions: int, horizon: int) -> Known:
    """Sizes only: for `estimate={"w", "nu", "R"}`."""
    for name, size in zip(
        ("contexts", "states", "actions", "horizon"),
        (contexts, states, actions, horizon),
        strict=True,
    ):
        if size < 1:
            raise ModelError(f"{name} must be at least 1; it is {size}")
    w, nu = np.full(contexts, 1.0 / contexts), np.full((contexts, states), 1.0 / states)
    return known_from(np.zeros((contexts, states, actions, states)), w, nu, horizon)


class Knowledge:
    """`known` for the solver, the symbols of observations, and the tallies of what is estimated."""

    def __init__(self, known: Known, estimate: Collection[str] = ()) -> None:
        if set(estimate) - set(ESTIMABLE):
            raise ModelError(
                f"estimate must name some of {', '.join(ESTIMABLE)}; it is {sorted(estimate)}"
            )
        self.estimate = tuple(name for name in ESTIMABLE if name in estimate)
        M, S, A = known.M, known.S, known.A
        if "R" in self.estimate and known.next_reward is None:
            spread = np.repeat(known.row_reward[:, None], S, axis=1)
            known = replace(
                known,
                row_reward=np.zeros(M * S * A),
                row_symbol=np.zeros(M * S * A, dtype=np.int64),
                next_reward=spread,
                next_symbol=_symbols(spread.reshape(M, S, A, S)).reshape(-1, S),
            )
        self.known = known
        self.starts = np.zeros((M, S), dtype=np.int64)
        size = (M * S * A, S) if "R" in self.estimate else (0, 0)
        self.seen = np.zeros(size, dtype=bool)

    @classmethod
    def of(cls, given: LatentMDP | Known, estimate: Collection[str] = ()) -> Knowledge:
        """From a model (its transitions are not read) or from knowledge without one."""
        return cls(Known.of(given) if isinstance(given, LatentMDP) else given, estimate)

    def symbol(self, state: int, action: int, nxt: int, reward: float, total: float) -> int:
        """What the policy sees besides the next state; -1 if no context can give it."""
        if not reward >= 0.0 or total > 1.0 + SAME:
            raise ModelError(
                "rewards must be at least 0 and total at most 1 in an episode; "
                f"this one is {reward!r} and makes {total:.17g} (scale them: see normalized())"
            )
        rewards, symbols = self._by_context(state, action, nxt)
        match = np.flatnonzero(np.abs(rewards - reward) <= SAME)
        if len(match):
            return int(symbols[match[0]])
        if "R" in self.estimate:
            return -1
        values = ", ".join(f"{x:.6g}" for x in np.unique(rewards))
        raise ModelError(
            f"the reward of (state {state}, action {action}, next {nxt}) must be one that a "
            f"context gives ({values}); it is {reward!r}"
        )

    def _by_context(self, state: int, action: int, nxt: int) -> tuple[np.ndarray, np.ndarray]:
        """`(M,), (M,)`: what each context pays there, and what of it is seen."""
        known = self.known
        row = np.arange(known.M) * (known.S * known.A) + state * known.A + action
        if known.next_reward is not None and known.next_symbol is not None:
            return known.next_reward[row, nxt], known.next_symbol[row, nxt]
        return known.row_reward[row], known.row_symbol[row]

    def check(self, context: int, path: Sequence[Step]) -> None:
        """Refuse a context that cannot have paid what was seen; it would spoil the counts."""
        if "R" in self.estimate:
            self._check_seen(context, path)
            return
        for state, action, reward, nxt in path:
            rewards, symbols = self._by_context(state, action, nxt)
            if symbols[context] not in symbols[np.abs(rewards - reward) <= SAME]:
                raise ModelError(
                    f"the context must be one that pays what was seen; context {context} pays "
                    f"{rewards[context]:.6g} for (state {state}, action {action}, next {nxt}), the "
                    f"episode had {reward:.6g}"
                )

    def _check_seen(self, context: int, path: Sequence[Step]) -> None:
        """Refuse an episode whose rewards contradict deterministic ones seen before."""
        rewards = self.known.next_reward
        assert rewards is not None
        for state, action, reward, nxt in path:
            row = (context * self.known.S + state) * self.known.A + action
            if self.seen[row, nxt] and abs(rewards[row, nxt] - reward) > SAME:
                raise ModelError(
                    f"the reward of (context {context}, state {state}, action {action}, next {nxt})"
                    f" must be deterministic; it was {rewards[row, nxt]:.6g} and is {reward:.6g}"
                )

    def observe(self, context: int, path: Sequence[Step]) -> None:
        """Learn from a finished episode what is to be estimated."""
        self.check(context, path)
        if not self.estimate:
            return
        changes: dict[str, Any] = {}
        self.starts[context, path[0][0]] += 1
        if "w" in self.estimate:
            changes["w"] = self.starts.sum(axis=1) / self.starts.sum()
        if "nu" in self.estimate:
            visits = self.starts.sum(axis=1, keepdims=True)
            changes["nu"] = np.where(
                visits > 0, self.starts / np.maximum(visits, 1), 1.0 / self.known.S
            )
        if "R" in self.estimate and self._has_news(context, path):
            changes |= self._learn_rewards(context, path)
        self.known = replace(self.known, **changes)

    def _has_news(self, context: int, path: Sequence[Step]) -> bool:
        S, A = self.known.S, self.known.A
        return not all(self.seen[(context * S + s) * A + a, nxt] for s, a, _, nxt in path)

    def _learn_rewards(self, context: int, path: Sequence[Step]) -> dict[str, Any]:
        M, S, A = self.known.M, self.known.S, self.known.A
        assert self.known.next_reward is not None
        assert self.known.next_symbol is not None
        rewards, symbols = self.known.next_reward.copy(), self.known.next_symbol.copy()
        for state, action, reward, nxt in path:
            row = (context * S + state) * A + action
            rewards[row, nxt], self.seen[row, nxt] = reward, True
            rows = np.arange(M) * (S * A) + state * A + action
            symbols[rows, nxt] = np.unique(rewards[rows, nxt], return_inverse=True)[1]
        return {"next_reward": rewards, "next_symbol": symbols}

    # ------------------------------------------------------------------ plain data

    def state(self) -> State:
        """Everything, as plain data."""
        known = {f: getattr(self.known, f) for f in self.known.__dataclass_fields__}
        known = {name: value for name, value in known.items() if value is not None}
        return {
            "estimate": list(self.estimate), "known": known, "starts": self.starts,
            "seen": self.seen,
        }  # fmt: skip

    @classmethod
    def from_state(cls, state: State) -> Knowledge:
        """Inverse of `state`."""
        fields = dict.fromkeys(("next_reward", "next_symbol")) | state["known"]
        knowledge = cls(Known(**fields))
        knowledge.estimate = tuple(state["estimate"])
        knowledge.starts, knowledge.seen = state["starts"].copy(), state["seen"].copy()
        return knowledge


def _symbols(R: np.ndarray) -> np.ndarray:
    """Index of each reward among the contexts' rewards at its place (context is the first axis)."""
    flat = R.reshape(len(R), -1)
    symbols = np.zeros(flat.shape, dtype=np.int64)
    for i in range(flat.shape[1]):
        symbols[:, i] = np.unique(flat[:, i], return_inverse=True)[1]
    return symbols.reshape(R.shape)
