"""Doubtful rows of a log: for each kind one sentence, with the first place and a count."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from latentmdp.csr import Ints
from latentmdp.errors import ModelError, quoted

SENTENCES = {
    "missing": "{column} must not be missing; it is in {count}",
    "unlabelled": "every episode must have a context in {column}; none was found in {count}",
    "context": "an episode must have one context in {column}; several were found in {count}",
    "unknown": "{column} must be one of the names given as known; it is not in {count}",
    "reward": "{column} must be a finite number below 10^12 in size; it is not in {count}",
    "copy": "a row must not equal the row before it in every column (that is a copy, no step); it "
    "does in {count}",
    "repeated": "a step in {column} must come once in its episode; it came again in {count}",
    "gap": "whole numbers in {column} must count an episode's rows one by one, from 0 or 1; they "
    "do not in {count} (other kinds of numbers only put rows in order)",
    "next": "{column} must be the state of the episode's next row; it is not in {count}",
    "over": "an episode must be over where {column} says so; it went on in {count}",
    "again": "the rows of an episode must stand together (sort by {column}); they came again after "
    "others in {count}",
}
REMEDY = (
    "on_bad='cut' or --on-bad cut uses such episodes up to their first doubtful row; 'skip' leaves "
    "them out, which favours short episodes"
)
COPIES = (
    "duplicates='drop' or --duplicates drop drops copies, and so does on_bad='cut' or --on-bad cut"
)
TORN = "episodes whose rows are far apart cannot be left out: their first rows have been counted"
LONGEST_LIST = 350  # characters of all sentences in a message; each is shorter than that
EPISODES = ("unlabelled", "context", "again")  # kinds that are counted in episodes


class Place(NamedTuple):
    """Where a row stands; places are sorted as the log is."""

    part: int
    row: int  # its number in what `name` names
    name: str

    def __str__(self) -> str:
        name = self.name if len(self.name) <= 60 else f"{self.name[:60]}..."
        return f"row {self.row:,} of {name}"


@dataclass
class Problems:
    """Counts and first places of doubtful rows, by kind and column."""

    found: dict[tuple[str, str], tuple[int, Place]] = field(default_factory=dict)
    left_out: int = 0  # episodes of which nothing is used
    cut: int = 0  # episodes that are used up to the first of them
    copies: tuple[int, Place] | None = None  # rows that were dropped as copies, and the first one

    def note(self, kind: str, column: str, rows: Ints, place: Place) -> None:
        """Some rows (or episodes) are doubtful; `place` is where the first is."""
        if len(rows):
            self._add((kind, column), len(rows), place)

    def note_dropped(self, count: int, place: Place) -> None:
        """Some rows were dropped as copies of the rows before them."""
        before, first = self.copies or (0, place)
        self.copies = before + count, min(first, place)

    def merge(self, later: Problems) -> None:
        """Add those of a later part of the log."""
        for key, (count, place) in later.found.items():
            self._add(key, count, place)
        self.left_out += later.left_out
        self.cut += later.cut
        if later.copies is not None:
            self.note_dropped(*later.copies)

    def _add(self, key: tuple[str, str], count: int, place: Place) -> None:
        before, first = self.found.get(key, (0, place))
        self.found[key] = (before + count, min(first, place))

    @property
    def sentences(self) -> tuple[str, ...]:
        """One for each kind, in the order in which they were met; then copies that were dropped."""
        found = tuple(
            SENTENCES[kind].format(column=quoted(column), count=_count(kind, count))
            + f", first in {place}"
            for (kind, column), (count, place) in self.found.items()
        )
        if self.copies is None:
            return found
        count, place = self.copies
        words = "was a copy" if count == 1 else "were copies"
        return (
            *found,
            f"{counted(count, 'row')} {words} of the row before and dropped, first in {place}",
        )

    def _short(self) -> str:
        """The first sentences, as many as a message has room for."""
        sentences, size = self.sentences, 0
        for i, sentence in enumerate(sentences):
            size += len(sentence) + 2
            if i and size > LONGEST_LIST:
                return f"{'; '.join(sentences[:i])}; and {len(sentences) - i} more kinds of doubts"
        return "; ".join(sentences)

    def refuse(self, on_bad: str, repeats: str = "") -> None:
        """Raise if there are any; else, if there are some that cannot be left out.

        `repeats`: a doubt about rows that cannot be told from copies.

        The first rows of an episode that comes again in a later chunk have been counted. Whether it
        does depends on how the log is cut into chunks, and no answer may.
        """
        torn = any(kind == "again" for kind, _ in self.found)
        if torn or (on_bad == "raise" and self.found):
            copies = [COPIES] if any(kind == "copy" for kind, _ in self.found) else []
            remedy = TORN if torn else "; ".join([*copies, REMEDY])
            raise ModelError(f"{self._short()} ({remedy})")
        if repeats:
            raise ModelError(repeats)


def _count(kind: str, count: int) -> str:
    return counted(count, "episode" if kind in EPISODES else "row")


def counted(count: int, what: str) -> str:
    """`1 row`, `1,200 rows`."""
    return f"{count:,} {what}{'s' * (count != 1)}"
