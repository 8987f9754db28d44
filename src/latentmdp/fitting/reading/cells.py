"""`LogCounts`: what a log has shown, in the numbers of the model to come, with its ends resolved.

How the ends of episodes are understood, where the log does not give a next state:

- said to have ended (`terminated`): it goes to the state `(end)`, in which nothing happens;
- said to have been cut off (`truncated`), or not said to have ended: the step went on, nobody knows
  where to; its reward counts, and that it was no end (`cut_steps.py`);
- nothing said at all: episodes shorter than the log's longest ended; those of that length were cut.

Where the log gives the next state it counts as such; one in which nobody ever acted is a final
state. Only an episode that ended in a state where others went on is sent to `(end)` instead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.fitting.reading.classes import Classes
from latentmdp.fitting.reading.episodes import CENSORED
from latentmdp.fitting.reading.exact_sums import RewardSums
from latentmdp.fitting.reading.tally import CUT, FINISHED, STOPPED, Tally
from latentmdp.model.counts import Counts
from latentmdp.model.rows import reward_tolerance


@dataclass(frozen=True)
class LogCounts:
    """Counts of a log. A row is `(m * S + s) * A + a`.

    An outcome is a next state with a reading; they are sorted by row, next and reading.
    """

    M: int
    S: int
    A: int
    readings: int  # how many different ones; 1: the log has none
    row: Ints  # (n,) of each outcome that was seen
    next: Ints  # (n,)
    reading: Ints  # (n,)
    sums: RewardSums  # of the rewards of each outcome
    row_sums: RewardSums  # (M*S*A,) of all rewards of a row, also where the outcome is unknown
    starts: Ints  # (M, S) first states
    returns: RewardSums  # (M,) of the total rewards of episodes
    lengths: Ints  # (L + 1,) episodes by length
    end: int | None  # the state that stands for the end of episodes
    finished: Ints  # (S,) episodes that ended in each state
    acted: np.ndarray  # (S,) whether anybody acted there
    unknown_outcomes: int  # steps at the end of cut episodes
    went_on: Ints  # (M*S*A,) those of them of which the log says that they were no end
    cut: Ints  # (L + 1,) episodes by length that were said to have been cut off
    assumed_ended: int  # episodes taken as ended because they were shorter than others
    start_returns: RewardSums  # (M*S,) of the total rewards of episodes, by first state

    @property
    def outcome(self) -> Ints:
        """`(n,)` next state and reading of each outcome as one number."""
        return self.next * self.readings + self.reading

    def readings_of(self, rows: Ints) -> tuple[Ints, Ints, Floats]:
        """What is assumed to be read in rows: what all contexts together read there.

        `(which, reading, share)`: `which` are places in `rows`, ascending. Where no context has
        shown the state and action, the first reading has the share 1.
        """
        pairs = self.S * self.A
        key, of_key = np.unique(
            self.row % pairs * self.readings + self.reading, return_inverse=True
        )
        n, pair = np.bincount(of_key, self.sums.count, len(key)), key // self.readings
        share = np.append(n / np.bincount(pair, n, pairs)[pair], 1.0)
        first, end = (np.searchsorted(pair, rows % pairs, side=x) for x in ("left", "right"))
        width = np.maximum(end - first, 1)
        which = np.repeat(np.arange(len(rows)), width)
        place = first[which] + np.arange(len(which)) - (np.cumsum(width) - width)[which]
        place = np.where(end[which] > first[which], place, len(key))
        return which, np.append(key % self.readings, 0)[place], share[place]

    @property
    def visits(self) -> Ints:
        """`(M*S*A,)` steps of each row whose outcome is known."""
        return np.bincount(self.row, self.sums.count, self.M * self.S * self.A).astype(np.int64)

    @property
    def last_steps_only(self) -> np.ndarray:
        """`(M*S*A,)` rows that were seen, but no next state: only at last steps of episodes."""
        return (self.row_sums.count > 0) & (self.visits == 0)

    @property
    def final(self) -> np.ndarray:
        """`(S,)` states in which nobody ever acted: nothing happens there any more."""
        return ~self.acted

    @property
    def rewards_of_rows(self) -> bool:
        """Whether one reward per `(context, state, action)` explains all that were paid."""
        seen = self.row_sums.count > 0
        return bool(same_rewards(self.row_sums.at(np.flatnonzero(seen))).all())

    @property
    def noisy(self) -> np.ndarray:
        """`(n,)` outcomes whose rewards differ from time to time."""
        return ~same_rewards(self.sums)

    def to_counts(self) -> Counts:
        """Counts for a learner that goes on: its snapshot is taken now.

        That nothing happens any more in `(end)` and in final states that episodes ended in is
        known; those rows count one visit for each episode that ended.
        """
        if self.readings > 1:
            raise ModelError(
                "counts for a learner need a log in which nothing is read besides the next state "
                f"and the reward; this one has {self.readings} readings"
            )
        over = np.flatnonzero(self.final & (self.finished > 0))
        place = np.arange(self.M)[:, None, None] * self.S + over[None, :, None]
        rows = (place * self.A + np.arange(self.A)).reshape(-1)
        states = np.tile(np.repeat(over, self.A), self.M)
        row, nxt = np.append(self.row, rows), np.append(self.next, states)
        visits = np.append(self.sums.count, self.finished[states])
        order = np.lexsort((nxt, row))
        n_rows = self.M * self.S * self.A
        indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=n_rows))])
        counts = Counts(self.M, self.S, self.A, indptr, nxt[order])
        counts.n_next[:] = visits[order]
        counts.n[:] = np.bincount(row, visits, n_rows).astype(np.int64)
        counts.snapshot_all()
        return counts


def same_rewards(sums: RewardSums) -> np.ndarray:
    """Whether all rewards of a class are equal, up to rounding error."""
    largest = np.maximum(np.abs(sums.low), np.abs(sums.high))
    scale = float(largest.max(initial=0.0))
    return sums.high - sums.low <= reward_tolerance(largest, scale)


def resolve(
    tally: Tally,
    M: int,
    S: int,
    A: int,
    readings: int,
    *,
    with_end: bool = False,
    whole: LogCounts | None = None,
) -> LogCounts:
    """The counts of a tally in final numbers, with the ends of episodes understood.

    `with_end`: have a state for the end of episodes also if none ended. `whole`: the counts of the
    whole log that this is a part of, which decide what was an end and which states are final.
    """
    context, state, action, kind, value, reading = tally.cells.keys
    lengths = tally.lengths.keys[0]
    longest = tally.longest
    acted = np.zeros(S, dtype=bool)
    acted[state] = True
    if whole is not None:
        longest, acted, with_end = len(whole.lengths) - 1, whole.acted[:S], whole.end is not None
    went_on = kind == CUT  # what follows is not known, but that it was no end is
    short = (kind == STOPPED) & (value < longest)
    assumed = int(tally.cells.sums.count[short].sum())
    kind = np.where(short, FINISHED, np.where(kind == STOPPED, CUT, kind))
    value = np.where(short | (kind == CUT), -1, value)  # no longer a length
    ends = kind == FINISHED
    to_end = ends & ((value < 0) | acted[np.maximum(value, 0)])
    end = S if to_end.any() or with_end else None
    if end is not None:
        S, acted = S + 1, np.append(acted, False)
    nxt = np.where(to_end, S - 1, value)
    counts = tally.cells.sums.count
    finished = np.bincount(nxt[ends], counts[ends], S).astype(np.int64)
    row = (context * S + state) * A + action
    known = kind != CUT
    merged = Classes.empty(3)
    merged.add(np.stack([row, nxt, reading])[:, known], tally.cells.sums.at(np.flatnonzero(known)))
    rows = Classes.empty(1)
    rows.add(row[None], tally.cells.sums)
    starts = np.zeros((M, S), dtype=np.int64)
    starts[tally.starts.keys[0], tally.starts.keys[1]] = tally.starts.sums.count
    by_context = Classes.empty(1)
    by_context.add(tally.starts.keys[:1], tally.starts.sums)
    return LogCounts(
        M, S, A, readings, merged.keys[0], merged.keys[1], merged.keys[2], merged.sums,
        _spread_out(rows, M * S * A), starts, _spread_out(by_context, M),
        np.bincount(lengths, tally.lengths.sums.count, longest + 1).astype(np.int64), end, finished,
        acted,
        int(counts[kind == CUT].sum()),
        np.bincount(row[went_on], counts[went_on], M * S * A).astype(np.int64),
        _by_length(tally, longest), assumed, _by_first_state(tally, M, S),
    )  # fmt: skip


def _by_length(tally: Tally, longest: int) -> Ints:
    """`(longest + 1,)` episodes by length that were said to have been cut off."""
    lengths, how = tally.lengths.keys
    cut = np.where(how == CENSORED, tally.lengths.sums.count, 0)
    return np.bincount(lengths, cut, longest + 1).astype(np.int64)


def _by_first_state(tally: Tally, M: int, S: int) -> RewardSums:
    """The sums of episodes' returns for each `m * S + s`."""
    places = Classes.empty(1)
    places.add((tally.starts.keys[0] * S + tally.starts.keys[1])[None], tally.starts.sums)
    return _spread_out(places, M * S)


def _spread_out(classes: Classes, n: int) -> RewardSums:
    """Sums for all numbers from 0 to `n - 1`; empty ones where there is nothing."""
    found = RewardSums.of(np.zeros(0, dtype=np.int64), np.zeros(0), n)
    at, sums = classes.keys[0], classes.sums
    found.count[at], found.low[at], found.high[at] = sums.count, sums.low, sums.high
    found.sums[:, at], found.squares[:, at] = sums.sums, sums.squares
    return found


def row_of(counts: LogCounts, row: int) -> tuple[int, int, int]:
    """`(context, state, action)` of a row's number."""
    m, rest = divmod(int(row), counts.S * counts.A)
    return m, *divmod(rest, counts.A)
