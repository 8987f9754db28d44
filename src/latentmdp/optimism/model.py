"""`OptimisticModel`: what an optimistic planner needs, as data.

Counts become coefficients (`confidence.py`), coefficients become arrays in the rows' CSR layout,
and two kernels (`kernels/optimistic_backup.py`) read them. Nothing here knows which algorithm it
serves, and the true transition probabilities are never read.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from latentmdp.canonical import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.model import LatentMDP
from latentmdp.optimism.confidence import Bonus, Evidence, Rule, Setting

if TYPE_CHECKING:
    from latentmdp.learning.counts import Counts


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
        reward, symbol = np.zeros((rows, model.S)), np.zeros((rows, model.S), dtype=np.int64)
        where = (np.repeat(np.arange(rows), np.diff(model.indptr)), model.next)
        reward[where], symbol[where] = model.reward, model.symbol
        nothing = np.zeros(rows, dtype=np.int64)
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
    """Fixed in shape, refreshed in place: CSR rows with coefficients for one of the two kernels.

    `kind` is `"bonus"` or `"interval"`. Slots of a row are its observed outcomes (`p_hat > 0`),
    possibly with never-seen ones (`p_hat = 0`, the same as having no slot), in the counts' order;
    for intervals with rewards on transitions also every never-seen outcome whose reward is not 0.
    """

    kind: str
    cap: float
    known: Known
    indptr: Ints  # (rows + 1,)
    next: Ints  # (slots,)
    symbol: Ints  # (slots,)
    count_slot: Ints  # (slots,) slot of the counts, -1 for an outcome they have no slot for
    slot: Floats  # (slots, 4) p_hat, reward on transitions (else 0), lower, upper
    coef: Floats  # (rows, 5) reward + c3, c1, c2, unseen, budget

    @property
    def p_hat(self) -> Floats:
        """Estimated probability of each slot."""
        return self.slot[:, 0]

    @classmethod
    def of(
        cls,
        known: Known,
        counts: "Counts",
        rule: Rule,
        setting: Setting,
        rng: np.random.Generator | None = None,
        every_next: bool = False,
    ) -> "OptimisticModel":
        """Lay out and fill all rows; with `every_next`, a slot for each next state. `O(slots)`."""
        rows = counts.rows
        indptr, row, nxt, count_slot = _layout(known, counts, rule, every_next or rule.every_next)
        slot, coef = np.zeros((len(nxt), 4)), np.zeros((rows, 5))
        slot[:, 1] = known.rewards(row, nxt)
        symbol = known.symbols(row, nxt)
        model = cls(rule.kind, rule.cap, known, indptr, nxt, symbol, count_slot, slot, coef)
        model.refresh(counts, np.arange(rows), rule, setting, rng)
        return model

    def moved_to(self, slot: Floats, coef: Floats) -> "OptimisticModel":
        """The same model with its numbers in other (flat) arrays, which are filled."""
        slot, coef = slot.reshape(self.slot.shape), coef.reshape(self.coef.shape)
        slot[:], coef[:] = self.slot, self.coef
        return replace(self, slot=slot, coef=coef)

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

        length = int((self.indptr[rows + 1] - self.indptr[rows]).sum())
        local, at, N_next = (np.empty(length, dtype=np.int64) for _ in range(3))
        N, support = (np.empty(len(rows), dtype=np.int64) for _ in range(2))
        p_hat = np.empty(length)
        collect(
            rows, self.indptr, self.count_slot, counts.N, counts.N_next, local, at, N_next, p_hat,
            N, support,
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
    known: Known, counts: "Counts", rule: Rule, every_next: bool
) -> tuple[Ints, Ints, Ints, Ints]:
    """`indptr`, and per slot its row, next state and slot in the counts."""
    row, nxt, source = counts.slot_row, counts.next.copy(), np.arange(len(counts.next))
    if every_next:
        wanted = np.ones((counts.rows, counts.S), dtype=bool)
    elif rule.kind == "interval" and known.next_reward is not None:
        wanted = known.next_reward != 0.0  # min(r + v, 1) is out of the default order
    else:
        return counts.indptr.copy(), row, nxt, source
    wanted[row, nxt] = False
    more_row, more_next = np.nonzero(wanted)
    row, nxt = np.concatenate([row, more_row]), np.concatenate([nxt, more_next])
    source = np.concatenate([source, np.full(len(more_row), -1)])
    order = np.argsort(row, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=counts.rows))])
    return indptr.astype(np.int64), row[order], nxt[order], source[order]
