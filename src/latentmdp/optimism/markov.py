"""Optimistic planning in the Markov class: the best table `(H, S)` for an optimistic model.

`MarkovSearch` holds one optimistic model and the current best policy for it; the model is refreshed
for changed rows only, its bound for their contexts only, and each search starts from the current
policy.
"""

import numpy as np

from latentmdp.canonical import Ints
from latentmdp.counts import Counts
from latentmdp.kernels.optimistic_refresh import GIVEN, refresh_rows
from latentmdp.kernels.optimistic_sweep import evaluate_policy, improve, polish, polish_kicked
from latentmdp.kernels.structs import Nodes, pack_search
from latentmdp.optimism.confidence import Rule, Setting
from latentmdp.optimism.kicks import Backoff, Kicks, draw_kicks
from latentmdp.optimism.known import Known
from latentmdp.optimism.model import OptimisticModel
from latentmdp.optimism.nodes import make_nodes, make_search
from latentmdp.optimism.settings import SEARCH, Effort, SearchSettings


class MarkovSearch:
    """An optimistic model with the current best policy. `O(H M S A)` memory."""

    def __init__(
        self,
        known: Known,
        rule: Rule,
        setting: Setting,
        counts: Counts,
        rng: np.random.Generator | None = None,
        settings: SearchSettings = SEARCH,
    ) -> None:
        self.known, self.rule, self.setting, self.rng = known, rule, setting, rng
        self.settings, self.kicking = settings, Backoff()
        self._root = known.root
        self.lay_out(counts, np.zeros((known.H, known.S), dtype=np.int64))

    def lay_out(self, counts: Counts, table: Ints) -> None:
        """A model for the counts' layout, with all rows filled."""
        model = OptimisticModel.of(self.known, counts, self.rule, self.setting, self.rng)
        self.begin(model, counts, table)

    def begin(self, model: OptimisticModel, counts: Counts, table: Ints) -> None:
        """Plan with this model, laid out for these counts, from this table."""
        self.version, self.model, self.counts = counts.version, model, counts
        self.place(make_nodes(self.known, model.observations))
        self.set_table(table)

    def place(self, nodes: Nodes) -> None:
        """Plan on this graph; the policy is to be set, the bound is computed."""
        known = self.known
        self.nodes, self.N = nodes, len(nodes.state)
        self.default = nodes.span[: known.H, None].astype(np.int64) + np.arange(known.S)
        self.arrays = make_search(known, self.model.rows, nodes)
        self.search = pack_search(self.arrays)
        self.policy = np.zeros(self.N, dtype=np.int64)
        self._other = np.zeros(self.N, dtype=np.int64)  # a policy on trial
        self._valued = np.full(self.N, -1)  # the policy whose values the search holds
        self._stale = np.ones(known.M, dtype=np.bool_)  # contexts in which they are outdated
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
        changed = self.list_outcomes(changed)
        if self.rule.code > 0:
            self.bound(changed, self.rule.code)
            return
        if self.rule.random:
            changed = np.arange(counts.rows)
        self.model.refresh(counts, changed, self.rule, self.setting, self.rng)
        self.bound(changed)

    def list_outcomes(self, changed: Ints) -> Ints:
        """Rows list what they have shown by now; returns the rows to refresh."""
        return self.model.list_outcomes(self.counts, changed)[0]

    def bound(self, changed: Ints, code: int = GIVEN) -> None:
        """`upper`, a certified bound on the class's optimum; rows are refreshed by the code."""
        counts, setting = self.counts, self.setting
        self._stale[changed // (self.known.S * self.known.A)] = True
        self.upper = refresh_rows(
            self.search, changed, code, counts.N, counts.N_next, self.known.row_reward,
            setting.iota, setting.scale,
        )  # fmt: skip

    # ---------------------------------------------------------------- policies

    def evaluate(self, policy: Ints) -> float:
        """Exact value of a policy `(N,)`; the next call with it computes outdated contexts only."""
        self._other[:] = policy
        return evaluate_policy(self.search, self._other, self._valued, self._stale)

    def forget_values(self) -> None:
        """The values that the search holds are those of another policy now."""
        self._valued[:] = -1

    def improve(self, effort: Effort, rng: np.random.Generator) -> float:
        """Sweeps, then kicks; on large models the longer kicks have failed the fewer."""
        value = self.polish(effort)
        if value >= self.upper - self.settings.equal:
            return value
        self.kicking.turn()
        if not self.kicking.due and not effort.every:
            return value
        known = self.known
        kicks = draw_kicks(rng, effort, self.settings, known.M, known.A, self.N)
        better = self.kick(value, effort, kicks)
        worth = max(self.settings.equal, self.settings.kick_gain * (self.upper - value))
        self.kicking.tried(better > value + worth, effort.rest, least=1)
        return better

    def polish(self, effort: Effort) -> float:
        """Improve the current policy as far as the effort goes; its value."""
        self.evaluate(self.policy)
        value = improve(self.search, self.policy, *self._how(effort))
        self._valued[:] = self.policy
        return value

    def kick(self, value: float, effort: Effort, kicks: Kicks) -> float:
        """Try these kicks on a polished policy of this value; kept is what is better."""
        other, closed = self._other, self.settings.closed
        self.forget_values()
        for tilt, through_cap in zip(kicks.tilt, kicks.through_cap, strict=True):
            if value >= self.upper - closed:
                return value
            other[:] = self.policy
            weights = self._root * tilt[:, None]
            how = self._how(effort)
            kicked = polish_kicked(self.search, other, weights, float(through_cap), *how)
            value = self._better(value, kicked)
        for jolt in kicks.jolt:
            if value >= self.upper - closed:
                return value
            other[:] = np.where(jolt >= 0, jolt, self.policy)
            value = self._better(value, polish(self.search, other, *self._how(effort)))
        return value

    def _how(self, effort: Effort) -> tuple[float, int, int, bool, float, float]:
        """Where to stop, for the kernels."""
        goal, share = self.upper - self.settings.closed, self.settings.gap_share
        return goal, effort.sweeps, effort.passes, effort.every, effort.gain, share

    def _better(self, value: float, kicked: float) -> float:
        """The kicked policy becomes the current one if it is better; the current one's value."""
        if kicked <= value + self.settings.closed:
            return value
        self.policy[:] = self._other
        return kicked
