"""`ConfidenceModel`: what an optimistic planner needs, as data.

Counts become coefficients (`confidence.py`), coefficients become arrays in the rows' layout, and
two kernels (`kernels/optimism/bonus.py`, `interval.py`) read them. Nothing here knows
which algorithm it serves, and the true transition probabilities are never read.
"""

from dataclasses import dataclass

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.kernels.optimism.evidence import collect
from latentmdp.kernels.optimism.outcomes import list_outcomes
from latentmdp.kernels.structs import BonusRows, BoxRows, Candidates, ConfidenceRows
from latentmdp.model.counts import Counts
from latentmdp.optimism.confidence import Bonus, BonusConstants, Evidence, Rule
from latentmdp.optimism.given import Given
from latentmdp.optimism.memory.observations import Observations, outcome_codes
from latentmdp.optimism.substitutes import repeat_slots


@dataclass(frozen=True)
class ConfidenceModel:
    """Fixed in shape, refreshed in place: rows with coefficients for one of the two kernels.

    A row lists the outcomes that its visits have shown, by next state; never-seen ones only where a
    kernel needs them (`_layout`). What is listed depends on visits alone, not on where the counts
    have room (`kernels/optimism/outcomes.py`).
    """

    known: Given
    candidates: Candidates  # what rows may list
    rows: ConfidenceRows  # what they list, with coefficients
    observations: Observations  # what the candidates show
    shared: bool  # contexts list what any of them has shown with the same reward

    @property
    def cap(self) -> float:
        """Values are clipped here."""
        return self.rows.cap

    def slots(self, row: int) -> slice:
        """The slots of a row."""
        return slice(int(self.rows.start[row]), int(self.rows.stop[row]))

    def listing(self) -> tuple[Ints, Ints]:
        """Row and slot of everything that is listed, in order."""
        start, stop = (x.astype(np.int64) for x in (self.rows.start[:-1], self.rows.stop))
        row = np.repeat(np.arange(len(start)), stop - start)
        before = np.cumsum(stop - start) - (stop - start)
        return row, np.arange(len(row)) + (start - before)[row]

    def shown(self) -> Observations:
        """What is listed by some context."""
        row, slot = self.listing()
        return Observations.of(self.known, row, self.rows.next[slot].astype(np.int64))

    @classmethod
    def of(
        cls,
        known: Given,
        counts: Counts,
        rule: Rule,
        constants: BonusConstants,
        rng: np.random.Generator | None = None,
        every_next: bool = False,
        shared: bool = False,
    ) -> "ConfidenceModel":
        """Lay out and fill all rows. `O(slots)`.

        With `every_next` all next states are listed; with `shared` those that any context has shown
        with the same reward.
        """
        candidates, observations = _layout(
            known, counts, rule, every_next or rule.every_next, shared
        )
        model = cls(known, candidates, _empty_rows(rule, candidates), observations, shared)
        model.refresh(counts, np.arange(counts.rows), rule, constants, rng)
        return model

    def list_outcomes(self, counts: Counts, rows: Ints) -> tuple[Ints, bool]:
        """List what these rows have shown by now.

        Returns the rows whose coefficients are to change, and whether any lists more than before.
        The former are the rows given, and with `shared` those of other contexts that list more.
        """
        given = rows
        if self.shared:
            pairs = self.known.S * self.known.A
            contexts = np.arange(self.known.M) * pairs
            rows = (contexts[:, None] + np.unique(rows % pairs)).ravel()
        longer = np.empty(len(rows), dtype=np.int64)
        grown = list_outcomes(rows, self.candidates, self.rows, counts.N_next, longer)
        changed = np.union1d(given, longer[:grown]) if self.shared and grown else given
        return changed, grown > 0

    def refresh(
        self,
        counts: Counts,
        changed: Ints,
        rule: Rule,
        constants: BonusConstants,
        rng: np.random.Generator | None = None,
    ) -> None:
        """Recompute the coefficients of some rows from the counts' snapshot, in place.

        `O(slots of these rows)`. The counts' layout must be the one the model was made for.
        """
        changed, _ = self.list_outcomes(counts, changed)
        rows = self.rows
        length = int((rows.stop[changed] - rows.start[changed]).sum())
        local, at, N_next = (np.empty(length, dtype=np.int64) for _ in range(3))
        N, support = (np.empty(len(changed), dtype=np.int64) for _ in range(2))
        p_hat = np.empty(length)
        collect(
            changed, rows.start, rows.stop, rows.count_slot, counts.N, counts.N_next, local, at,
            N_next, p_hat, N, support,
        )  # fmt: skip
        nxt = rows.next[at].astype(np.int64)
        evidence = Evidence(N, support, local, N_next, p_hat, changed, nxt)
        answer = rule.compute(evidence, constants, rng or _FIXED)
        rows.p_hat[at] = p_hat
        new = (N == 0) & (not rule.own_unvisited)
        rows.gain[changed] = self.known.row_reward[changed]
        if isinstance(answer, Bonus):
            if answer.p is not None:
                rows.p_hat[at] = answer.p
                if self.known.allowed is not None:  # a draw of an unavailable action is another's
                    rows.p_hat[:] = rows.p_hat[repeat_slots(self.known, rows.start)]
            rows.gain[changed] += np.where(new, 0.0, answer.c3)
            rows.c1[changed] = np.where(new, 0.0, answer.c1)
            rows.c2[changed] = np.where(new, np.inf, answer.c2)  # unvisited: worth the cap
            return
        unseen = np.where(new, 1.0, answer.unseen)  # unvisited: the whole simplex
        rows.unseen[changed] = unseen
        rows.budget[changed] = np.where(new, 1.0, answer.budget)
        # a slot without visits is a never-seen next state
        never = (N_next == 0) & (not rule.own_unvisited)
        rows.lower[at] = np.where(never, 0.0, answer.lower)
        rows.upper[at] = np.where(never, unseen[local], answer.upper)


_FIXED = np.random.default_rng(0)  # for rules that draw nothing


def _empty_rows(rule: Rule, candidates: Candidates) -> ConfidenceRows:
    """Room for all candidates; nothing is listed yet."""
    slots, rows = len(candidates.next), len(candidates.start) - 1
    start = candidates.start.astype(np.uint32)
    next_state, observation = np.zeros((2, slots), dtype=np.uint32)
    p_hat, reward, lower, upper = np.zeros((4, slots))
    kind = BoxRows if rule.kind == "interval" else BonusRows
    return kind(
        rule.cap, rule.direction, start, start[:-1].copy(), next_state, observation,
        np.zeros(slots, dtype=np.int64), p_hat, reward, lower, upper, *np.zeros((5, rows)),
    )  # fmt: skip


def _layout(
    known: Given, counts: Counts, rule: Rule, every_next: bool, shared: bool
) -> tuple[Candidates, Observations]:
    """Candidates: what the counts have a slot for, and what is listed before any visit.

    The latter are all next states with `every_next`, the last one with `last_next`, and those that
    pay something by themselves where rewards sit on transitions: `min(r + v, 1)` is out of the
    order of default nodes.
    """
    rows, S, pairs = counts.rows, counts.S, counts.S * counts.A
    recorded = counts.slot_row * S + counts.next
    always = np.zeros(0, dtype=np.int64)
    if every_next:
        always = np.arange(rows * S)
    elif rule.last_next:
        always = np.arange(rows) * S + S - 1
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
        group = np.unique(outcome_codes(known, row, nxt), return_inverse=True)[1]
    shown = np.zeros(len(codes), dtype=np.bool_)
    shown[group[np.searchsorted(codes, always)]] = True
    start = np.searchsorted(row, np.arange(rows + 1))
    observations = Observations.of(known, row, nxt)
    rewards: Floats = known.rewards(row, nxt)
    number = observations.number(row, nxt)
    return Candidates(start, nxt, count_slot, rewards, group, shown, number), observations
