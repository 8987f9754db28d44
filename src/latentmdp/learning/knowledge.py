"""What the learner takes as known: `w`, `nu` and `R`, given as in the paper, or estimated.

`estimate={"w", "nu", "R"}` learns those: empirical frequencies for `w` and `nu`; a deterministic
reward is known after one visit, for all next states where rewards sit on `(context, state,
action)`. That is beyond the theorem, which takes all three as given. A reward not seen yet counts
as 1, the largest that there can be: for Markov policies `R` alone stays optimistic. Frequencies
have no bonus: while they are off, the optimistic value can fall below the optimum, so estimating
`w` or `nu` loses optimism (`benchmarks/estimated_weights.py` counts how often).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from latentmdp.errors import ModelError
from latentmdp.learning.saved.state import State
from latentmdp.model.availability import Mask, checked_mask, substitute_rows
from latentmdp.model.horizons import checked_whole
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.model.rows import (
    REWARD_TOLERANCE,
    match_reward,
    number_transitions,
    rank_rewards,
)
from latentmdp.optimism.given import Given
from latentmdp.policy.numbering import Numbering

ESTIMABLE = ("w", "nu", "R")
SCALE = 1.0  # rewards are compared as those of a model whose largest is 1: totals are at most 1

Step = tuple[int, int, float, int]  # state, action, reward, next


def known_from(
    R: ArrayLike,
    w: ArrayLike,
    nu: ArrayLike,
    horizon: int,
    observe_rewards: bool = True,
    allowed: ArrayLike | None = None,
) -> Given:
    """Knowledge without transitions: `R (M,S,A)` or `(M,S,A,S)`, `w (M,)`, `nu (M,S)`.

    `allowed (S,A)`: which actions are available; what `R` says of the others is ignored.
    """
    R, w, nu = (np.array(x, dtype=float) for x in (R, w, nu))
    if R.ndim not in (3, 4) or w.shape != R.shape[:1] or nu.shape != R.shape[:2]:
        raise ModelError(
            "R must have the shape (M, S, A) or (M, S, A, S), w (M,), nu (M, S); they have "
            f"{R.shape}, {w.shape}, {nu.shape}"
        )
    mask = _mask(allowed, *R.shape[1:3])
    if mask is not None:  # unavailable actions repeat others, as in models
        R = R.reshape(-1, *R.shape[3:])[substitute_rows(mask, len(R))].reshape(R.shape)
    if not (np.isfinite(R).all() and R.min() >= 0.0 and R.max() <= 1.0):
        raise ModelError(f"R must lie in [0, 1]; it goes from {R.min():.6g} to {R.max():.6g}")
    for name, p in (("w", w[None]), ("nu", nu)):
        if not (p.min() >= 0.0 and np.abs(p.sum(axis=1) - 1.0).max() <= 1e-9):  # also if NaN
            raise ModelError(f"{name} must hold probabilities that sum to 1")
    horizon = checked_whole("horizon", horizon, 1)
    M, S, A = R.shape[:3]
    symbols = _symbols(R) if observe_rewards else np.zeros(R.shape, dtype=np.int64)
    rows = M * S * A
    if R.ndim == 3:
        on_rows = R.reshape(rows), symbols.reshape(rows)
        return Given(M, S, A, horizon, w, nu, *on_rows, None, None, mask)
    return Given(
        M, S, A, horizon, w, nu, np.zeros(rows), np.zeros(rows, dtype=np.int64),
        R.reshape(rows, S), symbols.reshape(rows, S), mask,
    )  # fmt: skip


def nothing_known(
    contexts: int,
    states: int,
    actions: int,
    horizon: int,
    rewards_on_transitions: bool = True,
    allowed: ArrayLike | None = None,
) -> Given:
    """Sizes only: for `estimate={"w", "nu", "R"}`, which loses optimism (see the module).

    Without `rewards_on_transitions` a reward does not depend on the next state: there is less to
    learn.
    """
    for name, size in zip(
        ("contexts", "states", "actions", "horizon"),
        (contexts, states, actions, horizon),
        strict=True,
    ):
        if size < 1:
            raise ModelError(f"{name} must be at least 1; it is {size}")
    w, nu = np.full(contexts, 1.0 / contexts), np.full((contexts, states), 1.0 / states)
    shape = (contexts, states, actions, states)
    R = np.zeros(shape if rewards_on_transitions else shape[:3])
    return known_from(R, w, nu, horizon, allowed=allowed)


def _mask(allowed: ArrayLike | None, S: int, A: int) -> Mask | None:
    """Which actions are available, None if all are."""
    mask = checked_mask(allowed, S, A)
    return None if mask is None or mask.all() else mask


class GivenOrEstimated:
    """`known` for the solver, the symbols of observations, and the tallies of what is estimated."""

    def __init__(self, known: Given, estimate: Collection[str] = ()) -> None:
        if set(estimate) - set(ESTIMABLE):
            raise ModelError(
                f"estimate must name some of {', '.join(ESTIMABLE)}; it is {sorted(estimate)}"
            )
        self.estimate = tuple(name for name in ESTIMABLE if name in estimate)
        self.known = known
        self.starts = np.zeros((known.M, known.S), dtype=np.int64)
        self.seen = np.zeros((0, 0), dtype=bool)  # which rewards: (rows, S), or (rows, 1)
        if "R" in self.estimate:
            self.seen = np.zeros(self._rewards[0].shape, dtype=bool)
            nothing = np.zeros(self.seen.shape, dtype=np.int64)
            self.known = replace(known, **self._rewards_as(np.ones(self.seen.shape), nothing))

    @classmethod
    def of(cls, given: LatentMDP | Given, estimate: Collection[str] = ()) -> GivenOrEstimated:
        """From a model (its transitions are not read) or from knowledge without one."""
        return cls(given if isinstance(given, Given) else Given.of(given), estimate)

    @property
    def numbering(self) -> Numbering:
        """The numbers of rewards, for those who read the policies."""
        rewards, symbols = (x.reshape(self.known.M, -1, x.shape[1]) for x in self._rewards)
        return Numbering(rewards, symbols, SCALE, complete="R" not in self.estimate)

    def symbol(self, state: int, action: int, nxt: int, reward: float, total: float) -> int:
        """What the policy sees besides the next state; -1 if no context can give it."""
        if not reward >= 0.0 or total > 1.0 + REWARD_TOLERANCE:
            raise ModelError(
                "rewards must be at least 0 and total at most 1 in an episode; "
                f"this one is {reward!r} and makes {total:.17g} (scale them: see normalized())"
            )
        rewards, symbols = self._by_context(state, action, nxt)
        match = match_reward(rewards, reward, SCALE)
        if match >= 0:
            return int(symbols[match])
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

    @property
    def _rewards(self) -> tuple[np.ndarray, np.ndarray]:
        """Rewards and symbols, `(rows, S)`, or `(rows, 1)` where the next state does not matter."""
        known = self.known
        if known.next_reward is not None and known.next_symbol is not None:
            return known.next_reward, known.next_symbol
        return known.row_reward[:, None], known.row_symbol[:, None]

    def _rewards_as(self, rewards: np.ndarray, symbols: np.ndarray) -> dict[str, Any]:
        """Such rewards and symbols as fields of `Given`."""
        if self.known.next_reward is not None:
            return {"next_reward": rewards, "next_symbol": symbols}
        return {"row_reward": rewards[:, 0], "row_symbol": symbols[:, 0]}

    def _place(self, context: int, state: int, action: int, nxt: int) -> tuple[int, int]:
        """Where the reward of an outcome is, in those arrays."""
        row = (context * self.known.S + state) * self.known.A + action
        return row, nxt if self.known.next_reward is not None else 0

    def check(self, context: int, path: Sequence[Step]) -> None:
        """Refuse a context that cannot have paid what was seen; it would spoil the counts."""
        if "R" in self.estimate:
            self._check_seen(context, path)
            return
        for state, action, reward, nxt in path:
            rewards, symbols = self._by_context(state, action, nxt)
            match = match_reward(rewards, reward, SCALE)
            if match < 0 or symbols[context] != symbols[match]:
                raise ModelError(
                    f"the context must be one that pays what was seen; context {context} pays "
                    f"{rewards[context]:.6g} for (state {state}, action {action}, next {nxt}), the "
                    f"episode had {reward:.6g}"
                )

    def _check_seen(self, context: int, path: Sequence[Step]) -> None:
        """Refuse an episode whose rewards contradict deterministic ones seen before."""
        rewards = self._rewards[0]
        for state, action, reward, nxt in path:
            at = self._place(context, state, action, nxt)
            if self.seen[at] and match_reward(rewards[[at[0]], at[1]], reward, SCALE) < 0:
                raise ModelError(
                    f"the reward of (context {context}, state {state}, action {action}, next {nxt})"
                    f" must be deterministic; it was {rewards[at]:.6g} and is {reward:.6g}"
                )

    def observe(self, context: int, path: Sequence[Step]) -> bool:
        """Learn from a finished episode what is to be estimated; whether rewards are new."""
        self.check(context, path)
        if not self.estimate:
            return False
        changes: dict[str, Any] = {}
        self.starts[context, path[0][0]] += 1
        if "w" in self.estimate:
            changes["w"] = self.starts.sum(axis=1) / self.starts.sum()
        if "nu" in self.estimate:
            visits = self.starts.sum(axis=1, keepdims=True)
            changes["nu"] = np.where(
                visits > 0, self.starts / np.maximum(visits, 1), 1.0 / self.known.S
            )
        news = "R" in self.estimate and self._has_news(context, path)
        if news:
            changes |= self._learn_rewards(context, path)
        self.known = replace(self.known, **changes)
        return news

    def _has_news(self, context: int, path: Sequence[Step]) -> bool:
        return not all(self.seen[self._place(context, s, a, nxt)] for s, a, _, nxt in path)

    def _learn_rewards(self, context: int, path: Sequence[Step]) -> dict[str, Any]:
        pairs = self.known.S * self.known.A
        rewards, symbols = (array.copy() for array in self._rewards)
        for state, action, reward, nxt in path:
            row, column = self._place(context, state, action, nxt)
            rewards[row, column], self.seen[row, column] = reward, True
            rows = np.arange(row % pairs, len(rewards), pairs)  # of all contexts
            place = np.zeros(len(rows), dtype=np.int64)
            symbols[rows, column] = rank_rewards(place, rewards[rows, column], SCALE)
        if self.known.allowed is not None:
            source = substitute_rows(self.known.allowed, self.known.M)
            rewards, symbols = rewards[source], symbols[source]
        return self._rewards_as(rewards, symbols)

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
    def from_state(cls, state: State) -> GivenOrEstimated:
        """Inverse of `state`."""
        fields = dict.fromkeys(("next_reward", "next_symbol", "allowed")) | state["known"]
        knowledge = cls(Given(**fields))
        knowledge.estimate = tuple(state["estimate"])
        knowledge.starts, knowledge.seen = state["starts"].copy(), state["seen"].copy()
        return knowledge


def _symbols(R: np.ndarray) -> np.ndarray:
    """Number of each reward among the contexts' rewards there (context is the first axis)."""
    place = np.tile(np.arange(R[0].size), len(R))
    number = rank_rewards if R.ndim == 3 else number_transitions
    return number(place, R.reshape(-1)).reshape(R.shape)
