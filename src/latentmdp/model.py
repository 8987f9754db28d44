"""`LatentMDP`: `M` tabular MDPs on shared states and actions, in canonical sparse form.

Each episode a hidden context `m ~ w` is drawn and stays; it starts at `s ~ nu[m]` and lasts exactly
`horizon` steps (for ever where that is `math.inf`). What the agent sees besides the next state is
the outcome's `symbol`: with observed rewards the number of the reward among the contexts' rewards
there (`canonical.rank_rewards`; `number_transitions` where rewards sit on transitions), with hidden
rewards always 0.
"""

import dataclasses
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from latentmdp import canonical
from latentmdp.availability import Mask, checked_mask, stand_ins
from latentmdp.canonical import Floats, Ints, Outcomes, Rows, Sizes
from latentmdp.errors import ModelError
from latentmdp.horizons import MAX_HORIZON as MAX_HORIZON
from latentmdp.horizons import checked_horizon, discounted_steps
from latentmdp.horizons import checked_whole as checked_whole
from latentmdp.repair import Repairs
from latentmdp.totals import extreme_totals
from latentmdp.units import NORMALISED, Conversion

if TYPE_CHECKING:
    import pandas as pd

    from latentmdp.description import Description


@dataclass(frozen=True)
class Layout:
    """Where states lie on a grid, for drawing.

    `positions[s] = (row, column)`, `(-1, -1)` for a state that is not on the grid; `walls` are
    blocked cells; `marks[m]` are the states to mark in context `m` (a maze's goals).
    """

    shape: tuple[int, int]
    positions: tuple[tuple[int, int], ...]
    walls: tuple[tuple[int, int], ...] = ()
    marks: tuple[tuple[int, ...], ...] | None = None

    def __post_init__(self) -> None:
        rows, columns = (int(i) for i in self.shape)
        object.__setattr__(self, "shape", (rows, columns))
        for name in ("positions", "walls", "marks"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, tuple(tuple(int(i) for i in x) for x in value))
        for name in ("positions", "walls"):
            for i, cell in enumerate(getattr(self, name)):
                on_grid = len(cell) == 2 and 0 <= cell[0] < rows and 0 <= cell[1] < columns
                if not on_grid and not (name == "positions" and cell == (-1, -1)):
                    raise ModelError(
                        f"layout.{name}[{i}] must lie on the {rows} x {columns} grid; it is {cell}"
                    )


@dataclass(frozen=True)
class Origin:
    """Which state of a POMDP a context and a state stand for; `.policyx` files speak of those."""

    state: Ints  # (M, S), or -1 where there is none
    hidden: int  # joint values of what is not fully observable: state % hidden


@dataclass(frozen=True)
class Fold:
    """Of a time-augmented model: `(step, state)` has the number `step * states + state`."""

    states: int  # of the step-dependent model
    layout: Layout | None = None  # and where they lie


@dataclass(frozen=True, eq=False)
class LatentMDP:
    """A latent MDP, frozen and validated once.

    Build it with `from_arrays`, `from_rows`, `latentmdp.make` or `latentmdp.load`.

    >>> P = [[[[1.0]]], [[[1.0]]]]  # two contexts, one state, one action
    >>> model = LatentMDP.from_arrays(P, [[[0.0]], [[0.5]]], w=[0.5, 0.5], nu=[[1], [1]], horizon=2)
    >>> model.M, model.S, model.A, model.H, model.max_return
    (2, 1, 1, 2, 1.0)
    """

    w: Floats  # (M,) weights of the contexts
    nu: Floats  # (M, S) first state, by context
    horizon: int  # steps of an episode, or math.inf
    discount: float
    n_actions: int
    indptr: Ints  # (M*S*A + 1,) CSR rows; row (m, s, a) is (m*S + s)*A + a
    next: Ints  # (nnz,)
    symbol: Ints  # (nnz,)
    prob: Floats  # (nnz,)
    reward: Floats  # (nnz,)
    observe_rewards: bool
    return_limit: float | None  # what totals were checked against; None: any finite rewards
    min_return: float  # bounds on an episode's total reward, over all policies
    max_return: float
    state_names: tuple[str, ...] | None = None
    action_names: tuple[str, ...] | None = None
    context_names: tuple[str, ...] | None = None
    layout: Layout | None = None
    reward_scale: float = 1.0  # the user's reward is `reward * reward_scale + reward_shift`
    reward_shift: float = 0.0
    allowed: Mask | None = None  # (S, A) available actions; None: all. The rows of the others
    # repeat those of the first available action of their state (`availability.py`)
    origin: Origin | None = dataclasses.field(
        default=None, compare=False
    )  # if it was read from a POMDP
    fold: Fold | None = dataclasses.field(
        default=None, compare=False
    )  # if it is the time-augmented model of a step-dependent one (`timed.py`)

    # ------------------------------------------------------------------ building

    @classmethod
    def from_arrays(
        cls,
        P: ArrayLike,
        R: ArrayLike,
        w: ArrayLike,
        nu: ArrayLike,
        horizon: int,
        *,
        allowed: ArrayLike | None = None,
        normalize: bool | float = False,
        observe_rewards: bool = True,
        discount: float = 1.0,
        max_return: float | None = 1.0,
        terminal: ArrayLike | None = None,
        **labels: Any,
    ) -> "LatentMDP":
        """From dense `P (M,S,A,S)` and `R (M,S,A)` or `(M,S,A,S)`.

        `R (S,A)` and `nu (S,)` mean the same in every context. `allowed (S,A)`: which actions are
        available; what stands in the rows of the others is ignored. Without it, an action whose
        rows are 0 in all contexts is unavailable. `normalize`: distributions that differ from
        summing to 1 by at most so much (True: any weights) are divided by their sum, with a
        warning. `max_return` bounds every episode's total reward and asks for non-negative
        rewards; `None` accepts any finite rewards. `labels`: `state_names`, `action_names`,
        `context_names`, `layout`.

        With `P (H,M,S,A,S)`, one per step, or rewards `terminal (M,S)` after the last step, it
        gives a `TimedLatentMDP` (`timed.py`), where `R` may have the axis of steps, too.
        """
        if terminal is not None or axes_of(P) == 5 or axes_of(R) == 5:
            from latentmdp.timed import TimedLatentMDP  # which holds a LatentMDP

            return TimedLatentMDP.from_arrays(
                P, R, w, nu, horizon, allowed=allowed, normalize=normalize, discount=discount,
                observe_rewards=observe_rewards, max_return=max_return, terminal=terminal, **labels,
            )  # type: ignore[return-value]  # fmt: skip
        repairs = Repairs(normalize)
        sizes, outcomes = canonical.dense_to_outcomes(P, R, allowed)
        rows, mask = canonical.build_rows(sizes, outcomes, observe_rewards, repairs)
        model = cls._checked(
            sizes, rows, w, nu, horizon, observe_rewards, discount, max_return, labels, mask,
            repairs,
        )  # fmt: skip
        repairs.warn()
        return model

    @classmethod
    def from_rows(
        cls,
        context: ArrayLike,
        state: ArrayLike,
        action: ArrayLike,
        next: ArrayLike,
        prob: ArrayLike,
        reward: ArrayLike,
        w: ArrayLike,
        nu: ArrayLike,
        horizon: int,
        *,
        n_actions: int | None = None,
        allowed: ArrayLike | None = None,
        normalize: bool | float = False,
        observe_rewards: bool = True,
        discount: float = 1.0,
        max_return: float | None = 1.0,
        step: ArrayLike | None = None,
        terminal: ArrayLike | None = None,
        **labels: Any,
    ) -> "LatentMDP":
        """From one entry per outcome, in any order; repeated outcomes add up.

        The numbers of contexts and states are those of `nu (M, S)`, or of `w (M,)` and `nu (S,)`;
        `n_actions` defaults to the largest action plus one. Where repeated outcomes differ in
        reward, observed rewards are random (`stochastic_rewards`), and hidden ones are averaged by
        probability. Without `allowed (S, A)`, an action without outcomes in all contexts is
        unavailable in that state. With the `step` of each outcome, from 0, or with `terminal` it
        gives a `TimedLatentMDP`. The rest as in `from_arrays`.
        """
        if step is not None or terminal is not None:
            from latentmdp.timed import TimedLatentMDP  # which holds a LatentMDP

            return TimedLatentMDP.from_rows(
                context, state, action, next, prob, reward, w, nu, horizon, step=step,
                n_actions=n_actions, allowed=allowed, normalize=normalize, discount=discount,
                observe_rewards=observe_rewards, max_return=max_return, terminal=terminal, **labels,
            )  # type: ignore[return-value]  # fmt: skip
        repairs = Repairs(normalize)
        shape = np.shape(nu)
        if len(shape) == 1:  # the same in every context
            shape = (np.size(w), *shape)
        if len(shape) != 2 or 0 in shape:
            raise ModelError(f"nu must have the shape (M, S), none of them 0; it is {shape}")
        if n_actions is None:
            n_actions = int(np.max(np.asarray(action), initial=-1)) + 1
        sizes = Sizes(shape[0], shape[1], n_actions)
        c = canonical.integers("context", context, sizes.M)
        s = canonical.integers("state", state, sizes.S)
        a = canonical.integers("action", action, sizes.A)
        nxt = canonical.integers("next", next, sizes.S)
        p, r = canonical.floats("prob", prob), canonical.floats("reward", reward)
        lengths = [len(x) for x in (c, s, a, nxt, np.atleast_1d(p), np.atleast_1d(r))]
        if len(set(lengths)) != 1 or lengths[0] == 0:
            raise ModelError(
                "context, state, action, next, prob, reward must have one length, not 0; "
                f"they have {lengths}"
            )
        row = (c * sizes.S + s) * sizes.A + a
        del c, s, a
        outcomes = Outcomes(row, nxt, p, r, checked_mask(allowed, sizes.S, sizes.A))
        rows, mask = canonical.build_rows(sizes, outcomes, observe_rewards, repairs)
        model = cls._checked(
            sizes, rows, w, nu, horizon, observe_rewards, discount, max_return, labels, mask,
            repairs,
        )  # fmt: skip
        repairs.warn()
        return model

    @classmethod
    def from_frame(
        cls,
        frame: "pd.DataFrame",
        horizon: int,
        *,
        w: Any = None,
        start: Any = None,
        nu: Any = None,
        context: str | None = "context",
        state: str = "state",
        action: str = "action",
        next_state: str = "next_state",
        probability: str = "probability",
        reward: str = "reward",
        weight: str | None = "weight",
        first: str | None = "first",
        step: str | None = "step",
        **options: Any,
    ) -> "LatentMDP":
        """From a pandas DataFrame with one row per outcome; `to_frame` is the way back.

        `context`, `state`, ..., `first` are the names of its columns. Contexts, states and actions
        are numbers from 0, or labels of any kind, which become names: numbers in their order,
        categories in theirs, other labels as they first appear. Without a column of contexts there
        is one. A state without rows in a context ends the episode there: it stays, with reward 0.
        An action without rows in a state, in all contexts, is unavailable there. With a column
        `step`, from 0, rows change with the step (a `TimedLatentMDP`).

        Weights of contexts: `w` (an array, or a mapping from contexts), else the column `weight`,
        else uniform. First states: `start` (a state, or a mapping from states to probabilities) or
        `nu` (an array), else the column `first`, the probability of starting in this row's state in
        its context. `options`: `observe_rewards`, `discount`, `normalize`, `max_return` (here None:
        any finite rewards) and labels, as in `from_rows`.

        >>> import pandas as pd
        >>> table = pd.DataFrame(
        ...     [
        ...         ("calm", "left", "swim", "right", 1.0, 0.5),
        ...         ("rough", "left", "swim", "left", 1.0, 0.0),  # and "right" is the end
        ...     ],
        ...     columns=["context", "state", "action", "next_state", "probability", "reward"],
        ... )
        >>> model = LatentMDP.from_frame(table, horizon=3, start="left")
        >>> model.context_names, model.state_names, model.max_return
        (('calm', 'rough'), ('left', 'right'), 0.5)
        """
        from latentmdp.frames import frame_model  # which makes a LatentMDP

        columns = {
            "context": context, "state": state, "action": action, "next_state": next_state,
            "probability": probability, "reward": reward, "weight": weight, "first": first,
            "step": step,
        }  # fmt: skip
        options.setdefault("max_return", None)
        model = frame_model(frame, horizon, columns, w, start, nu, options)
        return model  # type: ignore[return-value]  # a TimedLatentMDP with a column of steps

    @classmethod
    def _checked(
        cls,
        sizes: Sizes,
        rows: Rows,
        w: ArrayLike,
        nu: ArrayLike,
        horizon: int,
        observe_rewards: bool,
        discount: float,
        max_return: float | None,
        labels: dict[str, Any],
        allowed: Mask | None,
        repairs: Repairs | None = None,
    ) -> "LatentMDP":
        M, S, A = sizes
        w, nu = canonical.floats("w", w), canonical.floats("nu", nu)
        if nu.shape == (S,):  # the same in every context
            nu = np.tile(nu, (M, 1))
        if w.shape != (M,):
            raise ModelError(
                f"w must have the shape ({M},), one weight per context; it is {w.shape}"
            )
        if nu.shape != (M, S):
            raise ModelError(f"nu must have the shape ({M}, {S}); it is {nu.shape}")
        repairs = Repairs() if repairs is None else repairs
        w = canonical.distributions("w", w, repairs)
        nu = canonical.distributions("nu", nu, repairs)
        if not isinstance(observe_rewards, (bool, np.bool_)):
            raise ModelError(f"observe_rewards must be True or False; it is {observe_rewards!r}")
        discount = float(discount)
        if not 0.0 < discount <= 1.0:
            raise ModelError(f"discount must be above 0 and at most 1; it is {discount}")
        horizon = checked_horizon(horizon, discount)
        if max_return is None:
            low, high = (
                extreme_totals(sizes, rows, nu, horizon, discount, sign) for sign in (-1, 1)
            )
            limits = float(low.min()), float(high.max())
            if not np.isfinite(limits).all():
                raise ModelError("the total reward of an episode must stay below the largest float")
        else:
            max_return = float(max_return)
            if not 0.0 <= max_return < np.inf:
                raise ModelError(f"max_return must be finite and at least 0; it is {max_return}")
            high = np.full(M, horizon * float(rows.reward.max()))  # often this bound is enough
            if not high[0] <= max_return:  # nor where it is nan: no rewards, no last step
                high = extreme_totals(sizes, rows, nu, horizon, discount, 1)
            steps = horizon if math.isfinite(horizon) else discounted_steps(horizon, discount)
            _check_rewards(sizes, rows, high, steps, max_return)
            limits = 0.0, max_return
        model = cls(
            w, nu, horizon, discount, A, *rows, bool(observe_rewards), max_return, *limits,
            **_check_labels(sizes, horizon, labels), allowed=allowed,
        )  # fmt: skip
        for array in (w, nu, *rows):
            array.flags.writeable = False
        return model

    def replace(self, **changes: Any) -> "LatentMDP":
        """A copy with another `w, nu, horizon, discount, observe_rewards, max_return` or label.

        Checked again. Unless `max_return` is given, the limit the model was built with holds.
        `allowed (S, A)` takes actions away; one that is unavailable has no rows to come back with.
        """
        known = (
            *(*_LABELS, "allowed", "w", "nu", "horizon", "discount"),
            *("observe_rewards", "max_return"),
        )
        for name in changes:
            if name not in known:
                raise ModelError(f"replace knows {', '.join(sorted(known))}; not {name!r}")
        labels = {name: changes.get(name, getattr(self, name)) for name in _LABELS}
        if changes.get("horizon", self.horizon) != self.horizon:
            labels["fold"] = None
        observe = changes.get("observe_rewards", self.observe_rewards)
        rows, allowed = self.rows, self.allowed
        if "allowed" in changes:
            allowed = self._narrowed(changes["allowed"])
        if observe != self.observe_rewards or allowed is not self.allowed:
            rows = canonical.relabel(self.sizes, rows, observe, allowed)
        return self._checked(
            self.sizes,
            rows,
            changes.get("w", self.w),
            changes.get("nu", self.nu),
            changes.get("horizon", self.horizon),
            observe,
            changes.get("discount", self.discount),
            changes.get("max_return", self.return_limit),
            labels,
            allowed,
        )

    def _narrowed(self, allowed: ArrayLike | None) -> Mask | None:
        """A mask that takes actions away from this model's; None if it takes none away."""
        everything = np.ones((self.S, self.A), dtype=bool)
        wanted = checked_mask(everything if allowed is None else allowed, self.S, self.A)
        mine = everything if self.allowed is None else self.allowed
        assert wanted is not None
        if (wanted & ~mine).any():
            s, a = (int(i) for i in np.argwhere(wanted & ~mine)[0])
            raise ModelError(
                f"allowed can only take actions away; action {a} of state {s} is unavailable and "
                "has no rows"
            )
        return self.allowed if np.array_equal(wanted, mine) else wanted

    def normalized(self) -> "LatentMDP":
        """A copy with rewards shifted to be non-negative and scaled to totals of at most 1.

        Remembers both (`reward_scale`, `reward_shift`): `in_user_units` turns values back,
        `difference_in_user_units` regret and gaps, `denormalized` the model.
        A model that already satisfies both conditions keeps its rewards.
        """
        shift = min(0.0, float(self.reward.min()))
        rows = self.rows._replace(reward=self.reward - shift)
        high = extreme_totals(self.sizes, rows, self.nu, self.horizon, self.discount, 1).max()
        scale = max(1.0, float(high))
        labels: dict[str, Any] = {name: getattr(self, name) for name in _LABELS}
        labels["reward_shift"] = self.reward_shift + self.reward_scale * shift
        labels["reward_scale"] = self.reward_scale * scale
        rows = rows._replace(reward=rows.reward / scale)
        return self._checked(
            self.sizes, rows, self.w, self.nu, self.horizon, self.observe_rewards, self.discount,
            1.0, labels, self.allowed,
        )  # fmt: skip

    def denormalized(self) -> "LatentMDP":
        """A copy with the rewards as they were before `normalized()`, up to rounding."""
        if not self.units:
            return self
        rows = self.rows._replace(reward=self.reward * self.reward_scale + self.reward_shift)
        labels: dict[str, Any] = {name: getattr(self, name) for name in _LABELS}
        labels |= {"reward_scale": 1.0, "reward_shift": 0.0}
        return self._checked(
            self.sizes, rows, self.w, self.nu, self.horizon, self.observe_rewards, self.discount,
            None, labels, self.allowed,
        )  # fmt: skip

    def in_user_units(self, value: Any) -> Any:
        """A value of an episode (or an array) in the units of the rewards before `normalized()`.

        For values only: what is a difference of values has `difference_in_user_units`.
        """
        return self.conversion.value(value)

    def difference_in_user_units(self, difference: Any) -> Any:
        """A difference of values in those units: regret, a gap, the value of information.

        The shift of the rewards cancels in it.
        """
        return self.conversion.difference(difference)

    @property
    def conversion(self) -> Conversion:
        """From this model's values to those of the rewards before `normalized()`."""
        steps = discounted_steps(self.horizon, self.discount)
        return Conversion(self.reward_scale, self.reward_shift * steps)

    @property
    def units(self) -> str:
        """`normalised units` where values are not in the units of the rewards that were given."""
        given = (self.reward_scale, self.reward_shift) == (1.0, 0.0)
        return "" if given else NORMALISED

    @property
    def units_in_words(self) -> str:
        """What 1 stands for; empty where rewards are as they were given."""
        if not self.units:
            return ""
        shift = f", after adding {-self.reward_shift:.6g} at every step" * (self.reward_shift != 0)
        return f"{self.units}: a reward of 1 stands for {self.reward_scale:.6g} of yours{shift}"

    # ------------------------------------------------------------------ reading

    @property
    def M(self) -> int:
        """Number of contexts."""
        return len(self.w)

    @property
    def S(self) -> int:
        """Number of states."""
        return int(self.nu.shape[1])

    @property
    def A(self) -> int:
        """Number of actions."""
        return self.n_actions

    @property
    def H(self) -> int:
        """The horizon: every episode has exactly this many steps (`math.inf`: it has no end)."""
        return self.horizon

    @property
    def sizes(self) -> Sizes:
        """`(M, S, A)`."""
        return Sizes(self.M, self.S, self.A)

    @property
    def rows(self) -> Rows:
        """The outcomes in CSR form."""
        return Rows(self.indptr, self.next, self.symbol, self.prob, self.reward)

    @cached_property
    def branching(self) -> int:
        """The largest number of outcomes of any row."""
        return int(np.diff(self.indptr).max())

    @cached_property
    def Gamma(self) -> int:
        """The largest number of next states of any row."""
        if not self.stochastic_rewards:
            return self.branching
        row = np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))
        return int(np.bincount(np.unique(row * self.S + self.next) // self.S).max())

    @cached_property
    def stochastic_rewards(self) -> bool:
        """Whether one next state of a row comes with several rewards, each with a symbol."""
        if not (self.observe_rewards and self.rewards_on_transitions):
            return False
        return canonical.repeats_next(self.indptr, self.next, self.S)

    @cached_property
    def rewards_on_transitions(self) -> bool:
        """Whether the reward depends on the next state as well."""
        return not canonical.constant_in_rows(self.indptr, self.reward)

    @cached_property
    def largest_reward(self) -> float:
        """The largest absolute reward: what rounding error is measured against."""
        return float(np.abs(self.reward).max())

    @cached_property
    def row_reward(self) -> Floats:
        """`(M*S*A,)` expected reward of each row."""
        if self.rewards_on_transitions:
            expected = np.add.reduceat(self.prob * self.reward, self.indptr[:-1])
        else:
            expected = self.reward[self.indptr[:-1]]
        expected.flags.writeable = False
        return expected

    @cached_property
    def stand_in(self) -> Ints:
        """`(S, A)` the action itself, or the first available one where it is unavailable."""
        allowed = np.ones((self.S, self.A), dtype=bool) if self.allowed is None else self.allowed
        found = stand_ins(allowed)
        found.flags.writeable = False
        return found

    @cached_property
    def listed_rows(self) -> Mask:
        """`(M*S*A,)` whether a row is one of its own: the others only repeat an available action.

        What is shown or written lists these.
        """
        if self.allowed is None:
            return np.ones(self.M * self.S * self.A, dtype=bool)
        return np.tile(self.allowed.reshape(-1), self.M)

    def actions_in(self, state: int) -> Ints:
        """The available actions of a state, ascending."""
        return np.arange(self.A) if self.allowed is None else np.flatnonzero(self.allowed[state])

    @cached_property
    def _unmasked(self) -> "LatentMDP":
        return dataclasses.replace(self, allowed=None)

    def unmasked(self) -> "LatentMDP":
        """The same rows with all actions available: for searches.

        An unavailable action is there a copy of the first available one of its state, so no value
        changes; a policy that is found goes through `policy.playable` before it is handed out.
        """
        return self if self.allowed is None else self._unmasked

    @property
    def P(self) -> Floats:
        """`(M, S, A, S)` transition probabilities, dense; 0 in rows of unavailable actions."""
        return self._dense(self.prob)

    @property
    def R(self) -> Floats:
        """`(M, S, A)` rewards, or `(M, S, A, S)` where they sit on transitions, dense.

        The mean of those of a next state, where there are several.
        """
        if self.stochastic_rewards:
            total = self.P
            mean = self._dense(self.prob * self.reward)
            return np.divide(mean, total, out=mean, where=total > 0)
        if self.rewards_on_transitions:
            return self._dense(self.reward)
        dense = self.row_reward.reshape(self.M, self.S, self.A).copy()
        if self.allowed is not None:
            dense[:, ~self.allowed] = 0.0
        return dense

    def _dense(self, values: Floats) -> Floats:
        M, S, A = self.sizes
        if M * S * A * S > 2**31:
            raise ModelError(f"a dense view must have at most 2^31 entries; {M * S * A * S} asked")
        dense = np.zeros((M * S * A, S))
        row = np.repeat(np.arange(M * S * A), np.diff(self.indptr))
        if self.stochastic_rewards:
            np.add.at(dense, (row, self.next), values)
        else:
            dense[row, self.next] = values
        if self.allowed is not None:
            dense[~self.listed_rows] = 0.0
        return dense.reshape(M, S, A, S)

    def symbol_of(self, state: int, action: int, next: int, reward: float) -> int:
        """The symbol an agent sees with this reward there; -1 if no context can give it."""
        outcomes = self.outcomes_to(np.arange(self.M), state, action, next)
        if not self.observe_rewards:
            return 0 if len(outcomes) else -1
        found = canonical.match_reward(self.reward[outcomes], reward, self.largest_reward)
        return int(self.symbol[outcomes[found]]) if found >= 0 else -1

    def outcomes_to(self, contexts: Ints, state: int, action: int, next: int) -> Ints:
        """Positions of the outcomes from `(state, action)` to `next` in these contexts."""
        rows = (contexts * self.S + state) * self.A + action
        outcomes = np.concatenate([np.arange(*self.indptr[row : row + 2]) for row in rows])
        return outcomes[self.next[outcomes] == next]

    @cached_property
    def digest(self) -> str:
        """Of all that values and runs depend on; names, layout and units are not among it."""
        found = hashlib.sha256()
        for name in ("w", "nu", "indptr", "next", "symbol", "prob", "reward"):
            found.update(getattr(self, name).tobytes())
        found.update(repr((self.M, self.S, self.A, self.H, self.discount)).encode())
        if self.allowed is not None:
            found.update(self.allowed.tobytes())
        return found.hexdigest()[:16]

    def describe(self) -> "Description":
        """Sizes, largest totals and where contexts differ; `str()` of it is for people."""
        from latentmdp.description import describe  # which takes a LatentMDP

        return describe(self)

    def rewards_in_state(self) -> "LatentMDP":
        """The same problem with the last reward in the state: one that learning takes.

        Where a next state comes with several rewards, it becomes several states, one for each.
        Values stay the same; policies are for the new states.
        """
        from latentmdp.reward_states import rewards_in_state  # which takes a LatentMDP

        return rewards_in_state(self)

    def to_frame(self, names: bool = True) -> "pd.DataFrame":
        """One row per outcome: `context, state, action, next_state, probability, reward`, and
        `weight` (of the context) and `first` (of the state as the first one, given the context).

        With `names`, labels are the model's names where it has some. `from_frame(frame, horizon)`
        gives the model back; horizon, discount, layout and whether rewards are observed are not in
        the frame.
        """
        from latentmdp.frames import model_frame  # which takes a LatentMDP

        return model_frame(self, names)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LatentMDP):
            return NotImplemented
        return all(
            np.array_equal(getattr(self, f.name), getattr(other, f.name))
            for f in dataclasses.fields(self)
            if f.compare
        )

    __hash__ = None  # type: ignore[assignment]

    def _repr_html_(self) -> str:
        """For notebooks: sizes, the contexts and, on a grid, a picture."""
        from latentmdp.notebook import model_page

        return model_page(self)

    def __repr__(self) -> str:
        rewards = "observed" if self.observe_rewards else "hidden"
        masked = ""
        if self.allowed is not None:
            masked = f", {(~self.allowed).sum()} of {self.S * self.A} actions unavailable"
        return (
            f"LatentMDP(M={self.M}, S={self.S}, A={self.A}, H={self.H}, Gamma={self.Gamma}, "
            f"rewards {rewards}, discount={self.discount:g}{masked})"
        )


def axes_of(value: ArrayLike) -> int:
    """How many axes an array or nested lists have, without converting them."""
    axes = 0
    while isinstance(value, (list, tuple)) and value:
        value, axes = value[0], axes + 1
    return axes + np.ndim(value)


_LABELS = (
    "state_names", "action_names", "context_names", "layout", "reward_scale", "reward_shift",
    "origin", "fold",
)  # fmt: skip


def _check_rewards(sizes: Sizes, rows: Rows, high: Floats, steps: float, limit: float) -> None:
    """Non-negative rewards and totals of at most `limit`, or a sentence that says where not."""
    if (rows.reward < 0).any():
        i = int(np.argmax(rows.reward < 0))
        row = int(np.searchsorted(rows.indptr, i, side="right")) - 1
        m, sa = divmod(row, sizes.S * sizes.A)
        raise ModelError(
            f"{canonical.at('R', [m, *divmod(sa, sizes.A)])} must be at least 0; "
            f"it is {float(rows.reward[i])} (max_return=None accepts any finite rewards)"
        )
    slack = canonical.sum_tolerance(steps) * max(1.0, limit)
    if (high > limit + slack).any():
        m = int(np.argmax(high > limit + slack))
        raise ModelError(
            f"the total reward of an episode must be at most max_return={limit:g}; context {m} can "
            f"reach {float(high[m])} (scale the rewards, or use max_return=None and normalized())"
        )


def _check_labels(sizes: Sizes, horizon: int, labels: dict[str, Any]) -> dict[str, Any]:
    for name in labels:
        if name not in _LABELS:
            raise ModelError(f"the labels are {', '.join(_LABELS)}; not {name!r}")
    checked = dict(labels)
    for name, count in zip(("context_names", "state_names", "action_names"), sizes, strict=True):
        names: Sequence[str] | None = labels.get(name)
        if names is not None:
            checked[name] = tuple(names)
            if len(checked[name]) != count or not all(isinstance(x, str) for x in checked[name]):
                raise ModelError(
                    f"{name} must be {count} strings; found {len(checked[name])} items"
                )
    scale, shift = labels.get("reward_scale", 1.0), labels.get("reward_shift", 0.0)
    if not (scale > 0.0 and math.isfinite(scale)):
        raise ModelError(f"reward_scale must be a finite number above 0; it is {scale!r}")
    if not math.isfinite(shift):
        raise ModelError(f"reward_shift must be a finite number; it is {shift!r}")
    check_layout(labels.get("layout"), sizes)
    fold = labels.get("fold")
    if fold is not None:
        if not isinstance(fold, Fold) or fold.states * horizon != sizes.S:
            raise ModelError(
                f"fold must say how many of the {sizes.S} states there are at each of {horizon} "
                f"steps; it is {fold!r}"
            )
        check_layout(fold.layout, sizes._replace(S=fold.states))
    return checked


def check_layout(layout: Any, sizes: Sizes) -> None:
    """Refuse a layout that is not one of a model of these sizes."""
    if layout is None:
        return
    if not isinstance(layout, Layout) or len(layout.positions) != sizes.S:
        raise ModelError(f"layout must be a Layout with {sizes.S} positions, one per state")
    if layout.marks is not None and len(layout.marks) != sizes.M:
        raise ModelError(f"layout.marks must have {sizes.M} entries, one per context")
    if any(not 0 <= s < sizes.S for states in layout.marks or () for s in states):
        raise ModelError(f"layout.marks must be states from 0 to {sizes.S - 1}")
