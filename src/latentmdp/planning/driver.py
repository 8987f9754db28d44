"""Search until the gap is closed, write the policy, evaluate it, go on if it is not good enough.

One driver for all searches over beliefs, with a last step or without. While a search runs, time is
kept back for its end: policies are written on the way to measure how long that takes.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from latentmdp.evaluation.discounted import discounted_values
from latentmdp.evaluation.evaluate import evaluate
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.planning.budget import Budget
from latentmdp.planning.history.search import Allowed, Search
from latentmdp.planning.search_result import BoundsLog
from latentmdp.planning.settings import PlanningSettings
from latentmdp.policy.graph import PolicyGraph


class Written(NamedTuple):
    """A policy that was written, its nodes or nodes and edges, and what it was cut for, if so."""

    policy: PolicyGraph | None  # None: there was no room, and there is an earlier one
    size: int
    shortage: str = ""  # `time` or `memory`


class TimeReserve:
    """Seconds that the end of a plan takes, kept back while the search runs.

    The end: write the policy, evaluate it, and what takes `after(seconds for this, size)` more. The
    policy should have `share * grows_with()` nodes or edges, for `unit_seconds` each.
    """

    def __init__(
        self,
        budget: Budget,
        settings: PlanningSettings,
        grows_with: Callable[[], int],
        unit_seconds: float,
        share: float = 0.0,
        small: int = 0,
        after: Callable[[float, float], float] = lambda once, size: 0.0,
    ) -> None:
        self.budget, self.settings, self.after = budget, settings, after
        self.grows_with, self.unit_seconds, self.share = grows_with, unit_seconds, share
        self.small = small  # size of a policy that takes no time
        self.measured = 0  # `grows_with()` when a policy was last written
        self.last, self.ended, self.work = 0.0, 0.0, 0  # seconds for this, and time and work then
        self.longest_round = 0.0  # of the search, between two looks at the clock
        self.for_baselines = 0.0  # seconds for `safeguard.py`

    def keep_for_baselines(self) -> None:
        """So far each context was solved: baselines take many times as long."""
        s, limit = self.settings, self.budget.time_limit
        if limit is not None:
            seconds = s.baseline_seconds + s.baseline_factor * self.budget.seconds
            self.for_baselines = min(seconds, s.baseline_share * limit)

    def needed(self, factor: float = 1.0) -> float:
        """Seconds of the whole end, that of a policy times `factor`."""
        size = self.share * self.grows_with()
        once = self.unit_seconds * size
        seconds = self.settings.reserve_factor * once + self.after(once, size)
        return self.longest_round + factor * seconds + self.for_baselines

    def reason(self) -> str:
        """Why the search must stop, if it must: `Budget.reason` with time kept back."""
        if self.budget.time_limit is not None:
            most = self.settings.most_kept_back[self.measured > 0] * self.budget.time_limit
            self.budget.kept_back = min(self.needed(), most)
        return self.budget.reason()

    def has_more(self) -> bool:
        """Whether a search that stopped has time to go on: the end was shorter than expected."""
        return self.budget.has_left(self.needed(self.settings.go_on_factor))

    def is_due(self) -> bool:
        """Whether to write a policy now, to measure it."""
        s, budget, passed = self.settings, self.budget, self.budget.seconds
        if budget.time_limit is None or passed < s.first_measured * budget.time_limit:
            return False
        if not self.measured:
            return self.unit_seconds * self.share * self.grows_with() <= s.measuring_share * passed
        rested = passed - self.ended >= self.last / s.measuring_share
        return rested and budget.work >= s.measured_growth * self.work

    def measure(self, seconds: float, written: Written) -> None:
        """A policy took so long to write and evaluate."""
        self.last, self.ended, self.work = seconds, self.budget.seconds, self.budget.work
        self.measured = max(self.grows_with(), 1)
        share = written.size / self.measured
        self.share = max(self.share, share) if written.shortage else share
        unit = seconds / max(written.size, self.small, 1)
        self.unit_seconds = max(unit, self.settings.least_unit_seconds)


class Driver:
    """Runs a search; `policy` is the best one written so far, worth `lower`."""

    def __init__(
        self,
        model: LatentMDP,
        search: Search,
        write: Callable[[float], Written],
        allowed: Allowed,
        reserve: TimeReserve,
        memory: int,
        log: BoundsLog,
    ) -> None:
        self.model, self.search, self.write, self.log = model, search, write, log
        self.allowed, self.reserve, self.memory = allowed, reserve, memory
        self.budget, self.settings = reserve.budget, reserve.settings
        self.policy: PolicyGraph | None = None
        self.lower, self.shortage = -np.inf, ""
        self.state: tuple[float, ...] = ()  # of the search when its policy was last written
        self.large = np.inf  # a search of more bytes has its policy written

    def run(self, ceiling: float = np.inf) -> tuple[str, float]:
        """How it ended, and the upper bound, which is at most `ceiling`."""
        target, shrink = self.allowed, 0.9
        while True:
            status = self._advance(target)
            self._write()
            low, high = self.search.bounds
            high = min(high, ceiling)
            upper = max(high, self.lower)
            closed = self.is_closed(upper)
            if status == "time" and not closed and self.reserve.has_more():
                continue
            if status == "closed" and self.shortage:
                status = self.shortage
            if status != "closed" or closed:
                break
            if high <= low:
                status = "stalled"  # what is open is rounding error
                break
            # cutting the policy where it is hardly ever needed cost too much: aim at a smaller gap
            target, shrink = Allowed(0.0, shrink * min(target.gap(high), high - low)), 0.5
        return status, upper

    def is_closed(self, upper: float) -> bool:
        """Whether the policy is good enough."""
        return upper - self.lower <= self.allowed.gap(upper) + self.allowed.absolute

    def final_status(self, status: str, upper: float) -> str:
        """The status of the plan, for the policy that is handed out."""
        if upper - self.lower <= 10 * self.allowed.absolute:
            return "optimal"
        if status == "closed":
            return "gap" if self.is_closed(upper) else "stalled"
        return status

    def _advance(self, target: Allowed) -> str:
        """Let the search work until it is done or a limit is reached; says which."""
        search, budget, reserve = self.search, self.budget, self.reserve
        while True:
            budget.work = search.work
            low, high = search.bounds
            self.log(low, high)
            if high - low <= target.gap(high):
                return "closed"
            if search.bytes > self.large:  # while there is memory for it
                self._write()
                self.large = 2 * search.bytes
            if reserve.is_due() and not reserve.reason():
                self._write()
            if reason := reserve.reason():
                return reason
            quantum = max(self.settings.least_quantum, search.work // 200)
            if budget.work_limit is not None:
                quantum = min(quantum, budget.work_limit - search.work)
            began, work = budget.seconds, search.work
            outcome = search.advance(quantum, target, budget, self.memory)
            if search.work <= work + 2 * quantum:  # building a grid looks at the clock itself
                reserve.longest_round = max(reserve.longest_round, budget.seconds - began)
            if outcome in ("memory", "stalled"):
                budget.work = search.work
                return reserve.reason() or outcome

    def _write(self) -> None:
        """Write and evaluate the search's policy, to keep it if it is the best so far.

        One that was not cut replaces even a better one: which policies were written before it
        depends on the clock, and equal work must give equal plans.
        """
        (low, high), began = self.search.bounds, self.budget.seconds
        state = self.search.work, low, high
        if state == self.state and not self.shortage:
            return  # it was just written to be measured
        self.state = state
        spare = self.allowed.gap(high) - (high - low)
        written = self.write(max(0.5 * spare, 0.01 * (high - low)))
        self.shortage = written.shortage
        if written.policy is not None:
            value = value_of(self.model, written.policy)
            if value > self.lower or not written.shortage:
                self.policy, self.lower = written.policy, value
        self.reserve.measure(self.budget.seconds - began, written)


def value_of(model: LatentMDP, policy: PolicyGraph) -> float:
    """The exact value, as `evaluate` has it."""
    if not policy.stationary:
        return evaluate(model, policy).value
    alpha, _ = discounted_values(model, policy, variances=False)
    contexts = (model.nu * alpha[policy.root].T).sum(axis=1)
    return float(model.w @ contexts)
