"""A summary of a model in a few lines: sizes, largest totals, where the contexts differ."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.csr import Ints
from latentmdp.errors import printable
from latentmdp.model.rows import place_of, rank_rewards
from latentmdp.model.totals import extreme_totals

if TYPE_CHECKING:
    from latentmdp.model.latent_mdp import LatentMDP


@dataclass(frozen=True)
class Description:
    """Facts about a model; `str()` formats them as text, `to_dict()` as plain data.

    `transitions_differ` and `rewards_differ` list the `(state, action)` pairs at which not all
    contexts agree; `alike` groups the contexts that agree everywhere, first states included.
    """

    M: int
    S: int
    A: int
    H: int
    Gamma: int
    rows: int  # of available actions
    outcomes: int
    discount: float
    observe_rewards: bool
    rewards_on_transitions: bool
    smallest_totals: tuple[float, ...]
    largest_totals: tuple[float, ...]
    transitions_differ: tuple[tuple[int, int], ...]
    rewards_differ: tuple[tuple[int, int], ...]
    first_states_differ: bool
    alike: tuple[tuple[int, ...], ...]
    names: dict[str, tuple[str, ...] | None]
    units: str = ""  # in words; empty where rewards are as they were given
    step_dependent: bool = False  # transitions or rewards may change with the step
    terminal_rewards: tuple[float, float] | None = None  # least and largest after the last step
    stochastic_rewards: bool = False  # several rewards, each seen, for one next state
    unavailable: tuple[tuple[int, int], ...] = ()  # (state, action)
    readings: int = 1  # how many different ones are read besides the next state; 1: none

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        seen = "observed" if self.observe_rewards else "hidden"
        where = "on transitions" if self.rewards_on_transitions else "on (state, action)"
        kind = ("random, " if self.stochastic_rewards else "") + seen
        lines = [
            f"{self.M} contexts, {self.S} states, {self.A} actions, horizon {self.H}, "
            f"discount {self.discount:g}",
            f"{self.rows} rows, {self.outcomes} outcomes, at most Gamma = {self.Gamma} per row",
            *self._availability(),
            f"rewards {where}, {kind}; total reward of an episode by context: {self._totals()}",
            f"transitions{' or readings' * (self.readings > 1)} differ at "
            f"{self._places(self.transitions_differ)}",
            f"rewards differ at {self._places(self.rewards_differ)}",
            f"first states {'differ' if self.first_states_differ else 'do not differ'}",
        ]
        if self.step_dependent:
            lines.insert(
                1,
                "transitions and rewards depend on the step; differences below occur at some step",
            )
        if self.terminal_rewards is not None:
            low, high = self.terminal_rewards
            lines.append(f"terminal rewards from {low:.4g} to {high:.4g}, in the totals")
        if self.readings > 1:
            lines.append(f"{self.readings} readings besides the next state")
        lines += [f"totals are in {self.units}"] if self.units else []
        groups = [group for group in self.alike if len(group) > 1]
        if groups:
            shown = "; ".join(
                ", ".join(map(str, g[:8])) + " ..." * (len(g) > 8) for g in groups[:4]
            )
            lines.append(f"contexts that are alike in everything: {shown}")
        return "\n".join(lines)

    def _totals(self) -> str:
        spans = [
            f"{lo:.4g} to {hi:.4g}"
            for lo, hi in zip(self.smallest_totals, self.largest_totals, strict=True)
        ]
        if len(set(spans)) == 1:
            return f"{spans[0]} in each"
        return ", ".join(spans[:6]) + (f", ... ({len(spans)} in all)" if len(spans) > 6 else "")

    def _availability(self) -> list[str]:
        if not self.unavailable:
            return []
        return [f"unavailable are {self._places(self.unavailable)}"]

    def _places(self, pairs: tuple[tuple[int, int], ...]) -> str:
        if not pairs:
            return "no (state, action)"
        shown = [f"({self._name('states', s)}, {self._name('actions', a)})" for s, a in pairs[:4]]
        more = ", ..." if len(pairs) > 4 else ""
        return f"{len(pairs)} of {self.S * self.A} (state, action): {', '.join(shown)}{more}"

    def _name(self, kind: str, index: int) -> str:
        names = self.names[kind]
        return printable(names[index]) if names else str(index)


def describe(model: "LatentMDP") -> Description:
    """Describe `model`. `O(nnz log nnz)` and the two dynamic programmes of the totals."""
    (M, S, A), T = model.sizes, model.steps
    n_rows = T * M * S * A
    row = np.repeat(np.arange(n_rows), np.diff(model.indptr))
    seen = model.next * model.readings + model.reading
    moves = _row_codes(row, n_rows, seen, model.prob)
    if model.stochastic_rewards:
        merged = model.replace(observe_rewards=False)
        merged_row = np.repeat(np.arange(n_rows), np.diff(merged.indptr))
        merged_seen = merged.next * merged.readings + merged.reading
        moves = _row_codes(merged_row, n_rows, merged_seen, np.round(merged.prob, 12))
    place = place_of(model.sizes, np.arange(n_rows))
    if model.rewards_on_transitions:
        rank = rank_rewards(place[row] * S + model.next, model.reward)
        if model.stochastic_rewards:  # how likely they are is part of the rewards
            _, of = np.unique(row * S + model.next, return_inverse=True)
            share = np.round(model.prob / np.bincount(of, model.prob)[of], 9)
            rank = rank * (1 + len(share)) + np.unique(share, return_inverse=True)[1]
        pays = _row_codes(row, n_rows, model.next, rank)
    else:
        pays = rank_rewards(place, model.row_reward)
    by_context = [
        codes.reshape(T, M, S * A).swapaxes(0, 1).reshape(M, T * S * A) for codes in (moves, pays)
    ]
    listed = model.listed_rows.reshape(T, M, S * A)[:, 0].reshape(-1)

    def at_any_step(found: np.ndarray) -> tuple[tuple[int, int], ...]:
        """The pairs `(state, action)` of some of the `T*S*A` places."""
        pairs = np.unique(np.flatnonzero(found) % (S * A))
        return tuple((int(i) // A, int(i) % A) for i in pairs)

    by_state = [
        np.unique(x, return_inverse=True)[1].reshape(M, S)
        for x in (model.nu, model.terminal_or_zeros)
    ]
    whole = np.hstack([*by_context, *by_state])
    alike: dict[bytes, list[int]] = {}
    for m in range(M):
        alike.setdefault(whole[m].tobytes(), []).append(m)
    low, high = (
        extreme_totals(
            model.sizes, model.rows, model.nu, model.horizon, model.discount, sign, model.terminal
        )
        for sign in (-1, 1)
    )
    terminal = model.terminal
    return Description(
        M=M,
        S=S,
        A=A,
        H=model.H,
        Gamma=model.Gamma,
        rows=int(model.listed_rows.sum()),
        outcomes=int(np.diff(model.indptr)[model.listed_rows].sum()),
        discount=model.discount,
        observe_rewards=model.observe_rewards,
        rewards_on_transitions=model.rewards_on_transitions,
        smallest_totals=tuple(float(x) for x in low),
        largest_totals=tuple(float(x) for x in high),
        transitions_differ=at_any_step((by_context[0] != by_context[0][0]).any(axis=0) & listed),
        rewards_differ=at_any_step((by_context[1] != by_context[1][0]).any(axis=0) & listed),
        first_states_differ=bool((model.nu != model.nu[0]).any()),
        alike=tuple(tuple(group) for group in alike.values()),
        names={
            "contexts": model.context_names,
            "states": model.state_names,
            "actions": model.action_names,
        },
        units=model.units_in_words,
        step_dependent=T > 1,
        terminal_rewards=None
        if terminal is None
        else (float(terminal.min()), float(terminal.max())),
        stochastic_rewards=model.stochastic_rewards,
        unavailable=at_any_step(~listed),
        readings=model.readings,
    )


def _row_codes(row: Ints, n_rows: int, nxt: Ints, value: np.ndarray) -> Ints:
    """`(n_rows,)` a 64-bit number for the set of `(next, value)` of each row; equal sets, equal."""
    x = np.unique(value, return_inverse=True)[1].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    x += (nxt.astype(np.uint64) + np.uint64(1)) * np.uint64(0xD1B54A32D192ED03)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # splitmix64
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    x ^= x >> np.uint64(31)
    order = np.argsort(row, kind="stable")
    starts = np.searchsorted(row[order], np.arange(n_rows))
    return np.add.reduceat(x[order], starts).view(np.int64)
