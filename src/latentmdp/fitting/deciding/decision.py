"""From a fit to a decision: policies with and without memory, side by side with what the log did.

All values come from the same draws of the posterior, so differences have intervals of their own,
which are shorter than those of the values. What is compared with the log allows anything where
nobody has been (`unseen.py`); two policies, and knowing the context, are compared as assumed there.
Where episodes were held out of the fit, they judge: all values are theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from latentmdp.csr import Floats
from latentmdp.fitting.deciding import safe
from latentmdp.fitting.deciding.log_value import Interval
from latentmdp.fitting.deciding.objectives import FitPlan, beside_the_log, parse_objective, plan_fit
from latentmdp.fitting.estimation.draws import draw_models
from latentmdp.fitting.estimation.worth import ends, fewest_draws, worth_of
from latentmdp.fitting.off_policy.estimate import OffPolicyEstimate
from latentmdp.fitting.reading.problems import counted
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.planning.baselines import knowing_the_context
from latentmdp.planning.budget import Budget
from latentmdp.policy.belief import reach_weights

if TYPE_CHECKING:
    from latentmdp.fitting.fits import Fit
    from latentmdp.policy.graph import PolicyGraph

DRAWS = 400
PLANNING = 0.75  # of the time limit, with what the two policies are worth; the rest is to compare


@dataclass(frozen=True)
class Decision:
    """Two policies and what they are worth, against the log and against knowing the context."""

    memory: FitPlan
    markov: FitPlan
    logged: Interval  # mean total reward of the log's episodes
    knowing: Interval  # what one could earn if told the context
    worth_of_memory: Interval  # with minus without
    worth_of_knowing: Interval  # knowing minus the policy with memory
    gain: Interval  # the policy with memory minus the log
    level: float
    chosen_by: int  # episodes
    judged_by: int  # episodes held out for that; 0: the same ones judge
    cut_short: int = 0  # of the episodes that judge: cut off before the horizon
    direct: OffPolicyEstimate | None = None  # the policy with memory, by held-out episodes alone

    @property
    def how_judged(self) -> str:
        """Whether the values can be taken as they are, in a sentence."""
        if self.judged_by:
            return (
                f"The policies were chosen by {counted(self.chosen_by, 'episode')} and judged by "
                f"{self.judged_by:,} others, which had no part in the choice."
            )
        if self.memory.objective == "safe":
            less = self.memory.worth.optimism
            return (
                "The policies were chosen by the same episodes that say here what they are worth; "
                "the values are corrected for that, by halves of the data that judged each other "
                f"({less:.3g} less than the model of all "
                "the data says, for the policy with memory)."
            )
        return (
            "The policies were chosen by the same episodes that say here what they are worth, so "
            "expect a little less than these values (--holdout 0.5 judges them by episodes that "
            "had no part in the choice)."
        )

    @property
    def how_filled(self) -> str:
        """What a policy does not say in the model that judges it, in sentences, or empty."""
        plans = (("with memory", self.memory), ("without memory", self.markov))
        return " ".join(
            f"The episodes that judge show states, actions or rewards that the policy {kind} does "
            f"not know: {'; '.join(plan.worth.filled)}."
            for kind, plan in plans
            if plan.worth.filled
        )

    @property
    def how_cut(self) -> str:
        """Whether the log's own episodes can be compared with policies, in a sentence if not."""
        if not self.cut_short:
            return ""
        return (
            f"In the log {counted(self.cut_short, 'episode')} "
            f"{'was' if self.cut_short == 1 else 'were'} cut off before the horizon: the log's own "
            "value counts what they had earned by then, those of the policies are of whole "
            "episodes. So the difference to the log is in part one of length."
        )

    @property
    def how_direct(self) -> str:
        """What held-out episodes say without a model; empty if they were not asked."""
        if self.direct is None:
            return ""
        if self.direct.warning:
            return f"Without a model {self.direct.warning}."
        said = self.direct
        return (
            f"Without a model (doubly robust, behaviour {said.behaviour}), the same episodes say "
            f"{said.value:.4g} [{said.lower:.4g}, {said.upper:.4g}] for the policy with memory."
        )

    @property
    def promise(self) -> str:
        """What the objective promises of both policies; empty for `mean`."""
        kind, q = parse_objective(self.memory.objective)
        if kind == "safe":
            return self.memory.left_out
        both = (
            f"the policy with memory is worth at least {self.memory.score:.4g} an episode, the one "
            f"without at least {self.markov.score:.4g}"
        )
        if kind == "quantile":
            return f"In all but {q:.3g} of the models drawn, {both}."
        if self.memory.delta is None:
            return ""
        if self.memory.doubt:
            text = f"By a bound that rests on the log's own rewards, {both}. {self.memory.doubt}"
        else:
            text = (
                f"Whatever model the log leaves possible, {both}: certain but for a chance of "
                f"{self.memory.delta:g}, if the future is like the past (docs/pessimism.md says "
                "what no log can prove)."
            )
        if self.memory.score < self.logged.value:
            text += " That is less than the log's own episodes earned: a longer log promises more."
        return text

    @property
    def rows(self) -> list[tuple[str, Interval]]:
        """The values, from the log's own to the unreachable."""
        kind = {"mean": "best", "safe": "safe"}.get(self.memory.objective, "careful")
        return [
            ("the log's own episodes", self.logged),
            (f"{kind} policy without memory", _of(self.markov)),
            (f"{kind} policy with memory", _of(self.memory)),
            ("if one knew the context", self.knowing),
        ]

    @property
    def differences(self) -> list[tuple[str, Interval]]:
        """What is gained, and what could be."""
        return [
            ("policy with memory against the log", self.gain),
            ("memory: with against without", self.worth_of_memory),
            ("knowing the context beforehand", self.worth_of_knowing),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        named = {
            "logged": self.logged, "markov": _of(self.markov), "memory": _of(self.memory),
            "knowing": self.knowing, "gain": self.gain, "worth_of_memory": self.worth_of_memory,
            "worth_of_knowing": self.worth_of_knowing,
        }  # fmt: skip
        first = {"verdict": self.memory.verdict, "supported": self.memory.supported}
        return first | {name: interval._asdict() for name, interval in named.items()} | {
            "level": self.level, "objective": self.memory.objective,
            "memory_score": self.memory.score, "markov_score": self.markov.score,
            "delta": self.memory.delta, "status": self.memory.status, "doubt": self.memory.doubt,
            "assumed_steps": self.memory.worth.assumed_steps, "chosen_by": self.chosen_by,
            "judged_by": self.judged_by, "cut_short": self.cut_short, "filled": self.how_filled,
            "min_visits": self.memory.min_visits, "warning": self.memory.warning,
            "optimism": self.memory.worth.optimism, "best_group": self.memory.best_group,
            "direct": None if self.direct is None else asdict(self.direct),
        }  # fmt: skip


def decide(
    fit: Fit,
    objective: str = "safe",
    *,
    min_visits: int | None = None,
    level: float = 0.95,
    draws: int = DRAWS,
    time_limit: float = 60.0,
    delta: float = 0.1,
    reward_range: tuple[float, float] | None = None,
    seed: int = 0,
    progress: Callable[[str], None] = lambda text: None,
) -> Decision:
    """Plan with and without memory and compare. `time_limit`: seconds for all of it.

    Where time is short, all values come from fewer draws, the same ones for all of them.

    `delta` and `reward_range` are of the objective `pessimistic`, as in `plan_fit`.
    """
    options: dict[str, Any] = {
        "level": level, "draws": draws, "seed": seed, "time_limit": time_limit * PLANNING / 2,
        "gap": 0.001, "delta": delta, "reward_range": reward_range, "min_visits": min_visits,
    }  # fmt: skip
    budget = Budget(time_limit, None)
    progress("planning without memory")
    markov = plan_fit(fit, objective, "markov", **options)
    progress("planning with memory")
    memory = plan_fit(fit, objective, "history", **options)
    if _reached(memory) < _reached(markov):  # a policy without memory is one with memory too
        memory = replace(
            memory, policy=markov.policy, score=markov.score, lower=markov.lower,
            worth=markov.worth, gain=markov.gain, min_visits=markov.min_visits,
            excluded=markov.excluded,
        )  # fmt: skip
    judge = fit
    if fit.held_out is not None:
        progress("judging by the episodes held out")
        judge = fit.held_out
        last = _part(budget, 3)
        markov, memory = (_judged_by(judge, plan, draws, seed, last) for plan in (markov, memory))
    progress("what knowing the context would add")
    together = min(len(markov.worth.draws), len(memory.worth.draws))
    best, known = _knowing(fit, judge, memory, together, seed, budget)
    of_markov, of_memory = (x.worth.draws[: len(known)] for x in (markov, memory))
    worth = memory.worth
    return Decision(
        memory, markov, memory.log_value,
        _interval(best, known, level),
        _interval(worth.value - markov.worth.value, of_memory - of_markov, level),
        _interval(max(best - worth.value, 0.0), np.maximum(known - of_memory, 0.0), level),
        memory.gain, level, fit.episodes, 0 if judge is fit else judge.episodes,
        int(judge.log.cut[: judge.model.H].sum()),
    )  # fmt: skip


def _knowing(
    fit: Fit, judge: Fit, memory: FitPlan, draws: int, seed: int, budget: Budget
) -> tuple[float, Floats]:
    """What one could earn if told the context: in the fitted model, and in each draw.

    With the objective `safe` whoever is told it is as careful, and the same is subtracted. Where
    time is short there are fewer draws, but as many as the interval needs.
    """
    value: Callable[[LatentMDP], float] = knowing_the_context
    if memory.min_visits is not None:
        value = safe.told_the_context(fit, memory.min_visits)
    best, found = value(judge.model), []
    for model in draw_models(judge.estimate, draws, seed):
        found.append(value(model))
        if len(found) >= fewest_draws(memory.worth.level) and budget.reason():
            break
    values = np.array([best, *found])
    if memory.min_visits is not None:
        values -= memory.worth.optimism
    if judge.assumed.total_range is not None:
        values = judge.assumed.total_range.clip(values)
    return float(values[0]), values[1:]


def _reached(plan: FitPlan) -> float:
    """What two plans for one objective are compared by.

    The scores of `safe` count costs, which depend on the number of visits that each plan asks for.
    """
    return plan.worth.value if plan.objective == "safe" else plan.score


def _judged_by(
    judge: Fit, plan: FitPlan, draws: int, seed: int, time_limit: float | None
) -> FitPlan:
    """The same plan with what other episodes say about its policy."""
    worth = worth_of(judge, plan.policy, plan.worth.level, draws, seed, time_limit)
    worth, logged, gain, best = beside_the_log(judge, worth, seed)
    return replace(plan, worth=worth, log_value=logged, gain=gain, best_group=best,
                   judged_by_others=True)  # fmt: skip


class Moment(NamedTuple):
    """A node of a policy: where it may be, what it then believes, and what it does."""

    step: int
    state: int
    action: int
    reach: float  # probability of being there
    belief: Floats  # (M,)


def likely_moments(fit: Fit, policy: PolicyGraph, most: int = 20) -> list[Moment]:
    """The moments that an episode most likely goes through, in time order; ended ones left out."""
    weight = reach_weights(fit.model, policy)
    reach = weight.sum(axis=1)
    reach = np.where(fit.log.final[policy.state], 0.0, reach)
    nodes = np.argsort(-reach, kind="stable")[:most]
    nodes = np.sort(nodes[reach[nodes] > 0.0])
    return [
        Moment(
            int(policy.step[n]), int(policy.state[n]), int(policy.action[n]), float(reach[n]),
            weight[n] / reach[n],
        )
        for n in nodes
    ]  # fmt: skip


def table_lines(fit: Fit, policy: PolicyGraph) -> list[tuple[str, str]]:
    """`(state, what to do there)` of a Markov policy, for states that it can be in.

    Steps are counted from 1: `run (1 to 9), overhaul (10 to 12)`.
    """
    weight = reach_weights(fit.model, policy).sum(axis=1)
    states, actions = fit.names["states"], fit.names["actions"]
    lines = []
    for s in np.flatnonzero(~fit.log.final):
        parts: list[list[int]] = []  # action, first, last
        for t in range(policy.H):
            node = policy.default[t, s]
            if weight[node] <= 0.0:
                continue
            action = int(policy.action[node])
            if parts and parts[-1][0] == action:
                parts[-1][2] = t
            else:
                parts.append([action, t, t])
        if parts:
            words = [
                f"{actions[a]} ({first + 1})" if first == last else
                f"{actions[a]} ({first + 1} to {last + 1})"
                for a, first, last in parts
            ]  # fmt: skip
            lines.append((states[s], actions[parts[0][0]] if len(parts) == 1 else ", ".join(words)))
    return lines


def _part(budget: Budget, parts: int) -> float | None:
    """An equal part of the time that is left."""
    return None if budget.left is None else max(budget.left, 0.0) / parts


def _of(plan: FitPlan) -> Interval:
    return Interval(plan.worth.value, plan.worth.lower, plan.worth.upper)


def _interval(value: float, draws: Floats, level: float) -> Interval:
    return Interval(float(value), *map(float, ends(draws, draws, level)))
