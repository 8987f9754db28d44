"""What a log says, in a page of plain text: sizes, doubts, contexts, and where data are thin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import beta

from latentmdp.fitting.estimation.estimate import available, ends_pay_once, least_reward
from latentmdp.fitting.estimation.evidence import PairEvidence, context_evidence
from latentmdp.fitting.estimation.missing_mass import Unshown, unshown
from latentmdp.fitting.reading.cells import row_of
from latentmdp.fitting.reading.problems import counted
from latentmdp.policy.belief import reach_weights

if TYPE_CHECKING:
    from latentmdp.fitting.fits import Fit
    from latentmdp.policy.graph import PolicyGraph

LEVEL = 0.95
LISTED = 8  # lines of each list
THIN = 30  # visits below which a row's estimate is called thin

THIN_ADVICE = (
    "with prior 0 what such a place has not shown counts as impossible there, and intervals are "
    "too short; prior=0.5 or --prior 0.5 is more careful"
)


@dataclass(frozen=True)
class ContextLine:
    """One context: its share of episodes with an interval, and what episodes earned."""

    name: str
    episodes: int
    weight: float
    lower: float
    upper: float
    mean_return: float


@dataclass(frozen=True)
class ThinPlace:
    """A row that the policy reaches and the log knows little about."""

    context: str
    state: str
    action: str
    reach: float  # expected visits in an episode
    visits: int  # whose next state is known
    last_steps: int  # other visits, at last steps of episodes


@dataclass(frozen=True)
class Summary:
    """Facts about a fit; `str()` sets them for people, `to_dict()` for machines."""

    title: str
    contexts: tuple[ContextLine, ...]
    pairs: tuple[PairEvidence, ...]
    context_names: tuple[str, ...]
    said: tuple[str, ...]
    doubtful: tuple[str, ...]
    left_out_episodes: int
    rewards: str
    policy: str  # under which policy places are reached, in words
    unseen_rows: int  # rows without a known next state
    last_step_rows: int  # those of them that were seen, at last steps of episodes only
    rows: int
    unseen_words: str
    unseen_reach: float  # expected steps of an episode in rows that are assumed, under the policy
    thin: tuple[ThinPlace, ...]
    thin_reach: float  # expected steps in rows with fewer than THIN visits
    advice: str = ""  # what would be more careful
    cut_episodes: int = 0  # used up to their first doubtful row
    caution: str = ""  # how what was left out differs from what was kept, if it does
    unshown: tuple[Unshown, ...] = ()  # what the log has not shown at all
    verdict: str = ""  # whether a log without contexts shows as many as were guessed

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    @property
    def unseen_sentence(self) -> str:
        """How many rows were never seen, or without what followed, and what they are taken for."""
        if not self.unseen_rows:
            return "every action was seen in every state of every context"
        never, last = self.unseen_rows - self.last_step_rows, self.last_step_rows
        text = f"{never:,} of {self.rows:,} (context, state, action) never seen"
        if last:
            text += f", {last:,} seen only at last steps, after which no state is known"
        return f"{text}; {self.unseen_words}"

    def lines(self) -> Iterator[str]:
        """Line by line."""
        yield self.title
        if self.caution:
            yield f"CAUTION  {self.caution}"
        if self.verdict:
            yield self.verdict
        yield self.rewards
        for sentence in self.said:
            yield f"said   {sentence}"
        for sentence in self.doubtful:
            yield f"doubt  {sentence}"
        if self.left_out_episodes:
            left_out = counted(self.left_out_episodes, "episode")
            yield f"doubt  left out because of such rows: {left_out}"
        if self.cut_episodes:
            yield f"doubt  used up to the first such row: {counted(self.cut_episodes, 'episode')}"
        yield ""
        yield f"contexts (share of episodes, {LEVEL:.0%} interval; mean total reward)"
        width = max(len(line.name) for line in self.contexts[:LISTED])
        for line in self.contexts[:LISTED]:
            yield (
                f"  {line.name:{width}}  {line.weight:.4f}  [{line.lower:.4f}, {line.upper:.4f}]  "
                f"{line.mean_return:10.5g}  ({counted(line.episodes, 'episode')})"
            )
        yield from _more(len(self.contexts), "contexts")
        if self.pairs:
            yield ""
            yield "can the data tell contexts apart? (log Bayes factor; 3 is strong, 5 decisive)"
        for pair in sorted(self.pairs, key=lambda p: p.log_bayes)[:LISTED]:
            names = f"{self.context_names[pair.first]} / {self.context_names[pair.second]}"
            yield f"  {names}: {pair.verdict}, {pair.log_bayes:.4g} from {pair.places} places"
        yield from _more(len(self.pairs), "pairs, which differ more")
        yield ""
        yield from self.unshown_lines()
        yield self.unseen_sentence
        if self.unseen_rows:
            yield f"{self.policy} spends {self.unseen_reach:.3g} steps of an episode there"
        yield (
            f"{self.policy} spends {self.thin_reach:.3g} steps of an episode where the log has "
            f"fewer than {THIN} visits" + (":" if self.thin else "")
        )
        for place in self.thin[:LISTED]:
            last = f" and {counted(place.last_steps, 'last step')}" if place.last_steps else ""
            yield (
                f"  {place.context}, {place.state}, {place.action}: "
                f"{place.visits} visits{last}, {place.reach:.3g} steps an episode"
            )
        yield from _more(len(self.thin), "such places")
        if self.advice:
            yield self.advice

    def unshown_lines(self) -> Iterator[str]:
        """How likely it is that something new happens, which no interval of a value counts."""
        if self.unshown:
            yield f"not in the log, nor in any interval of a value ({LEVEL:.0%}, Good-Turing):"
        for part in self.unshown:
            yield f"  {part.what}: {part}"


def _more(count: int, what: str) -> Iterator[str]:
    if count > LISTED:
        yield f"  ... {count - LISTED} more {what}"


def summarize(fit: Fit, policy: PolicyGraph | None = None) -> Summary:
    """The summary of a fit. Costs a quick Markov plan where no policy is given."""
    counts, model = fit.log, fit.model
    words = "the policy" if policy is not None else "a good policy without memory"
    if policy is None:
        policy = good_policy(fit)
    reach = row_reach(fit, policy)
    visits = counts.visits
    assumed = np.zeros(len(visits), dtype=bool)
    assumed[fit.estimate.unseen] = True
    over = counts.final[np.arange(len(visits)) // counts.A % counts.S]
    thin = np.flatnonzero((visits < THIN) & ~over & (reach > 1e-9))
    thin = thin[np.argsort(-reach[thin], kind="stable")]
    names = fit.names
    return Summary(
        title=(
            f"{counted(fit.rows, 'row')}, {counted(fit.episodes, 'episode')}: "
            f"{counted(model.M, 'context')}, {counted(model.S, 'state')}, "
            f"{counted(model.A, 'action')}, "
            + (f"{counted(len(names['readings']), 'reading')}, " if "readings" in names else "")
            + f"horizon {model.H}"
        ),
        contexts=_context_lines(fit),
        pairs=context_evidence(counts),
        context_names=names["contexts"],
        said=fit.said,
        doubtful=fit.left_out,
        left_out_episodes=fit.left_out_episodes,
        rewards=_reward_words(fit),
        policy=words,
        unseen_rows=len(fit.estimate.unseen),
        last_step_rows=int(counts.last_steps_only[fit.estimate.unseen].sum()),
        rows=len(visits),
        unseen_words=_unseen_words(fit),
        unseen_reach=float(reach[assumed].sum()),
        thin=tuple(_thin_place(fit, int(row), reach, visits) for row in thin[:1000]),
        thin_reach=float(reach[thin].sum()),
        advice=THIN_ADVICE if fit.assumed.prior == 0.0 and len(thin) else "",
        cut_episodes=fit.cut_episodes,
        caution=fit.caution,
        unshown=unshown(counts, LEVEL),
        verdict=fit.verdict,
    )


def good_policy(fit: Fit) -> PolicyGraph:
    """A Markov policy that is good in the fitted model, found with little work."""
    from latentmdp.planning.plan import plan  # Numba loads slowly

    return plan(fit.model, "markov", gap=0.01, time_limit=10.0, work_limit=10**8).policy


def row_reach(fit: Fit, policy: PolicyGraph) -> np.ndarray:
    """`(M*S*A,)` expected visits of each row in an episode under a policy."""
    model = fit.model
    weight = reach_weights(model, policy)  # (N, M)
    place = policy.state * model.A + policy.action
    found = np.zeros((model.M, model.S * model.A))
    for m in range(model.M):
        found[m] = np.bincount(place, weight[:, m], model.S * model.A)
    return found.reshape(-1)


def _context_lines(fit: Fit) -> tuple[ContextLine, ...]:
    episodes = fit.log.starts.sum(axis=1)
    total, tail = int(episodes.sum()), (1.0 - LEVEL) / 2.0
    mean = fit.log.returns.mean
    lines = []
    for m, name in enumerate(fit.names["contexts"]):
        n = int(episodes[m])
        # Clopper and Pearson: covers with at least the level whatever the weight
        low = beta.ppf(tail, n, total - n + 1) if n else 0.0
        high = beta.ppf(1.0 - tail, n + 1, total - n) if n < total else 1.0
        weight = float(fit.model.w[m])
        lines.append(ContextLine(name, n, weight, float(low), float(high), float(mean[m])))
    return tuple(lines)


def _reward_words(fit: Fit) -> str:
    counts, noisy = fit.log, fit.log.noisy
    seen = "observed" if fit.model.observe_rewards else "hidden"
    if "R" in fit.assumed.known:
        return f"rewards are those given as known, and {seen}"
    if noisy.any() and not counts.rewards_of_rows:
        first = int(np.argmax(noisy))
        m, s, a = row_of(counts, int(counts.row[first]))
        names = fit.names
        return (
            f"rewards are noisy: {int(noisy.sum()):,} of {len(noisy):,} (context, state, action, "
            f"next state) have several, first ({names['contexts'][m]}, {names['states'][s]}, "
            f"{names['actions'][a]}, {names['states'][int(counts.next[first])]}); the model has "
            "their means, and rewards count as hidden"
        )
    where = "(context, state, action)" if counts.rewards_of_rows else "the next state too"
    return f"rewards are fixed by {where}, and {seen}"


def _unseen_words(fit: Fit) -> str:
    paid = f"pays {0.0 if ends_pay_once(fit.assumed) else least_reward(fit.log):.6g}"
    if fit.log.last_steps_only[fit.estimate.unseen].any():
        paid += " (what it paid, where it was seen)"
    return {
        "self": f"such an action is taken to change nothing, and {paid}",
        "uniform": f"such an action is taken to lead anywhere, all states alike, and {paid}",
        "unavailable": _unavailable_words(fit, paid),
        "refuse": "none is missing",
    }[fit.assumed.unseen]


def _unavailable_words(fit: Fit, paid: str) -> str:
    """Which actions are not allowed, and which rows are, although nobody saw what they lead to."""
    counts, unseen = fit.log, fit.estimate.unseen
    words = "an action is allowed if every context in which anybody acted in the state has shown it"
    place = unseen % (counts.S * counts.A)
    allowed = unseen[available(counts).reshape(-1)[place]]
    if not len(allowed):
        return words
    acted = counts.visits.reshape(-1, counts.A).sum(axis=1)[allowed // counts.A] > 0
    reasons = [
        f"{int(which.sum()):,} because {reason}"
        for which, reason in (
            (~acted, "that context has shown nothing in that state"),
            (acted, "no action of that state was shown by all contexts"),
        )
        if which.any()
    ]
    return (
        f"{words}; {len(allowed):,} of the rows are allowed all the same ({', '.join(reasons)}): "
        f"there it is taken to change nothing, and {paid}"
    )


def _thin_place(fit: Fit, row: int, reach: np.ndarray, visits: np.ndarray) -> ThinPlace:
    m, s, a = row_of(fit.log, row)
    names = fit.names
    return ThinPlace(
        names["contexts"][m], names["states"][s], names["actions"][a], float(reach[row]),
        int(visits[row]), int(fit.log.row_sums.count[row] - visits[row]),
    )  # fmt: skip
