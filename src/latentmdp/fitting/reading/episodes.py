"""`Episodes`: steps of a log as numbers, by episode; `Reading`: what is learned on the way.

How an episode ended is said by the columns `terminated` and `truncated` (Gymnasium's words): ended
for good, or cut off. An episode's last row without an action only says which state came last.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.fitting.reading.chunks import Chunk
from latentmdp.fitting.reading.coding import LogNames
from latentmdp.fitting.reading.columns import Columns
from latentmdp.fitting.reading.copies import Repeats
from latentmdp.fitting.reading.ids import EpisodeIds
from latentmdp.fitting.reading.options import ReadingOptions
from latentmdp.fitting.reading.problems import Place, Problems
from latentmdp.fitting.reading.selection import Selection

OPEN, ENDED, CENSORED = 0, 1, 2  # how an episode stopped: not said, ended for good, cut off


@dataclass(frozen=True)
class Episodes:
    """Whole episodes: rows `indptr[e]:indptr[e + 1]` are the steps of episode `e`, in order.

    `next` is -1 where it is not known, which only happens at an episode's last step.
    """

    indptr: Ints  # (E + 1,)
    key: Ints  # (E,) a number for the episode's id
    context: Ints  # (E,) -1 where there is no label
    stop: np.ndarray  # (E,) OPEN, ENDED or CENSORED
    state: Ints  # (n,)
    action: Ints  # (n,)
    reward: Floats  # (n,)
    next: Ints  # (n,)
    reading: Ints  # (n,) 0 where the log has none
    extra: dict[str, Floats]  # (n,) each
    steps: Ints | None = None  # (E,) of each episode as written down; None: those that are here

    def __len__(self) -> int:
        return len(self.key)

    @property
    def lengths(self) -> Ints:
        """`(E,)` steps of each episode."""
        return np.diff(self.indptr)

    @property
    def written(self) -> Ints:
        """`(E,)` steps of each episode, with those after a doubtful row at which it was cut."""
        return self.lengths if self.steps is None else self.steps

    @property
    def owner(self) -> Ints:
        """`(n,)` the episode of each row."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def only(self, kept: np.ndarray) -> Episodes:
        """The episodes for which `kept (E,)` holds."""
        rows = np.repeat(kept, self.lengths)
        return Episodes(
            np.concatenate([[0], np.cumsum(self.lengths[kept])]), self.key[kept],
            self.context[kept], self.stop[kept], self.state[rows], self.action[rows],
            self.reward[rows], self.next[rows], self.reading[rows],
            {name: x[rows] for name, x in self.extra.items()}, self.written[kept],
        )  # fmt: skip


class Part(NamedTuple):
    """A chunk of a log, by its place in it."""

    start: int  # what its first row counts as in this reading
    after: int  # and what the next chunk's does
    part: int  # puts parts in the order of the log
    name: str
    first: int  # the number of its first row in what `name` names


@dataclass
class Reading:
    """What is known about a log besides its episodes; filled while it is read."""

    columns: Columns
    names: LogNames
    options: ReadingOptions = field(default_factory=ReadingOptions)
    problems: Problems = field(default_factory=Problems)
    ids: EpisodeIds = field(default_factory=EpisodeIds)
    repeats: Repeats = field(default_factory=Repeats)
    selection: Selection = field(default_factory=Selection)
    rows: int = 0
    parts: list[Part] = field(default_factory=list)
    labelled_rows_missing: bool = False  # a label stands on some rows of an episode only

    def begin(self, chunk: Chunk) -> int:
        """Take note of the next chunk; the number of its first row here."""
        start = self.parts[-1].after if self.parts else 0
        part = len(self.parts) if chunk.part is None else chunk.part
        after = start + int(chunk.offset[-1]) + 1
        self.parts.append(Part(start, after, part, chunk.name, chunk.first))
        return start

    def refuse(self) -> None:
        """Raise if the log has doubtful rows that its options do not allow."""
        columns = self.columns
        self.problems.refuse(
            self.options.on_bad,
            self.repeats.doubt(columns.terminated is None and columns.truncated is None),
        )

    @property
    def caution(self) -> str:
        """How what was left out differs from what was kept, in words; empty if it does not."""
        return self.selection.sentence(self.names.states.values, self.options.cuts)

    def place(self, row: int) -> Place:
        """Where a row stands; rows are counted over all parts of the log."""
        found = self.parts[bisect_right(self.parts, row, key=lambda part: part.start) - 1]
        return Place(found.part, row - found.start + found.first, found.name)
