"""Optimistic planning in the Markov class: the best table `(H, S)` for an optimistic model.

`MarkovSearch` holds one optimistic model and the current best policy for it; the model is refreshed
for changed rows only, its bound for their contexts only, and each search starts from the current
policy.
"""

import math
import time

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.kernels.optimism.improve import evaluate_policy, improve
from latentmdp.kernels.optimism.refresh import GIVEN, refresh_rows
from latentmdp.kernels.structs import Nodes, pack_search
from latentmdp.model.counts import Counts
from latentmdp.optimism.confidence import BonusConstants, Rule
from latentmdp.optimism.given import Given
from latentmdp.optimism.model import ConfidenceModel
from latentmdp.optimism.nodes import make_nodes, make_search
from latentmdp.optimism.perturb import Backoff, Perturbations, draw_perturbations
from latentmdp.optimism.settings import SEARCH, Effort, SearchEffort


class MarkovSearch:
    """An optimistic model with the current best policy. `O(H M S A)` memory."""

    def __init__(
        self,
        known: Given,
        rule: Rule,
        constants: BonusConstants,
        counts: Counts,
        rng: np.random.Generator | None = None,
        settings: SearchEffort = SEARCH,
    ) -> None:
        self.known, self.rule, self.constants, self.rng = known, rule, constants, rng
        self.settings, self.perturbing = settings, Backoff()
        self._root = known.root
        self.lay_out(counts, np.zeros((known.H, known.S), dtype=np.int64))

    def lay_out(self, counts: Counts, table: Ints) -> None:
        """A model for the counts' layout, with all rows filled."""
        model = ConfidenceModel.of(self.known, counts, self.rule, self.constants, self.rng)
        self.begin(model, counts, table)

    def begin(self, model: ConfidenceModel, counts: Counts, table: Ints) -> None:
        """Plan with this model, laid out for these counts, from this table."""
        self.version, self.model, self.counts = counts.version, model, counts
        self.place(make_nodes(self.known, model.observations))
        self.set_table(table)

    def place(self, nodes: Nodes) -> None:
        """Plan on this graph; the policy is to be set, the bound is computed."""
        known = self.known
        self.nodes, self.N = nodes, len(nodes.state)
        self.default = nodes.span[: known.H, None].astype(np.int64) + np.arange(known.S)
        self.arrays = make_search(known, self.model.candidates, self.model.rows, nodes)
        self.search = pack_search(self.arrays)
        self.policy = np.zeros(self.N, dtype=np.int64)
        self._other = np.zeros(self.N, dtype=np.int64)  # a policy on trial
        self.bound(np.arange(len(self.model.rows.gain)))

    @property
    def table(self) -> Ints:
        """Actions `(H, S)` of the default nodes."""
        return self.policy[self.default]

    def set_table(self, table: Ints) -> None:
        """Let the default nodes act so."""
        self.policy[self.default] = table

    # ---------------------------------------------------------------- the model

    def update(self, counts: Counts, changed: Ints) -> None:
        """Coefficients and bound for new counts, of which only the rows `changed` differ."""
        if self.version != counts.version:
            self.lay_out(counts, self.table)
            return
        self.counts = counts
        if self.rule.code != GIVEN and not self.model.shared:
            self.bound(changed, self.rule.code)  # lists and refreshes the rows as well
            return
        changed, longer = self.model.list_outcomes(counts, changed)
        if longer:
            self.rows_are_longer()
        if self.rule.random:
            changed = np.arange(counts.rows)
        if self.rule.code == GIVEN:
            self.model.refresh(counts, changed, self.rule, self.constants, self.rng)
        self.bound(changed, self.rule.code)

    def rows_are_longer(self) -> None:
        """Some row lists more outcomes than before: nothing to do without memory."""

    def bound(self, changed: Ints, code: int = GIVEN) -> None:
        """`upper`, a certified bound on the class's optimum; rows are refreshed by the code."""
        counts, constants = self.counts, self.constants
        self.upper, longer = refresh_rows(
            self.search, changed, code, counts.N, counts.N_next,
            self.known.row_reward, constants.iota, constants.scale,
        )  # fmt: skip
        if longer:
            self.rows_are_longer()

    # ---------------------------------------------------------------- policies

    def evaluate(self, policy: Ints) -> float:
        """Exact value of a policy `(N,)`; the next call with it computes outdated contexts only."""
        self._other[:] = policy
        return evaluate_policy(self.search, self._other)

    def forget_values(self) -> None:
        """The values that the search holds are those of another policy now."""
        self.arrays.valued[:] = -1

    def improve(
        self, effort: Effort, rng: np.random.Generator, deadline: float = math.inf
    ) -> float:
        """Sweeps, then perturbations; on large models fewer, the longer these have failed.

        After the `deadline` (by `time.perf_counter`) there are no more of them.
        """
        value = self.polish(effort)
        if value >= self.upper - self.settings.equal:
            return value
        self.perturbing.turn()
        if not self.perturbing.due and not effort.every:
            return value
        known = self.known
        found = draw_perturbations(rng, effort, self.settings, known.M, known.A, self.N)
        better = self.perturb(value, effort, found, deadline)
        worth = max(self.settings.equal, self.settings.perturb_gain * (self.upper - value))
        self.perturbing.tried(better > value + worth, effort.rest, least=1)
        return better

    def polish(self, effort: Effort) -> float:
        """Improve the current policy as far as the effort goes; its value."""
        return self._improved(self.policy, effort)

    def perturb(
        self, value: float, effort: Effort, found: Perturbations, deadline: float = math.inf
    ) -> float:
        """Try these perturbations of a polished policy of this value; kept is what is better."""
        other, closed = self._other, self.settings.closed
        for weights, through_cap in zip(found.weights, found.through_cap, strict=True):
            if value >= self.upper - closed or time.perf_counter() >= deadline:
                return value
            other[:] = self.policy
            perturbed = (self._root * weights[:, None], float(through_cap))
            value = self._better(value, self._improved(other, effort, perturbed))
        for actions in found.actions:
            if value >= self.upper - closed or time.perf_counter() >= deadline:
                return value
            other[:] = np.where(actions >= 0, actions, self.policy)
            value = self._better(value, self._improved(other, effort))
        return value

    def _improved(
        self, policy: Ints, effort: Effort, perturbed: tuple[Floats, float] | None = None
    ) -> float:
        """Improve a policy in place, first by these other weights if there are any; its value."""
        root, through_cap = (self._root, 0.0) if perturbed is None else perturbed
        return improve(
            self.search, policy, perturbed is not None, root, through_cap,
            self.upper - self.settings.closed, effort.sweeps, effort.passes, effort.every,
            effort.gain, self.settings.gap_share,
        )  # fmt: skip

    def _better(self, value: float, new: float) -> float:
        """The perturbed policy becomes the current one if it is better; the current one's value."""
        if new <= value + self.settings.closed:
            return value
        self.policy[:] = self._other
        return new
