"""`LatentMDP`: `M` tabular MDPs on shared states and actions, in canonical sparse form.

At the start of each episode a hidden context `m ~ w` is drawn; it stays fixed. The episode starts
at `s ~ nu[m]` and lasts exactly `horizon` steps (for ever where that is `math.inf`). What the agent
sees besides the next state is the outcome's `symbol`. It stands for the reward, if rewards are
observed (`canonical.rank_rewards`; `number_transitions` where rewards sit on transitions), and for
the reading, if the model has readings: `symbol = reward's number * readings + reading`.

Rows may depend on the step: then each step has rows of its own.
"""

from __future__ import annotations  # so that help() shows the names of types

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError, warn_renamed
from latentmdp.model import rows as canonical
from latentmdp.model.availability import Mask, mask_by_step
from latentmdp.model.dense import dense_outcomes, dense_outcomes_by_step, given_by_step
from latentmdp.model.horizons import checked_horizon, discounted_steps, is_infinite
from latentmdp.model.inputs import (
    checked_start,
    checked_steps,
    checked_terminal,
    checked_totals,
    last_rewards,
    listed_outcomes,
)
from latentmdp.model.labels import LABELS, Labels, Layout, Origin, TimeAugmented, check_labels
from latentmdp.model.repair import Repairs
from latentmdp.model.reward_states import rewards_in_state
from latentmdp.model.row_views import RowViews
from latentmdp.model.rows import Rows, Sizes
from latentmdp.model.time_augmented import time_augmented
from latentmdp.model.totals import extreme_totals
from latentmdp.model.units import Conversion, InUnits

if TYPE_CHECKING:
    import pandas as pd

    from latentmdp.tables.describe import Description

_CHANGEABLE = (
    "w", "nu", "horizon", "discount", "observe_rewards", "max_return", "terminal", "allowed",
    *LABELS,
)  # fmt: skip


@dataclass(frozen=True, eq=False, init=False, repr=False)
class LatentMDP(RowViews, InUnits):
    """A latent MDP, frozen and validated once.

    From dense arrays (also `LatentMDP.from_arrays`); `from_rows` and `from_frame` take lists of
    outcomes, `latentmdp.make` a domain, `latentmdp.load` a file.

    - `P (M,S,A,S)`: transition probabilities. `R (M,S,A)` or `(M,S,A,S)`: rewards; `(S,A)` if they
      are the same in every context. `w (M,)`: weights of the contexts. `nu (M,S)` or `(S,)`: first
      states. `horizon`: steps of an episode, or `math.inf` with a discount below 1.
    - With an axis of steps before those of `P`, `R` or `allowed` the model depends on the step.
    - `Z (M,S,A,O)`: probability of each reading besides the next state, by context, next state and
      action; `(M,S,O)` where the action does not matter, `(S,A,O)` and `(S,O)` where the context
      does not. Without it nothing is read.
    - `allowed (S,A)`: which actions are available; the rows of the others are ignored. Without it,
      an action whose rows are 0 in all contexts is unavailable.
    - `terminal (M,S)`: rewards after the last step, received `discount**horizon` times.
    - `observe_rewards`: whether the agent sees rewards; what differs by context then tells it.
    - `max_return` bounds every episode's total reward and asks for non-negative rewards; `None`
      accepts any finite rewards.
    - `normalize_rows`: distributions whose sums differ from 1 by at most this (True: any weights)
      are divided by their sum, with a warning.
    - Labels: `state_names`, `action_names`, `context_names`, `reading_names`, `layout`.

    >>> P = [[[[1.0]]], [[[1.0]]]]  # two contexts, one state, one action
    >>> model = LatentMDP(P, [[[0.0]], [[0.5]]], w=[0.5, 0.5], nu=[[1], [1]], horizon=2)
    >>> model.M, model.S, model.A, model.H, model.max_return
    (2, 1, 1, 2, 1.0)
    """

    w: Floats  # (M,) weights of the contexts
    nu: Floats  # (M, S) first state, by context
    horizon: int  # steps of an episode, or math.inf
    discount: float
    n_actions: int
    indptr: Ints  # (T*M*S*A + 1,) CSR rows; row (t, m, s, a) is t*M*S*A + (m*S + s)*A + a
    next: Ints  # (nnz,)
    symbol: Ints  # (nnz,)
    prob: Floats  # (nnz,)
    reward: Floats  # (nnz,)
    observe_rewards: bool
    return_limit: float | None  # what totals were checked against; None: any finite rewards
    min_return: float  # bounds on an episode's total reward, over all policies
    max_return: float
    state_names: tuple[str, ...] | None
    action_names: tuple[str, ...] | None
    context_names: tuple[str, ...] | None
    reading_names: tuple[str, ...] | None
    layout: Layout | None
    reward_scale: float  # the user's reward is `reward * reward_scale + reward_shift`
    reward_shift: float  # (terminal rewards are not shifted)
    allowed: Mask | None  # (S, A), or (H, S, A), available actions; None: all. The rows of the
    # others repeat those of the first available action of their state (`availability.py`)
    terminal: Floats | None  # (M, S) rewards after the last step
    readings: int  # how many different readings there are; 1: none
    origin: Origin | None = dataclasses.field(compare=False)  # if it was read from a POMDP
    augmented: TimeAugmented | None = dataclasses.field(compare=False)  # `time_augmented()` says so

    # ------------------------------------------------------------------ building

    def __init__(
        self,
        P: ArrayLike,
        R: ArrayLike,
        w: ArrayLike,
        nu: ArrayLike,
        horizon: float,
        *,
        Z: ArrayLike | None = None,
        allowed: ArrayLike | None = None,
        terminal: ArrayLike | None = None,
        observe_rewards: bool = True,
        discount: float = 1.0,
        max_return: float | None = 1.0,
        normalize_rows: bool | float = False,
        **labels: Unpack[Labels],
    ) -> None:
        repairs = Repairs(normalize_rows)
        options = Z, allowed, terminal, observe_rewards, discount, max_return
        self._set_dense(P, R, w, nu, horizon, *options, repairs, labels)
        repairs.warn()

    def _set_dense(
        self,
        P: ArrayLike,
        R: ArrayLike,
        w: ArrayLike,
        nu: ArrayLike,
        horizon: float,
        Z: ArrayLike | None,
        allowed: ArrayLike | None,
        terminal: ArrayLike | None,
        observe_rewards: bool,
        discount: float,
        max_return: float | None,
        repairs: Repairs,
        labels: Mapping[str, Any],
    ) -> None:
        if given_by_step(P, R, allowed, horizon):
            steps = checked_steps(horizon)
            sizes, outcomes = dense_outcomes_by_step(P, R, Z, steps, allowed, repairs)
        else:
            sizes, outcomes = dense_outcomes(P, R, Z, allowed, repairs)
        rows, mask = canonical.build_rows(sizes, outcomes, observe_rewards, repairs)
        self._set(
            sizes, rows, w, nu, horizon, observe_rewards, discount, max_return, labels, mask,
            terminal, outcomes.readings, repairs,
        )  # fmt: skip

    @classmethod
    def from_arrays(
        cls,
        P: ArrayLike,
        R: ArrayLike,
        w: ArrayLike,
        nu: ArrayLike,
        horizon: float,
        *,
        normalize: bool | float = False,
        Z: ArrayLike | None = None,
        allowed: ArrayLike | None = None,
        terminal: ArrayLike | None = None,
        observe_rewards: bool = True,
        discount: float = 1.0,
        max_return: float | None = 1.0,
        normalize_rows: bool | float = False,
        **labels: Unpack[Labels],
    ) -> LatentMDP:
        """The constructor under its older name; `normalize` is `normalize_rows`."""
        repairs, model = Repairs(normalize_rows or normalize), cls.__new__(cls)
        options = Z, allowed, terminal, observe_rewards, discount, max_return
        model._set_dense(P, R, w, nu, horizon, *options, repairs, labels)
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
        horizon: float,
        *,
        step: ArrayLike | None = None,
        reading: ArrayLike | None = None,
        n_actions: int | None = None,
        n_readings: int | None = None,
        allowed: ArrayLike | None = None,
        terminal: ArrayLike | None = None,
        observe_rewards: bool = True,
        discount: float = 1.0,
        max_return: float | None = 1.0,
        normalize: bool | float = False,
        normalize_rows: bool | float = False,
        **labels: Unpack[Labels],
    ) -> LatentMDP:
        """From one entry per outcome, in any order; repeated outcomes add up.

        The numbers of contexts and states are those of `nu (M, S)`, or of `w (M,)` and `nu (S,)`;
        `n_actions` and `n_readings` default to the largest number plus one. Where repeated outcomes
        differ in reward, observed rewards are random (`stochastic_rewards`), and hidden ones are
        averaged by probability. Without `allowed (S, A)`, an action without outcomes in all
        contexts is unavailable in that state. With the `step` of each outcome, from 0, or with
        `allowed (H, S, A)` the model depends on the step. With a `reading` of each outcome, from 0,
        `prob` is the probability of next state and reading. The rest as in the constructor.
        """
        repairs = Repairs(normalize_rows or normalize)
        sizes, outcomes = listed_outcomes(
            (context, state, action, next, prob, reward), w, nu, horizon, step, reading,
            n_actions, n_readings, allowed,
        )  # fmt: skip
        rows, mask = canonical.build_rows(sizes, outcomes, observe_rewards, repairs)
        model = cls.__new__(cls)
        model._set(
            sizes, rows, w, nu, horizon, observe_rewards, discount, max_return, labels, mask,
            terminal, outcomes.readings, repairs,
        )  # fmt: skip
        repairs.warn()
        return model

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        horizon: float,
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
        reading: str | None = "reading",
        **options: Any,
    ) -> LatentMDP:
        """From a pandas DataFrame with one row per outcome; `to_frame` is the way back.

        `context`, `state`, ..., `first` are the names of its columns. Contexts, states and actions
        are numbers from 0, or labels of any kind, which become names: numbers in their order,
        categories in theirs, other labels as they first appear. Without a column of contexts there
        is one. A state without rows in a context ends the episode there: it stays, with reward 0.
        An action without rows in a state, in all contexts, is unavailable there; a category of
        actions without any rows is an action that is available nowhere. With a column
        `step`, from 0, rows change with the step. With a column `reading` a row's probability is
        that of the next state and the reading.

        Weights of contexts: `w` (an array, or a mapping from contexts), else the column `weight`,
        else uniform. First states: `start` (a state, or a mapping from states to probabilities) or
        `nu` (an array), else the column `first`, the probability of starting in this row's state in
        its context. `options`: `observe_rewards`, `discount`, `normalize_rows`, `max_return` (here
        None: any finite rewards) and labels, as in `from_rows`.

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
            "step": step, "reading": reading,
        }  # fmt: skip
        options.setdefault("max_return", None)
        model = frame_model(frame, horizon, columns, w, start, nu, options)
        return model

    def _set(
        self,
        sizes: Sizes,
        rows: Rows,
        w: ArrayLike,
        nu: ArrayLike,
        horizon: float,
        observe_rewards: bool,
        discount: float,
        max_return: float | None,
        labels: Mapping[str, Any],
        allowed: Mask | None,
        terminal: ArrayLike | None,
        readings: int,
        repairs: Repairs | None = None,
    ) -> None:
        """Check what the rows do not say, and set all fields; `allowed (T, S, A)`."""
        w, nu = checked_start(sizes, w, nu, Repairs() if repairs is None else repairs)
        if not isinstance(observe_rewards, (bool, np.bool_)):
            raise ModelError(f"observe_rewards must be True or False; it is {observe_rewards!r}")
        discount = float(discount)
        if not 0.0 < discount <= 1.0:
            raise ModelError(f"discount must be above 0 and at most 1; it is {discount}")
        steps = checked_horizon(horizon, discount)
        after = checked_terminal(sizes, terminal, steps)
        max_return = None if max_return is None else float(max_return)
        limits = checked_totals(sizes, rows, nu, steps, discount, max_return, after)
        if allowed is not None:
            allowed = allowed[0] if len(allowed) == 1 else allowed
        defaults = dict.fromkeys(LABELS) | {"reward_scale": 1.0, "reward_shift": 0.0}
        fields = {
            "w": w, "nu": nu, "horizon": steps, "discount": discount, "n_actions": sizes.A,
            **rows._asdict(), "observe_rewards": bool(observe_rewards), "return_limit": max_return,
            "min_return": limits[0], "max_return": limits[1], "allowed": allowed,
            "terminal": after, "readings": readings,
        }  # fmt: skip
        fields |= defaults | check_labels(sizes, readings, steps, labels)
        for array in (w, nu, *rows, allowed, after):
            if array is not None:
                array.flags.writeable = False
        self.__dict__.update(fields)

    def with_fields(self, **fields: Any) -> LatentMDP:
        """A copy with other values of some fields, which need no check."""
        copy = LatentMDP.__new__(LatentMDP)
        copy.__dict__.update({f.name: getattr(self, f.name) for f in dataclasses.fields(self)})
        copy.__dict__.update(fields)
        return copy

    def replace(self, **changes: Any) -> LatentMDP:
        """A copy with other weights, first states, horizon, discount, terminal rewards or labels.

        Also with another `observe_rewards`, `max_return` or `allowed`. Checked again. Unless
        `max_return` is given, the limit the model was built with holds. `allowed` takes actions
        away; one that is unavailable has no rows to come back with. A smaller `horizon` of a
        step-dependent model keeps the first steps; there are no steps for a larger one.
        """
        for name in changes:
            if name not in _CHANGEABLE:
                raise ModelError(f"replace knows {', '.join(sorted(_CHANGEABLE))}; not {name!r}")
        labels = {name: changes.get(name, getattr(self, name)) for name in LABELS}
        horizon, rows, mask = changes.get("horizon", self.horizon), self.rows, self._mask
        if horizon != self.horizon:
            labels["augmented"] = None
            rows, mask = self._first_steps(horizon)
        observe = changes.get("observe_rewards", self.observe_rewards)
        if "allowed" in changes:
            mask = self._narrowed(changes["allowed"], mask)
        if observe != self.observe_rewards or mask is not self._mask:
            rows = canonical.relabel(self.sizes, rows, observe, mask, self.readings)
        copy = LatentMDP.__new__(LatentMDP)
        copy._set(
            self.sizes, rows, changes.get("w", self.w), changes.get("nu", self.nu), horizon,
            observe, changes.get("discount", self.discount),
            changes.get("max_return", self.return_limit), labels, mask,
            changes.get("terminal", self.terminal), self.readings,
        )  # fmt: skip
        return copy

    @property
    def _mask(self) -> Mask | None:
        """`(T, S, A)` available actions."""
        return None if self.allowed is None else self._three_axes

    @cached_property
    def _three_axes(self) -> Mask:
        assert self.allowed is not None
        return self.allowed.reshape(self.steps, self.S, self.A)

    def from_step(self, step: int) -> LatentMDP:
        """The rest of the episode, from a step on, as a model of its own; first states stay."""
        if step == 0 or is_infinite(self.horizon):
            return self
        if self.steps == 1:
            return replaced(self, horizon=self.H - step)
        rows, mask = self._rows_of(step, self.H)
        labels: dict[str, Any] = {name: getattr(self, name) for name in LABELS}
        copy = LatentMDP.__new__(LatentMDP)
        copy._set(
            self.sizes, rows, self.w, self.nu, self.H - step, self.observe_rewards, self.discount,
            None, labels, mask, self.terminal, self.readings,
        )  # fmt: skip
        return copy

    def _first_steps(self, horizon: Any) -> tuple[Rows, Mask | None]:
        """The rows and available actions of the first steps, if steps differ."""
        if self.steps == 1:
            return self.rows, self._mask
        horizon = checked_steps(horizon)
        if horizon > self.H:
            raise ModelError(
                f"the horizon of a step-dependent model must be at most its {self.H} steps; it is "
                f"{horizon}"
            )
        return self._rows_of(0, horizon)

    def _rows_of(self, first: int, stop: int) -> tuple[Rows, Mask | None]:
        """The rows and available actions of the steps from `first` to before `stop`."""
        indptr = self.indptr[first * self.stride : stop * self.stride + 1]
        part = slice(indptr[0], indptr[-1])
        rows = Rows(
            indptr - indptr[0], self.next[part], self.symbol[part], self.prob[part],
            self.reward[part],
        )  # fmt: skip
        return rows, None if self.allowed is None else self._three_axes[first:stop]

    def _narrowed(self, allowed: ArrayLike | None, mine: Mask | None) -> Mask | None:
        """A mask that takes actions away from this one; the same one if it takes none away."""
        steps = self.steps if mine is None else len(mine)
        wanted = mask_by_step(allowed, steps, self.S, self.A)
        everything = np.ones((steps, self.S, self.A), dtype=bool)
        wanted = everything if wanted is None else wanted
        before = everything if mine is None else mine
        if (wanted & ~before).any():
            _, s, a = (int(i) for i in np.argwhere(wanted & ~before)[0])
            raise ModelError(
                f"allowed can only take actions away; action {a} of state {s} is unavailable and "
                "has no rows"
            )
        return mine if np.array_equal(wanted, before) else wanted

    def normalized(self) -> LatentMDP:
        """A copy with rewards shifted to be non-negative and scaled to totals of at most 1.

        Remembers both (`reward_scale`, `reward_shift`): `in_user_units` turns values back,
        `difference_in_user_units` regret and gaps, `denormalized` the model.
        A model that already satisfies both conditions keeps its rewards. Terminal rewards are
        scaled and never shifted: the rewards of the steps are shifted by as much as both need.
        """
        terminal, reward = self.terminal, self.reward
        last, _ = last_rewards(self.sizes, self.rows, terminal, self.discount)
        rounding = 0.0
        least = float(last.min())
        if self.steps > 1 or self.H > 1:
            least = min(least, float(reward.min()))
        shift = min(0.0, least)
        if terminal is not None:  # sums with them are rounded: that must not lead outside [0, 1]
            largest = float(np.abs(reward).max() + np.abs(terminal).max())
            rounding = 2.0**-48 * (abs(shift) + largest)
            shift -= rounding
        rows = self.rows._replace(reward=reward - shift)
        high = extreme_totals(
            self.sizes, rows, self.nu, self.horizon, self.discount, 1, terminal
        ).max()
        scale = max(1.0, float(high))
        if terminal is not None:
            scale += 2 * (self.H + 1) * rounding
        return self._rescaled(
            rows.reward / scale, None if terminal is None else terminal / scale, 1.0,
            self.reward_scale * scale, self.reward_shift + self.reward_scale * shift,
        )  # fmt: skip

    def denormalized(self) -> LatentMDP:
        """A copy with the rewards as they were before `normalized()`, up to rounding."""
        if not self.units:
            return self
        reward = self.reward * self.reward_scale + self.reward_shift
        terminal = None if self.terminal is None else self.terminal * self.reward_scale
        return self._rescaled(reward, terminal, None, 1.0, 0.0)

    def _rescaled(
        self,
        reward: Floats,
        terminal: Floats | None,
        limit: float | None,
        scale: float,
        shift: float,
    ) -> LatentMDP:
        """A copy with other rewards and units; symbols stay."""
        labels: dict[str, Any] = {name: getattr(self, name) for name in LABELS}
        labels |= {"reward_scale": scale, "reward_shift": shift}
        copy = LatentMDP.__new__(LatentMDP)
        copy._set(
            self.sizes, self.rows._replace(reward=reward), self.w, self.nu, self.horizon,
            self.observe_rewards, self.discount, limit, labels, self._mask, terminal, self.readings,
        )  # fmt: skip
        return copy

    def negated(self) -> LatentMDP:
        """The model with every reward negated; observations keep their symbols.

        A policy of one is a policy of the other, with the negative value: to minimise costs is to
        maximise their negatives.
        """
        changed = {"reward": -self.reward, "terminal": None}
        if self.terminal is not None:
            changed["terminal"] = -self.terminal
        for array in changed.values():
            if array is not None:
                array.flags.writeable = False
        return self.with_fields(
            **changed, return_limit=None, min_return=-self.max_return,
            max_return=-self.min_return, reward_shift=-self.reward_shift,
        )  # fmt: skip

    @property
    def conversion(self) -> Conversion:
        """From this model's values to those of the rewards before `normalized()`."""
        steps = discounted_steps(self.horizon, self.discount)
        return Conversion(self.reward_scale, self.reward_shift * steps)

    @cached_property
    def _unmasked(self) -> LatentMDP:
        return self.with_fields(allowed=None)

    def unmasked(self) -> LatentMDP:
        """The same rows with all actions available: for searches.

        An unavailable action is there a copy of the first available one of its state, so no value
        changes; a policy that is found goes through `policy.playable` before it is handed out.
        """
        return self if self.allowed is None else self._unmasked

    # ------------------------------------------------------------------ other forms

    def rewards_in_state(self) -> LatentMDP:
        """The same problem with the last reward in the state: one that learning takes.

        Where a next state comes with several rewards, it becomes several states, one for each.
        Values stay the same; policies are for the new states.
        """
        return rewards_in_state(self)

    def time_augmented(self) -> LatentMDP:
        """The same problem with the step in the state: one that learning takes.

        `(step, state)` becomes the state `step * S + state`; terminal rewards become part of those
        of the last step. A policy for it is turned back by `policy.for_model(model)`.
        """
        return time_augmented(self)

    @property
    def unrolled(self) -> LatentMDP:
        """The older name of `time_augmented()`."""
        warn_renamed("model.unrolled", "model.time_augmented()")
        return self.time_augmented()

    def mean_over_steps(self) -> LatentMDP:
        """What pictures show: each row averaged over the steps, rewards hidden."""
        if self.steps == 1:
            return self
        c = self.outcome_columns()
        row = (c["context"] * self.S + c["state"]) * self.A + c["action"]
        total = np.bincount(row, c["prob"], minlength=self.M * self.S * self.A)
        return LatentMDP.from_rows(
            c["context"], c["state"], c["action"], c["next"], c["prob"] / total[row], c["reward"],
            self.w, self.nu, self.H, n_actions=self.A, observe_rewards=False, max_return=None,
            state_names=self.state_names, action_names=self.action_names,
            context_names=self.context_names, layout=self.layout,
        )  # fmt: skip

    def outcome_columns(self) -> dict[str, Any]:
        """`step, context, state, action, next, prob, reward, reading`: one entry per outcome.

        Without what the rows of unavailable actions repeat, and without terminal rewards.
        """
        row = np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))
        listed = self.listed_rows[row]
        pair, action = np.divmod(row[listed], self.A)
        place, state = np.divmod(pair, self.S)
        step, context = np.divmod(place, self.M)
        return {
            "step": step, "context": context, "state": state, "action": action,
            "next": self.next[listed], "prob": self.prob[listed], "reward": self.reward[listed],
            "reading": self.reading[listed],
        }  # fmt: skip

    def to_frame(self, names: bool = True) -> pd.DataFrame:
        """One row per outcome: `context, state, action, next_state, probability, reward`, and
        `weight` (of the context) and `first` (of the state as the first one, given the context).

        Also `step` and `reading` where the model has them. With `names`, labels are the model's
        names where it has some. `from_frame(frame, horizon)` gives the model back; horizon,
        discount, layout, terminal rewards and whether rewards are observed are not in the frame.
        """
        from latentmdp.tables.to_frame import model_frame

        return model_frame(self, names)

    def describe(self) -> Description:
        """Sizes, largest totals and where contexts differ; `str()` of it is for people."""
        from latentmdp.tables.describe import describe

        return describe(self)

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
        facts = [f"M={self.M}", f"S={self.S}", f"A={self.A}", f"H={self.H}", f"Gamma={self.Gamma}"]
        facts += ["step-dependent"] * (self.steps > 1)
        facts += [f"{self.readings} readings"] * (self.readings > 1)
        facts += [f"rewards {rewards}"]
        facts += ["terminal rewards"] * (self.terminal is not None)
        facts += [f"discount={self.discount:g}"]
        if self.allowed is not None:
            facts += [f"{(~self.allowed).sum()} of {self.allowed.size} actions unavailable"]
        facts += [f"in {self.units}"] * bool(self.units)
        return f"LatentMDP({', '.join(facts)})"


def replaced(model: LatentMDP, **changes: Any) -> LatentMDP:
    """`model.replace(**changes)`, without the model's limit on totals where the changes break it.

    (A longer horizon pays more, and so may another first state.)
    """
    try:
        return model.replace(**changes)
    except ModelError:
        return model.replace(**changes, max_return=None)


def refuse_steps(model: Any, what: str) -> None:
    """Refuse a model that depends on the step or has terminal rewards, and name the remedy."""
    if isinstance(model, LatentMDP) and model.changes_with_step:
        raise ModelError(
            f"{what} needs a model that does not change with the step; this one does (use "
            "model.time_augmented(), the same problem with the step in the state; latentmdp learn "
            "has --unroll for it, a study unroll = true)"
        )


def refuse_readings(model: Any, what: str) -> None:
    """Refuse a model with readings besides the next state."""
    if isinstance(model, LatentMDP) and model.readings > 1:
        raise ModelError(
            f"{what} needs a model in which nothing is read besides the next state and the reward; "
            f"this one has {model.readings} readings (model.rewards_in_state() puts them into the "
            "state)"
        )
