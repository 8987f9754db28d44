"""`LatentMDP`: `M` tabular MDPs on shared states and actions, in canonical sparse form.

Each episode a hidden context `m ~ w` is drawn and stays; it starts at `s ~ nu[m]` and lasts exactly
`horizon` steps (for ever where that is `math.inf`). What the agent sees besides the next state is
the outcome's `symbol`: with observed rewards the number of the reward among the contexts' rewards
there (`canonical.rank_rewards`; `number_transitions` where rewards sit on transitions), with hidden
rewards always 0.
"""

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.model import rows as canonical
from latentmdp.model.availability import Mask, checked_mask
from latentmdp.model.horizons import checked_horizon, discounted_steps
from latentmdp.model.inputs import (
    axes_of,
    checked_start,
    checked_totals,
    given_by_step,
    row_columns,
    row_sizes,
)
from latentmdp.model.labels import LABELS, Fold, Layout, Origin, check_labels
from latentmdp.model.repair import Repairs
from latentmdp.model.reward_states import rewards_in_state
from latentmdp.model.row_views import ModelRows
from latentmdp.model.rows import Outcomes, Rows, Sizes
from latentmdp.model.totals import extreme_totals
from latentmdp.model.units import Conversion, InUnits

if TYPE_CHECKING:
    import pandas as pd

    from latentmdp.model.timed import TimedLatentMDP
    from latentmdp.tables.describe import Description


@dataclass(frozen=True, eq=False)
class LatentMDP(ModelRows, InUnits):
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
    ) -> "Built":
        """From dense `P (M,S,A,S)` and `R (M,S,A)` or `(M,S,A,S)`.

        `R (S,A)` and `nu (S,)` mean the same in every context. `allowed (S,A)`: which actions are
        available; what stands in the rows of the others is ignored. Without it, an action whose
        rows are 0 in all contexts is unavailable. `normalize`: distributions that differ from
        summing to 1 by at most so much (True: any weights) are divided by their sum, with a
        warning. `max_return` bounds every episode's total reward and asks for non-negative
        rewards; `None` accepts any finite rewards. `labels`: `state_names`, `action_names`,
        `context_names`, `layout`.

        With an axis of steps before those of `P`, `R` or `allowed`, or with rewards
        `terminal (M,S)` after the last step, it gives a `TimedLatentMDP` (`timed.py`).
        """
        if terminal is not None or given_by_step(P, R, allowed, horizon):
            from latentmdp.model.timed import TimedLatentMDP  # which holds a LatentMDP

            return TimedLatentMDP.from_arrays(
                P, R, w, nu, horizon, allowed=allowed, normalize=normalize, discount=discount,
                observe_rewards=observe_rewards, max_return=max_return, terminal=terminal, **labels,
            )  # fmt: skip
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
    ) -> "Built":
        """From one entry per outcome, in any order; repeated outcomes add up.

        The numbers of contexts and states are those of `nu (M, S)`, or of `w (M,)` and `nu (S,)`;
        `n_actions` defaults to the largest action plus one. Where repeated outcomes differ in
        reward, observed rewards are random (`stochastic_rewards`), and hidden ones are averaged by
        probability. Without `allowed (S, A)`, an action without outcomes in all contexts is
        unavailable in that state. With the `step` of each outcome, from 0, with `terminal`, or
        with `allowed (H, S, A)` it gives a `TimedLatentMDP`. The rest as in `from_arrays`.
        """
        if step is not None or terminal is not None or axes_of(allowed) == 3:
            from latentmdp.model.timed import TimedLatentMDP  # which holds a LatentMDP

            return TimedLatentMDP.from_rows(
                context, state, action, next, prob, reward, w, nu, horizon, step=step,
                n_actions=n_actions, allowed=allowed, normalize=normalize, discount=discount,
                observe_rewards=observe_rewards, max_return=max_return, terminal=terminal, **labels,
            )  # fmt: skip
        repairs = Repairs(normalize)
        sizes = row_sizes(w, nu, action, n_actions)
        columns = row_columns(sizes, context, state, action, next, prob, reward)
        c, s, a, nxt, p, r = columns
        row = (c * sizes.S + s) * sizes.A + a
        del columns, c, s, a
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
    ) -> "Built":
        """From a pandas DataFrame with one row per outcome; `to_frame` is the way back.

        `context`, `state`, ..., `first` are the names of its columns. Contexts, states and actions
        are numbers from 0, or labels of any kind, which become names: numbers in their order,
        categories in theirs, other labels as they first appear. Without a column of contexts there
        is one. A state without rows in a context ends the episode there: it stays, with reward 0.
        An action without rows in a state, in all contexts, is unavailable there; a category of
        actions without any rows is an action that is available nowhere. With a column
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
        from latentmdp.tables.frames import frame_model  # which makes a LatentMDP

        columns = {
            "context": context, "state": state, "action": action, "next_state": next_state,
            "probability": probability, "reward": reward, "weight": weight, "first": first,
            "step": step,
        }  # fmt: skip
        options.setdefault("max_return", None)
        model = frame_model(frame, horizon, columns, w, start, nu, options)
        return model

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
        w, nu = checked_start(sizes, w, nu, Repairs() if repairs is None else repairs)
        if not isinstance(observe_rewards, (bool, np.bool_)):
            raise ModelError(f"observe_rewards must be True or False; it is {observe_rewards!r}")
        discount = float(discount)
        if not 0.0 < discount <= 1.0:
            raise ModelError(f"discount must be above 0 and at most 1; it is {discount}")
        horizon = checked_horizon(horizon, discount)
        max_return = None if max_return is None else float(max_return)
        limits = checked_totals(sizes, rows, nu, horizon, discount, max_return)
        model = cls(
            w, nu, horizon, discount, sizes.A, *rows, bool(observe_rewards), max_return, *limits,
            **check_labels(sizes, horizon, labels), allowed=allowed,
        )  # fmt: skip
        for array in (w, nu, *rows):
            array.flags.writeable = False
        return model

    def replace(self, **changes: Any) -> "Built":
        """A copy with another `w, nu, horizon, discount, observe_rewards, max_return` or label.

        Checked again. Unless `max_return` is given, the limit the model was built with holds.
        `allowed (S, A)` takes actions away; one that is unavailable has no rows to come back with.
        `terminal (M, S)`, rewards after the last step, makes it a `TimedLatentMDP`.
        """
        terminal = changes.pop("terminal", None)
        if terminal is not None:
            from latentmdp.model.timed import TimedLatentMDP  # which holds a LatentMDP

            limit = changes.pop("max_return", self.return_limit)
            changed = self.replace(**changes, max_return=None)
            return TimedLatentMDP.from_model(changed, terminal=terminal, max_return=limit)
        known = (
            *(*LABELS, "allowed", "w", "nu", "horizon", "discount"),
            *("observe_rewards", "max_return", "terminal"),
        )
        for name in changes:
            if name not in known:
                raise ModelError(f"replace knows {', '.join(sorted(known))}; not {name!r}")
        labels = {name: changes.get(name, getattr(self, name)) for name in LABELS}
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
        labels: dict[str, Any] = {name: getattr(self, name) for name in LABELS}
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
        labels: dict[str, Any] = {name: getattr(self, name) for name in LABELS}
        labels |= {"reward_scale": 1.0, "reward_shift": 0.0}
        return self._checked(
            self.sizes, rows, self.w, self.nu, self.horizon, self.observe_rewards, self.discount,
            None, labels, self.allowed,
        )  # fmt: skip

    @property
    def conversion(self) -> Conversion:
        """From this model's values to those of the rewards before `normalized()`."""
        steps = discounted_steps(self.horizon, self.discount)
        return Conversion(self.reward_scale, self.reward_shift * steps)

    @cached_property
    def _unmasked(self) -> "LatentMDP":
        return dataclasses.replace(self, allowed=None)

    def unmasked(self) -> "LatentMDP":
        """The same rows with all actions available: for searches.

        An unavailable action is there a copy of the first available one of its state, so no value
        changes; a policy that is found goes through `policy.playable` before it is handed out.
        """
        return self if self.allowed is None else self._unmasked

    def describe(self) -> "Description":
        """Sizes, largest totals and where contexts differ; `str()` of it is for people."""
        from latentmdp.tables.describe import describe

        return describe(self)

    def rewards_in_state(self) -> "LatentMDP":
        """The same problem with the last reward in the state: one that learning takes.

        Where a next state comes with several rewards, it becomes several states, one for each.
        Values stay the same; policies are for the new states.
        """
        return rewards_in_state(self)

    def to_frame(self, names: bool = True) -> "pd.DataFrame":
        """One row per outcome: `context, state, action, next_state, probability, reward`, and
        `weight` (of the context) and `first` (of the state as the first one, given the context).

        With `names`, labels are the model's names where it has some. `from_frame(frame, horizon)`
        gives the model back; horizon, discount, layout and whether rewards are observed are not in
        the frame.
        """
        from latentmdp.tables.to_frame import model_frame

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
        from latentmdp.tables.notebook import model_page

        return model_page(self)

    def __repr__(self) -> str:
        rewards = "observed" if self.observe_rewards else "hidden"
        masked = ""
        if self.allowed is not None:
            masked = f", {(~self.allowed).sum()} of {self.S * self.A} actions unavailable"
        units = f", in {self.units}" if self.units else ""
        return (
            f"LatentMDP(M={self.M}, S={self.S}, A={self.A}, H={self.H}, Gamma={self.Gamma}, "
            f"rewards {rewards}, discount={self.discount:g}{masked}{units})"
        )


Built = LatentMDP | Any
"""A `LatentMDP`, or a `TimedLatentMDP` where steps differ or terminal rewards are given.

(`Any`, since those who call know which one they ask for, and type checkers cannot.)
"""

AnyKind = TypeVar("AnyKind", LatentMDP, "TimedLatentMDP")


def replaced(model: AnyKind, **changes: Any) -> AnyKind:
    """`model.replace(**changes)`, without the model's limit on totals where the changes break it.

    (A longer horizon pays more, and so may another first state.)
    """
    try:
        return model.replace(**changes)
    except ModelError:
        return model.replace(**changes, max_return=None)
