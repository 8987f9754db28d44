"""`TimedLatentMDP`: a latent MDP whose transitions or rewards change with the step.

It holds its *time-augmented* model, an ordinary `LatentMDP` on `H*S` states: `(step, state)` has
the number `step * S + state`. After the last step the next state stays in the last layer, so that
`number % S` is the person's state everywhere. Whatever works on ordinary models works on
`unrolled`; at the border, policies are folded back to `S` states (`policy/folding.py`,
`policy/policy_fold.py`).

A terminal reward is received after the last step: it counts `discount**H` times, and sits on the
transitions of the last step, times the discount.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.model import rows as canonical
from latentmdp.model.availability import Mask
from latentmdp.model.inputs import checked_start, row_columns, row_sizes
from latentmdp.model.labels import Fold, Layout, checked_names
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.model.repair import Repairs
from latentmdp.model.rows import Sizes
from latentmdp.model.timed_rows import (
    Columns,
    check_every_step,
    check_places,
    checked_steps,
    columns_of,
    dense_columns,
    mask_by_step,
    rows_to_model,
    sums_checked,
    with_terminal,
)
from latentmdp.model.units import Conversion, InUnits

if TYPE_CHECKING:
    import pandas as pd

    from latentmdp.tables.describe import Description

_LABELS = ("action_names", "context_names", "reward_scale", "reward_shift")


@dataclass(frozen=True, eq=False)
class TimedLatentMDP(InUnits):
    """A step-dependent latent MDP, frozen and validated once.

    Build it with `LatentMDP.from_arrays` (`P (H, M, S, A, S)`, or `terminal (M, S)`), with
    `LatentMDP.from_rows(..., step=...)` or `latentmdp.load`.

    >>> P = [[[[[1.0]]]], [[[[1.0]]]]]  # two steps, one context, one state, one action
    >>> model = LatentMDP.from_arrays(P, [[[[0.25]]], [[[0.5]]]], w=[1], nu=[[1]], horizon=2)
    >>> model.S, model.H, model.unrolled.S, model.R[:, 0, 0, 0].tolist()
    (1, 2, 2, [0.25, 0.5])
    """

    layers: LatentMDP  # the time-augmented model without terminal rewards
    unrolled: LatentMDP  # the time-augmented model
    terminal: Floats | None = None  # (M, S) rewards after the last step
    state_names: tuple[str, ...] | None = None
    layout: Layout | None = None

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
        terminal: ArrayLike | None = None,
        allowed: ArrayLike | None = None,
        **options: Any,
    ) -> "TimedLatentMDP":
        """From dense `P (H,M,S,A,S)`, `R (H,M,S,A)` or `(H,M,S,A,S)`; see `LatentMDP.from_arrays`.

        A stationary `P` or `R`, without its first axis, is the same at every step; so are an
        `R (S,A)` and `allowed (S,A)`, which may be `(H,S,A)`. (An `R` with four axes that could be
        either has an axis of steps if `P` has one.)
        """
        horizon = checked_steps(horizon)
        columns, sizes, mask = dense_columns(P, R, horizon, allowed)
        return cls._built(columns, sizes, w, nu, horizon, terminal, mask, **options)

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
        step: ArrayLike | None = None,
        terminal: ArrayLike | None = None,
        n_actions: int | None = None,
        allowed: ArrayLike | None = None,
        **options: Any,
    ) -> "TimedLatentMDP":
        """From one entry per outcome with its `step`, from 0; without `step`, for every step."""
        horizon = checked_steps(horizon)
        sizes = row_sizes(w, nu, action, n_actions)
        check_places(horizon, sizes.S)
        values = row_columns(
            sizes, context, state, action, next, prob, reward, step=step, horizon=horizon
        )
        if step is None:
            length = len(values[0])
            values = [np.tile(x, horizon) for x in values]
            values.append(np.repeat(np.arange(horizon), length))
        columns = Columns(values[-1], *values[:6])
        mask = mask_by_step(allowed, horizon, sizes.S, sizes.A)
        return cls._built(columns, sizes, w, nu, horizon, terminal, mask, **options)

    @classmethod
    def from_model(
        cls, model: LatentMDP, terminal: ArrayLike | None, max_return: float | None
    ) -> "TimedLatentMDP":
        """The same at every step, as an ordinary model is, with rewards after the last one."""
        c = columns_of(model, model.S)
        labels = {name: getattr(model, name) for name in ("state_names", "layout", *_LABELS)}
        return cls.from_rows(
            c.context, c.state, c.action, c.next, c.prob, c.reward, model.w, model.nu,
            model.horizon, terminal=terminal, n_actions=model.A, allowed=model.allowed,
            observe_rewards=model.observe_rewards, discount=model.discount, max_return=max_return,
            **labels,
        )  # fmt: skip

    @classmethod
    def _built(
        cls,
        columns: Columns,
        sizes: Sizes,
        w: ArrayLike,
        nu: ArrayLike,
        horizon: int,
        terminal: ArrayLike | None,
        allowed: Mask | None,
        *,
        normalize: bool | float = False,
        max_return: float | None = 1.0,
        state_names: Any = None,
        layout: Layout | None = None,
        **options: Any,
    ) -> "TimedLatentMDP":
        M, S, A = sizes
        check_every_step(columns.step, horizon)
        repairs = Repairs(normalize)
        w, nu = checked_start(sizes, w, nu, repairs)
        columns = sums_checked(columns, sizes, horizon, allowed, repairs)
        if state_names is not None:
            state_names = checked_names("state_names", state_names, S)
            options["state_names"] = [f"{x}@{t}" for t in range(horizon) for x in state_names]
        options["fold"] = Fold(S, layout)
        first = np.zeros((M, horizon * S))
        first[:, :S] = nu
        rest = {"w": w, "nu": first, "horizon": horizon, "n_actions": A, **options}
        rest["allowed"] = None if allowed is None else allowed.reshape(-1, A)
        layers = rows_to_model(columns, sizes, horizon, None, rest)
        rest["allowed"] = layers.allowed
        if terminal is None:
            unrolled = layers
            if max_return is not None:
                unrolled = rows_to_model(columns_of(layers, S), sizes, horizon, max_return, rest)
            repairs.warn()
            return cls(layers, unrolled, None, state_names, layout)
        after = canonical.floats("terminal", terminal)
        if after.shape != (M, S):
            raise ModelError(f"terminal must have the shape ({M}, {S}); it is {after.shape}")
        columns = with_terminal(columns_of(layers, S), after, horizon, layers.discount)
        unrolled = rows_to_model(columns, sizes, horizon, max_return, rest)
        repairs.warn()
        after.flags.writeable = False
        return cls(layers, unrolled, after, state_names, layout)

    def replace(self, **changes: Any) -> "TimedLatentMDP":
        """A copy with other values of what `LatentMDP.replace` takes, or another `terminal`.

        A smaller `horizon` keeps the first steps; there are no steps for a larger one. `allowed`
        is `(S, A)` or `(H, S, A)` and only takes actions away.
        """
        known: tuple[str, ...] = (
            "w",
            "nu",
            "horizon",
            "discount",
            "observe_rewards",
            "max_return",
            "terminal",
        )
        known += ("allowed", "state_names", "layout", *_LABELS)
        for name in changes:
            if name not in known:
                raise ModelError(f"replace knows {', '.join(sorted(known))}; not {name!r}")
        horizon = checked_steps(changes.pop("horizon", self.H))
        if horizon > self.H:
            raise ModelError(
                f"the horizon of a step-dependent model must be at most its {self.H} steps; it is "
                f"{horizon}"
            )
        if "allowed" in changes:
            mask = mask_by_step(changes["allowed"], self.H, self.S, self.A)
            changes["allowed"] = self.layers.replace(
                allowed=None if mask is None else mask.reshape(-1, self.A)
            ).allowed
        return self._with(self.columns, horizon, **changes)

    def _with(self, columns: Columns, horizon: int, **changes: Any) -> "TimedLatentMDP":
        """Built again from these outcomes; what is not in `changes` stays."""
        values: dict[str, Any] = {
            "w": self.w, "nu": self.nu, "terminal": self.terminal, "max_return": self.return_limit,
            "discount": self.discount, "observe_rewards": self.observe_rewards,
            "state_names": self.state_names, "layout": self.layout, "allowed": self.layers.allowed,
        }  # fmt: skip
        values |= {name: getattr(self.layers, name) for name in _LABELS} | changes
        parts: list[Any] = [column[columns.step < horizon] for column in columns]
        columns = Columns(*parts)
        if values["allowed"] is not None:
            by_step = values["allowed"].reshape(self.H, self.S, self.A)
            values["allowed"] = by_step[:horizon]
        return self._built(columns, self.sizes, horizon=horizon, **values)

    def normalized(self) -> "TimedLatentMDP":
        """A copy with rewards shifted to be non-negative and scaled to totals of at most 1.

        Remembers both, as `LatentMDP.normalized`. Terminal rewards are scaled, never shifted: the
        rewards of the steps are shifted by as much as both together need.
        """
        found = self.unrolled.normalized()
        scale = found.reward_scale / self.reward_scale
        shift = (found.reward_shift - self.reward_shift) / self.reward_scale
        reward, terminal = self.columns.reward, self.terminal
        if terminal is not None:  # sums with them are rounded: that must not lead outside [0, 1]
            largest = float(np.abs(reward).max() + np.abs(terminal).max())
            rounding = 2.0**-48 * (abs(shift) + largest)
            shift, scale = shift - rounding, scale + 2 * (self.H + 1) * rounding
            terminal = terminal / scale
        return self._with(
            self.columns._replace(reward=(reward - shift) / scale), self.H, max_return=1.0,
            reward_scale=scale * self.reward_scale,
            reward_shift=self.reward_shift + shift * self.reward_scale, terminal=terminal,
        )  # fmt: skip

    def denormalized(self) -> "TimedLatentMDP":
        """A copy with the rewards as they were before `normalized()`, up to rounding."""
        if not self.units:
            return self
        columns = self.columns
        columns = columns._replace(reward=columns.reward * self.reward_scale + self.reward_shift)
        return self._with(
            columns, self.H, max_return=None, reward_scale=1.0, reward_shift=0.0,
            terminal=None if self.terminal is None else self.terminal * self.reward_scale,
        )  # fmt: skip

    @property
    def conversion(self) -> Conversion:
        """From this model's values to those of the rewards before `normalized()`."""
        return self.unrolled.conversion

    # ------------------------------------------------------------------ reading

    @property
    def M(self) -> int:
        """Number of contexts."""
        return self.unrolled.M

    @property
    def S(self) -> int:
        """Number of states, not counted by step."""
        return self.unrolled.S // self.unrolled.H

    @property
    def A(self) -> int:
        """Number of actions."""
        return self.unrolled.A

    @property
    def H(self) -> int:
        """The horizon: every episode has exactly this many steps."""
        return self.unrolled.H

    @property
    def horizon(self) -> int:
        """The horizon."""
        return self.unrolled.H

    @property
    def sizes(self) -> Sizes:
        """`(M, S, A)`."""
        return Sizes(self.M, self.S, self.A)

    @property
    def w(self) -> Floats:
        """`(M,)` weights of the contexts."""
        return self.unrolled.w

    @cached_property
    def nu(self) -> Floats:
        """`(M, S)` first state, by context."""
        first = np.ascontiguousarray(self.unrolled.nu[:, : self.S])
        first.flags.writeable = False
        return first

    @property
    def discount(self) -> float:
        """The discount; a terminal reward counts `discount**H` times."""
        return self.unrolled.discount

    @property
    def observe_rewards(self) -> bool:
        """Whether the agent sees rewards."""
        return self.unrolled.observe_rewards

    @property
    def return_limit(self) -> float | None:
        """What totals were checked against; None: any finite rewards."""
        return self.unrolled.return_limit

    @property
    def min_return(self) -> float:
        """The least total reward of an episode, over all policies."""
        return self.unrolled.min_return

    @property
    def max_return(self) -> float:
        """The largest total reward of an episode, over all policies."""
        return self.unrolled.max_return

    @property
    def Gamma(self) -> int:
        """The largest number of next states of any row."""
        return self.layers.Gamma

    @property
    def rewards_on_transitions(self) -> bool:
        """Whether rewards, terminal ones left out, depend on the next state as well."""
        return self.layers.rewards_on_transitions

    @property
    def allowed(self) -> Mask | None:
        """`(H, S, A)` available actions, by step; None: all."""
        mask = self.layers.allowed
        return None if mask is None else mask.reshape(self.H, self.S, self.A)

    @property
    def stand_in(self) -> Ints:
        """`(H, S, A)` the action itself, or the first available one where it is unavailable."""
        return self.layers.stand_in.reshape(self.H, self.S, self.A)

    @property
    def stochastic_rewards(self) -> bool:
        """Whether one next state of a row comes with several rewards, each with a symbol."""
        return self.layers.stochastic_rewards

    @property
    def action_names(self) -> tuple[str, ...] | None:
        """Names of the actions."""
        return self.layers.action_names

    @property
    def context_names(self) -> tuple[str, ...] | None:
        """Names of the contexts."""
        return self.layers.context_names

    @property
    def reward_scale(self) -> float:
        """The user's reward is `reward * reward_scale + reward_shift`."""
        return self.layers.reward_scale

    @property
    def reward_shift(self) -> float:
        """See `reward_scale`; terminal rewards are not shifted."""
        return self.layers.reward_shift

    @cached_property
    def columns(self) -> Columns:
        """All outcomes, without terminal rewards."""
        return columns_of(self.layers, self.S)

    def place(self, step: Any, state: Any) -> Any:
        """The number of `(step, state)` in `unrolled`; after the last step, of its last layer."""
        return np.minimum(step, self.H - 1) * self.S + state

    @property
    def P(self) -> Floats:
        """`(H, M, S, A, S)` transition probabilities, dense."""
        dense = self._zeros()
        c = self.columns
        np.add.at(dense, (c.step, c.context, c.state, c.action, c.next), c.prob)
        return dense

    @property
    def R(self) -> Floats:
        """`(H, M, S, A)` rewards, or `(H, M, S, A, S)` on transitions; without terminal ones."""
        if not self.rewards_on_transitions:
            by_row = np.where(self.layers.listed_rows, self.layers.row_reward, 0.0)
            by_row = by_row.reshape(self.M, self.H, self.S, self.A)
            return np.ascontiguousarray(by_row.transpose(1, 0, 2, 3))
        dense, c = self._zeros(), self.columns
        at = (c.step, c.context, c.state, c.action, c.next)
        if not self.layers.stochastic_rewards:
            dense[at] = c.reward
            return dense
        total = self.P
        np.add.at(dense, at, c.prob * c.reward)
        return np.divide(dense, total, out=dense, where=total > 0)

    def _zeros(self) -> Floats:
        shape = (self.H, self.M, self.S, self.A, self.S)
        if np.prod(shape, dtype=float) > 2**31:
            raise ModelError(f"a dense view must have at most 2^31 entries; {shape} asked")
        return np.zeros(shape)

    @cached_property
    def digest(self) -> str:
        """Of all that values depend on; names, layout and units are not among it."""
        return hashlib.sha256(f"timed {self.S} {self.unrolled.digest}".encode()).hexdigest()[:16]

    def mean_over_steps(self) -> LatentMDP:
        """What pictures show: each row averaged over the steps, rewards hidden."""
        c = self.columns
        row = (c.context * self.S + c.state) * self.A + c.action
        total = np.bincount(row, c.prob, minlength=self.M * self.S * self.A)
        return LatentMDP.from_rows(
            c.context, c.state, c.action, c.next, c.prob / total[row], c.reward, self.w, self.nu,
            self.H, n_actions=self.A, observe_rewards=False, max_return=None,
            state_names=self.state_names, action_names=self.action_names,
            context_names=self.context_names, layout=self.layout,
        )  # fmt: skip

    def describe(self) -> "Description":
        """Sizes, largest totals and where contexts differ; `str()` of it is for people."""
        from latentmdp.tables.describe import describe_timed

        return describe_timed(self)

    def to_frame(self, names: bool = True) -> "pd.DataFrame":
        """One row per outcome, as `LatentMDP.to_frame`, with its `step`; no terminal rewards."""
        from latentmdp.tables.to_frame import timed_frame

        return timed_frame(self, names)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TimedLatentMDP):
            return NotImplemented
        return (
            self.S == other.S
            and self.layers == other.layers
            and self.unrolled == other.unrolled
            and (self.terminal is None) == (other.terminal is None)
            and np.array_equal(self._terminal_or_zeros, other._terminal_or_zeros)
            and self.state_names == other.state_names
            and self.layout == other.layout
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def _terminal_or_zeros(self) -> Floats:
        return np.zeros((self.M, self.S)) if self.terminal is None else self.terminal

    def _repr_html_(self) -> str:
        """For notebooks: sizes, the contexts and, on a grid, a picture."""
        from latentmdp.tables.notebook import model_page

        return model_page(self)

    def __repr__(self) -> str:
        rewards = "observed" if self.observe_rewards else "hidden"
        after = "" if self.terminal is None else ", terminal rewards"
        masked = ""
        if self.allowed is not None:
            masked = f", {(~self.allowed).sum()} of {self.allowed.size} actions unavailable"
        units = f", in {self.units}" if self.units else ""
        return (
            f"TimedLatentMDP(M={self.M}, S={self.S}, A={self.A}, H={self.H}, Gamma={self.Gamma}, "
            f"rewards {rewards}{after}, discount={self.discount:g}{masked}{units})"
        )
