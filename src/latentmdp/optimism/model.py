"""`OptimisticModel`: what an optimistic planner needs, as data.

Counts become coefficients (`confidence.py`), coefficients become arrays in the rows' CSR layout,
and two kernels (`kernels/optimistic_backup.py`) read them. Nothing here knows which algorithm it
serves, and the true transition probabilities are never read.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from latentmdp.canonical import Floats, Ints, dense_symbols
from latentmdp.errors import ModelError
from latentmdp.model import LatentMDP
from latentmdp.optimism.confidence import Bonus, Evidence, Rule, Setting

if TYPE_CHECKING:
    from latentmdp.counts import Counts
    from latentmdp.kernels.outcomes import Candidates, Listed


@dataclass(frozen=True)
class Known:
    """What the learner knows beforehand: everything of the model but its transitions.

    Rewards sit on rows, `row_reward (rows,)`; where they depend on the next state they sit in
    `next_reward (rows, S)` instead and `row_reward` is 0. Symbols likewise.
    """

    M: int
    S: int
    A: int
    H: int
    w: Floats
    nu: Floats
    row_reward: Floats
    row_symbol: Ints
    next_reward: Floats | None
    next_symbol: Ints | None

    @classmethod
    def of(cls, model: LatentMDP) -> "Known":
        """Read `w, nu, R, H` from a model that satisfies the paper's conditions, else refuse."""
        check_learnable(model)
        rows = model.M * model.S * model.A
        w, nu = np.array(model.w), np.array(model.nu)
        sizes = (model.M, model.S, model.A, model.H)
        first = model.indptr[:-1]
        if not model.rewards_on_transitions:
            return cls(*sizes, w, nu, model.reward[first], model.symbol[first], None, None)
        reward, nothing = model.R.reshape(rows, model.S), np.zeros(rows, dtype=np.int64)
        symbol = np.zeros(reward.shape, dtype=np.int64)
        if model.observe_rewards:
            symbol = dense_symbols(model.sizes, model.rows)
        return cls(*sizes, w, nu, np.zeros(rows), nothing, reward, symbol)

    @property
    def root(self) -> Floats:
        """`(M, S)` joint probability of context and first state."""
        return self.w[:, None] * self.nu

    def rewards(self, row: Ints, next: Ints) -> Floats:
        """Rewards on transitions of these outcomes; 0 where rewards sit on rows."""
        return np.zeros(len(row)) if self.next_reward is None else self.next_reward[row, next]

    def symbols(self, row: Ints, next: Ints) -> Ints:
        """What the agent sees besides the next state."""
        return self.row_symbol[row] if self.next_symbol is None else self.next_symbol[row, next]


def check_learnable(model: LatentMDP) -> None:
    """The paper's conditions: rewards at least 0, totals at most 1, no discount."""
    cure = "normalized() (or --normalize) gives rewards and totals in [0, 1]"
    if model.discount != 1.0:
        raise ModelError(
            f"learning needs discount 1; it is {model.discount}; replace(discount=1.0) (or "
            f"--discount 1) gives that, and {cure}"
        )
    if model.reward.size and model.reward.min() < 0:
        raise ModelError(f"learning needs rewards >= 0; one is {model.reward.min():.6g}; {cure}")
    if model.max_return > 1.0 + 1e-9:
        raise ModelError(
            f"learning needs total rewards of at most 1; one is {model.max_return:.6g}; {cure}"
        )


@dataclass(frozen=True)
class OptimisticModel:
    """Fixed in shape, refreshed in place: rows with coefficients for one of the two kernels.

    `kind` is `"bonus"` or `"interval"`. A row lists the outcomes that its visits have shown, by
    next state; never-seen ones only where a kernel needs them (`_layout`). What is listed depends
    on visits alone, not on where the counts have room (`kernels/outcomes.py`).
    """

    kind: str
    cap: float
    known: Known
    candidates: "Candidates"
    listed: "Listed"
    coef: Floats  # (rows, 5) reward + c3, c1, c2, unseen, budget
    shared: bool  # contexts list what any of them has shown with the same reward

    @property
    def slot(self) -> Floats:
        """`(slots, 4)` p_hat, reward on transitions (else 0), lower, upper."""
        return self.listed.slot

    @property
    def p_hat(self) -> Floats:
        """Estimated probability of everything that is listed, in order."""
        return self.slot[self.listing()[1], 0]

    @property
    def next(self) -> Ints:
        """`(slots,)` next states."""
        return self.listed.next

    def slots(self, row: int) -> slice:
        """The slots of a row."""
        return slice(int(self.candidates.start[row]), int(self.listed.stop[row]))

    def listing(self) -> tuple[Ints, Ints]:
        """Row and slot of everything that is listed, in order."""
        start, stop = self.candidates.start[:-1], self.listed.stop
        row = np.repeat(np.arange(len(start)), stop - start)
        before = np.cumsum(stop - start) - (stop - start)
        return row, np.arange(len(row)) + (start - before)[row]

    @classmethod
    def of(
        cls,
        known: Known,
        counts: "Counts",
        rule: Rule,
        setting: Setting,
        rng: np.random.Generator | None = None,
        every_next: bool = False,
        shared: bool = False,
    ) -> "OptimisticModel":
        """Lay out and fill all rows. `O(slots)`.

        With `every_next` all next states are listed; with `shared` those that any context has shown
        with the same reward.
        """
        from latentmdp.kernels.outcomes import Listed

        rows = np.arange(counts.rows)
        candidates = _layout(known, counts, rule, every_next or rule.every_next, shared)
        size = len(candidates.next)
        nxt, observation, count_slot = np.zeros((3, size), dtype=np.int64)
        place, slot = candidates.start[:-1].copy(), np.zeros((size, 4))
        listed = Listed(place, nxt, observation, count_slot, slot)
        model = cls(
            rule.kind, rule.cap, known, candidates, listed, np.zeros((len(rows), 5)), shared
        )
        model.refresh(counts, rows, rule, setting, rng)
        return model

    def list_outcomes(self, counts: "Counts", rows: Ints) -> tuple[Ints, bool]:
        """List what these rows have shown by now.

        Returns the rows whose coefficients are to change, and whether any lists more than before.
        The former are the rows given, and with `shared` those of other contexts that list more.
        """
        from latentmdp.kernels.outcomes import list_outcomes

        given = rows
        if self.shared:
            pairs = self.known.S * self.known.A
            contexts = np.arange(self.known.M) * pairs
            rows = (contexts[:, None] + np.unique(rows % pairs)).ravel()
        longer = np.empty(len(rows), dtype=np.int64)
        grown = list_outcomes(rows, self.candidates, self.listed, counts.N_next, longer)
        changed = np.union1d(given, longer[:grown]) if self.shared and grown else given
        return changed, grown > 0

    def observe(self, counts: "Counts", observation: Ints) -> None:
        """Number the candidates `(slots,)` as a memory does that tells them apart."""
        self.candidates.observation[:] = observation
        self.list_outcomes(counts, np.arange(counts.rows))

    def moved_to(self, listed: "Listed", coef: Floats) -> "OptimisticModel":
        """The same model with its numbers in other arrays, which are filled."""
        for new, old in zip(listed, self.listed, strict=True):
            new[:] = old
        coef[:] = self.coef
        return replace(self, listed=listed, coef=coef)

    def refresh(
        self,
        counts: "Counts",
        rows: Ints,
        rule: Rule,
        setting: Setting,
        rng: np.random.Generator | None = None,
    ) -> None:
        """Recompute the coefficients of some rows from the counts' snapshot, in place.

        `O(slots of these rows)`. The counts' layout must be the one the model was made for.
        """
        from latentmdp.kernels.evidence import collect

        rows, _ = self.list_outcomes(counts, rows)
        start, stop = self.candidates.start, self.listed.stop
        length = int((stop[rows] - start[rows]).sum())
        local, at, N_next = (np.empty(length, dtype=np.int64) for _ in range(3))
        N, support = (np.empty(len(rows), dtype=np.int64) for _ in range(2))
        p_hat = np.empty(length)
        collect(
            rows, start, stop, self.listed.count_slot, counts.N, counts.N_next, local, at, N_next,
            p_hat, N, support,
        )  # fmt: skip
        evidence = Evidence(N, support, local, N_next, p_hat)
        answer = rule.compute(evidence, setting, rng or _FIXED)
        self.slot[at, 0] = p_hat
        new = (N == 0) & (not rule.own_unvisited)
        if isinstance(answer, Bonus):
            if answer.p is not None:
                self.slot[at, 0] = answer.p
            self.coef[rows, 0] = self.known.row_reward[rows] + np.where(new, 0.0, answer.c3)
            self.coef[rows, 1] = np.where(new, 0.0, answer.c1)
            self.coef[rows, 2] = np.where(new, np.inf, answer.c2)  # unvisited: worth the cap
            return
        unseen = np.where(new, 1.0, answer.unseen)  # unvisited: the whole simplex
        self.coef[rows, 0] = self.known.row_reward[rows]
        self.coef[rows, 3] = unseen
        self.coef[rows, 4] = np.where(new, 1.0, answer.budget)
        never = N_next == 0  # a slot without visits is a never-seen next state
        self.slot[at, 2] = np.where(never, 0.0, answer.lower)
        self.slot[at, 3] = np.where(never, unseen[local], answer.upper)


_FIXED = np.random.default_rng(0)  # for rules that draw nothing


def _layout(
    known: Known, counts: "Counts", rule: Rule, every_next: bool, shared: bool
) -> "Candidates":
    """Candidates: what the counts have a slot for, and what is listed before any visit.

    The latter are all next states with `every_next`, and those that pay something by themselves
    where rewards sit on transitions: `min(r + v, 1)` is out of the order of default nodes.
    """
    from latentmdp.kernels.outcomes import Candidates

    rows, S, pairs = counts.rows, counts.S, counts.S * counts.A
    recorded = counts.slot_row * S + counts.next
    always = np.zeros(0, dtype=np.int64)
    if every_next:
        always = np.arange(rows * S)
    elif rule.kind == "interval" and known.next_reward is not None:
        always = np.flatnonzero(known.next_reward != 0.0)
    codes = np.union1d(recorded, always)
    if shared:
        contexts = np.arange(known.M) * (pairs * S)
        codes = (contexts[:, None] + np.unique(codes % (pairs * S))).ravel()
    row, nxt = codes // S, codes % S
    order = np.argsort(recorded)
    place = np.searchsorted(recorded[order], codes)
    place = order[np.minimum(place, len(order) - 1)] if len(order) else np.full(len(codes), -1)
    count_slot = np.where(recorded[place] == codes, place, -1) if len(order) else place
    group = np.arange(len(codes))
    if shared:
        seen = ((row % pairs) * known.M + known.symbols(row, nxt)) * S + nxt
        group = np.unique(seen, return_inverse=True)[1]
    shown = np.zeros(len(codes), dtype=np.int64)
    shown[group[np.searchsorted(codes, always)]] = 1
    start = np.searchsorted(row, np.arange(rows + 1))
    return Candidates(
        start, nxt, count_slot, known.rewards(row, nxt), group, shown, np.zeros_like(nxt)
    )
