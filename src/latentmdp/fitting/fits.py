"""`fit`: from a table of past episodes to a model, with what is known about how good it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from latentmdp.errors import ModelError
from latentmdp.fitting.deciding.total_range import total_range as range_of_totals
from latentmdp.fitting.estimation.draws import draw_models
from latentmdp.fitting.estimation.estimate import ARRAYS, Assumptions, Estimate, estimate
from latentmdp.fitting.inferred import inferred
from latentmdp.fitting.reading.cells import LogCounts, resolve
from latentmdp.fitting.reading.chunks import CHUNK_ROWS
from latentmdp.fitting.reading.coding import LogNames
from latentmdp.fitting.reading.columns import Columns
from latentmdp.fitting.reading.episodes import Reading
from latentmdp.fitting.reading.ids import checked_share, held_out
from latentmdp.fitting.reading.options import ReadingOptions
from latentmdp.fitting.reading.problems import counted
from latentmdp.fitting.reading.reader import read_episodes
from latentmdp.fitting.reading.sources import named_log, open_log
from latentmdp.fitting.reading.tally import Tally
from latentmdp.model.counts import Counts
from latentmdp.model.horizons import checked_whole
from latentmdp.model.latent_mdp import LatentMDP

if TYPE_CHECKING:
    from latentmdp.advice import Adviser
    from latentmdp.fitting.deciding.log_value import Interval
    from latentmdp.fitting.deciding.objectives import FitPlan
    from latentmdp.fitting.estimation.worth import Worth
    from latentmdp.fitting.mixture.expectation_maximisation import Mixture
    from latentmdp.fitting.summary import Summary
    from latentmdp.policy.graph import PolicyGraph

NAMED = ("contexts", "states", "actions", "readings")
KNOWN = (*NAMED, *ARRAYS)
GUESSED = (
    "contexts that nobody wrote down were guessed from the episodes (a mixture of MDPs, by EM): "
    "nothing guarantees that they are the true ones, and intervals take the guesses as facts"
)
END = "(end)"  # the name of the state that stands for the end of episodes


@dataclass(frozen=True, eq=False)
class Fit:
    """What a log says: a model, the counts behind it, and how sure one can be.

    `model` is the posterior mean (maximum likelihood with `prior=0`), `names` has the names of
    `contexts`, `states` and `actions` by number, and of `readings` where the log has some.
    """

    model: LatentMDP
    names: dict[str, tuple[str, ...]]
    log: LogCounts
    estimate: Estimate = field(repr=False)
    assumed: Assumptions
    rows: int  # of the log
    said: tuple[str, ...]  # what was found or assumed without being asked for
    left_out: tuple[str, ...]  # doubtful rows, in sentences
    left_out_episodes: int
    cut_episodes: int = 0  # that were used up to their first doubtful row
    caution: str = ""  # how what was left out differs from what was kept, if it does
    mixture: Mixture | None = field(default=None, repr=False)  # where contexts were guessed
    held_out: Fit | None = field(default=None, repr=False)  # of the episodes that were held out

    @property
    def counts(self) -> Counts:
        """A learner's counts: `Learner(..., counts=fit.counts)` goes on where the log ends."""
        return self.log.to_counts()

    @property
    def episodes(self) -> int:
        """Episodes that were counted."""
        return int(self.log.starts.sum())

    @property
    def verdict(self) -> str:
        """Whether a log without contexts shows as many as were guessed; empty if none were."""
        found = None if self.mixture is None else self.mixture.verdict
        return "" if found is None else str(found)

    def summary(self, policy: PolicyGraph | None = None) -> Summary:
        """What the data say and where they are thin; `str()` of it is for people.

        `policy`: the one under which thin places are looked for (default: a Markov policy that is
        good in the fitted model).
        """
        from latentmdp.fitting.summary import summarize  # SciPy loads slowly

        return summarize(self, policy)

    def sample(self, n: int, seed: int = 0) -> list[LatentMDP]:
        """`n` models from the posterior, with the same names, horizon and outcomes."""
        return list(draw_models(self.estimate, n, seed))

    def evaluate(
        self, policy: Any, level: float = 0.95, draws: int = 1000, seed: int = 0,
        time_limit: float | None = None,
    ) -> Worth:  # fmt: skip
        """What a policy (a plan, a policy, a table of actions) is worth, with an interval.

        After `time_limit` seconds there are fewer draws, but as many as the interval needs.
        """
        from latentmdp.fitting.estimation.worth import worth_of  # SciPy loads slowly

        return worth_of(self, policy, level, draws, seed, time_limit)

    @property
    def log_value(self) -> Interval:
        """The mean total reward of the log's own episodes, with a 95% interval."""
        from latentmdp.fitting.deciding.log_value import log_value  # SciPy loads slowly

        return log_value(self)

    def plan(
        self, objective: str = "safe", policy_class: str = "history", **options: Any
    ) -> FitPlan:
        """What to do: `safe`, `mean`, `quantile:q` or `pessimistic`; see `fitting.objectives`."""
        from latentmdp.fitting.deciding.objectives import plan_fit  # Numba loads slowly

        return plan_fit(self, objective, policy_class, **options)

    def adviser(self, plan: Any, **options: Any) -> Adviser:
        """What to do step by step in the fitted model, by a plan, a policy or a table."""
        from latentmdp.advice import Adviser  # Numba loads slowly

        return Adviser(self.model, plan, **options)

    def __repr__(self) -> str:
        m = self.model
        return (
            f"Fit({self.episodes:,} episodes, {self.rows:,} rows: {m.M} contexts, {m.S} states, "
            f"{m.A} actions, {f'{m.readings} readings, ' if m.readings > 1 else ''}"
            f"horizon {m.H}, prior {self.assumed.prior:g}; the log's own episodes "
            f"earned {self.log_value}){f'. {self.verdict}' if self.verdict else ''}"
        )


def fit(
    log: Any,
    episode: str = "episode",
    step: str | None = None,
    state: str = "state",
    action: str = "action",
    reward: str = "reward",
    next_state: str | None = None,
    context: str | None = "context",
    horizon: int | None = None,
    prior: float = 0.5,
    unseen: str = "self",
    on_bad: str = "raise",
    known: Mapping[str, Any] | None = None,
    contexts: int | None = None,
    *,
    reading: str | None = None,
    holdout: float = 0.0,
    duplicates: str = "refuse",
    strip: bool = False,
    casefold: bool = False,
    date_format: str | None = None,
    terminated: str | None = None,
    truncated: str | None = None,
    observe_rewards: bool | None = None,
    discount: float = 1.0,
    chunk_rows: int = CHUNK_ROWS,
    rewards: str = "noisy",
    total_range: Any = None,
    seed: int = 0,
) -> Fit:
    """Fit a latent MDP to a log of episodes whose context was written down afterwards.

    `log`: a DataFrame (pandas, Polars, Dask), a path (.csv, .parquet, .xlsx), `minari:ID`, or
    several of them. The words after it name columns; `step`, `next_state`, `terminated` and
    `truncated` are found by these names if nothing else is said. Names may be of any type.

    `horizon`: steps of an episode (default: of the longest). `prior`: Dirichlet prior of each row
    (half a visit; 0 is maximum likelihood).
    `unseen`: what an action does where it was never seen: `self` (nothing; pays 0, or the least
    seen if that is negative), `uniform`, `refuse`, `unavailable`. `on_bad`: `raise`, `cut` (use an
    episode with doubtful rows up to the first of them), or `skip` (leave it out). `known`: names
    (`contexts`, `states`, `actions`), or arrays `R`, `w`, `nu` that are not to be estimated.
    `observe_rewards`: whether the agent sees rewards (default: yes, unless they are noisy). See
    docs/how_to_fit.md.

    `reading`: the column with what was read besides the next state at each step, names of any type;
    the model has readings then, and counts are of next states with their readings.

    `duplicates`: `refuse` rows that are copies of the row before them, `drop` them, or `keep` them
    as steps. `strip`, `casefold`: names that differ only in blanks around them, or in upper and
    lower case, are one. `date_format`: how dates in `step` are written (`%d/%m/%Y`).

    `rewards`: `fixed` promises that one (context, state, action, next state) always pays the same;
    `noisy` (default) does not, however alike the rewards of the log are. Only `pessimistic` plans
    rest on it.

    `total_range (low, high)`: between which the total reward of every episode lies, if you know it;
    values and intervals are clipped to it. Without it, a log in which only steps into ends are paid
    gives it: an end pays once.

    `holdout`: a share of the episodes (0.5, say), drawn by a hash of their ids, that is left out
    here and makes a fit of its own, `fit.held_out`, with the same names: choose a policy by the one
    and judge it by the other.

    `contexts`: their number, where some episodes or all (`context=None`) have no label; the missing
    ones are guessed (`unlabelled.py`), from starts that `seed` draws; `verdict` says whether the
    data show so many.

    >>> import pandas as pd
    >>> log = pd.DataFrame({"episode": [1, 1, 2, 2], "context": ["ok", "ok", "worn", "worn"],
    ...                     "state": ["hot", "hot", "hot", "cold"], "action": "wait",
    ...                     "reward": [1.0, 1.0, 1.0, 0.0]})
    >>> found = fit(log, prior=0)
    >>> found.names["contexts"], found.model.P[1, 1, 0].tolist()  # worn, hot, wait
    (('ok', 'worn'), [1.0, 0.0])
    """
    options = ReadingOptions(on_bad, duplicates, strip, casefold, date_format)
    horizon = None if horizon is None else checked_whole("horizon", horizon, 1)
    given, share = _checked_known(known), checked_share(holdout)
    asked = Columns(
        episode, state, action, reward, context, step, next_state, terminated, truncated, reading
    )
    if reading is None and "readings" in given:
        raise ModelError("known['readings'] needs the column of the readings: reading='column'")
    mixture: Mixture | None = None
    held: Tally | None = None
    with named_log(log):
        if context is None or contexts is not None:
            if reading is not None:
                raise ModelError(
                    "readings need a log whose contexts are written down: contexts are guessed by "
                    "next states and rewards alone"
                )
            if share:
                raise ModelError(
                    "holdout needs a log whose contexts are written down; here are none"
                )
            from latentmdp.fitting.mixture.unlabelled import read_unlabelled  # which loads slowly

            found_in, tally, mixture = read_unlabelled(
                log, asked, given, horizon, discount, chunk_rows, contexts, seed, options
            )
        else:
            found_in, tally, held = read_log(
                log, asked, given, horizon, discount, chunk_rows, share, options
            )
        found_in.refuse()
        _check_not_empty(found_in, tally, held)
    found = fit_from_tally(
        found_in, tally, horizon=horizon, prior=prior, unseen=unseen, known=given,
        observe_rewards=observe_rewards, discount=discount, held=held, rewards=rewards,
        total_range=total_range,
    )  # fmt: skip
    if mixture is None:
        return found
    return replace(found, mixture=mixture, said=(*found.said, GUESSED))


def read_log(
    log: Any,
    asked: Columns,
    known: Mapping[str, Any],
    horizon: int | None,
    discount: float,
    chunk_rows: int,
    share: float = 0.0,
    options: ReadingOptions | None = None,
) -> tuple[Reading, Tally, Tally | None]:
    """Read and count a whole log; doubtful rows are noted, not refused.

    With a `share` to hold out, the episodes held out are counted by themselves.
    """
    options = options or ReadingOptions()
    names = LogNames.given(dict(known), options)
    if type(log).__module__.split(".")[0].startswith("dask"):
        from latentmdp.fitting.reading.distributed import read_partitions  # which needs Dask

        if share:
            raise ModelError("holdout needs a log in files or in memory; this is a Dask DataFrame")
        return *read_partitions(log, asked, names, options, horizon, discount), None
    source = open_log(log, checked_whole("chunk_rows", chunk_rows, 1))
    reading = Reading(asked.found_in(source.header()), names, options)
    tally, held = Tally(horizon, discount), Tally(horizon, discount)
    for episodes in read_episodes(source, reading):
        if share:
            left_out = held_out(episodes.key, share)
            held.add(episodes.only(left_out))
            episodes = episodes.only(~left_out)
        tally.add(episodes)
    return reading, tally, held if share else None


def _check_not_empty(reading: Reading, *parts: Tally | None) -> None:
    which = "each of the two parts of a log" if parts[-1] is not None else "a log"
    if any(part is not None and not part.lengths.keys.shape[1] for part in parts):
        sentences = reading.problems.sentences
        raise ModelError(
            "; ".join((f"{which} must have at least one episode; none was left", *sentences[:2]))
        )


def fit_from_tally(
    reading: Reading,
    tally: Tally,
    *,
    horizon: int | None,
    prior: float,
    unseen: str,
    known: dict[str, Any],
    observe_rewards: bool | None,
    discount: float,
    held: Tally | None = None,
    rewards: str = "noisy",
    total_range: Any = None,
) -> Fit:
    """The fit of a log that has been counted; `held`: the tally of the episodes held out of it."""
    names = reading.names
    sizes = [max(len(kind), 1) for kind in names.kinds]
    order = [kind.order() for kind in names.kinds]
    parts = [part.renumbered(*order) for part in (tally, held) if part is not None]
    with_end, whole = bool(known.get("end")), None
    if held is not None:
        both = Tally(horizon, discount)
        for part in parts:
            both.merge(part)
        whole = resolve(both, *sizes, with_end=with_end)
        if observe_rewards is None:  # both parts as the whole log says
            observe_rewards = "R" in known or whole.rewards_of_rows or not whole.noisy.any()
    found = [
        _fit_of(reading, resolve(part, *sizes, with_end=with_end, whole=whole), horizon, prior,
                unseen, known, observe_rewards, discount, rewards, total_range, whole)
        for part in parts
    ]  # fmt: skip
    if held is None:
        return found[0]
    found = [replace(part, rows=int(part.log.row_sums.count.sum())) for part in found]
    said = (
        f"{counted(found[1].episodes, 'episode')} of {found[0].episodes + found[1].episodes:,} "
        "were held out, by a hash of their ids"
    )
    return replace(found[0], held_out=found[1], said=(*found[0].said, said))


def _fit_of(
    reading: Reading,
    counts: LogCounts,
    horizon: int | None,
    prior: float,
    unseen: str,
    known: dict[str, Any],
    observe_rewards: bool | None,
    discount: float,
    rewards: str,
    total_range: Any,
    whole: LogCounts | None,
) -> Fit:
    names = reading.names
    labels = {
        "context_names": names.contexts.ordered(),
        "state_names": names.states.ordered(),
        "action_names": names.actions.ordered(),
    }
    if len(names.readings):
        labels["reading_names"] = names.readings.ordered()
    if counts.end is not None:
        labels["state_names"] += (_new_name(END, labels["state_names"]),)
    longest = len(counts.lengths) - 1
    arrays = {name: known[name] for name in ARRAYS if name in known}
    steps = longest if horizon is None else horizon
    possible = range_of_totals(
        counts if whole is None else whole, total_range, steps, "R" in arrays
    )
    assumed = Assumptions(
        steps, float(prior), unseen, observe_rewards, float(discount), arrays, labels,
        rewards=rewards, total_range=possible,
    )  # fmt: skip
    found = estimate(counts, assumed)
    return Fit(
        found.model,
        {kind: labels[f"{kind[:-1]}_names"] for kind in NAMED if f"{kind[:-1]}_names" in labels},
        counts,
        found,
        assumed,
        reading.rows,
        (*reading.columns.said, *inferred(reading, counts, horizon, possible)),
        reading.problems.sentences,
        reading.problems.left_out,
        reading.problems.cut,
        reading.caution,
    )


def _checked_known(known: Mapping[str, Any] | None) -> dict[str, Any]:
    for name in known or {}:
        if name not in KNOWN:
            raise ModelError(f"known may have {', '.join(KNOWN)}; not {name!r}")
    given = dict(known or {})
    if "states" in given:  # as another fit names them: its end of episodes is no state of the log
        given["states"] = list(given["states"])
        if given["states"] and given["states"][-1] == END:
            given |= {"states": given["states"][:-1], "end": True}
    return given


def _new_name(wanted: str, taken: tuple[str, ...]) -> str:
    while wanted in taken:
        wanted = f"({wanted})"
    return wanted
