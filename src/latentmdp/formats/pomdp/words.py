"""The words of a text file, read piece by piece; errors name the line.

Words are separated by white space; a colon is a word of its own; `#` starts a comment. Words are
UTF-8; comments may be in any encoding, as they are in published files.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isfinite
from typing import Any, BinaryIO

import numpy as np

from latentmdp.csr import Floats
from latentmdp.errors import ModelError
from latentmdp.formats.pomdp.names import Names
from latentmdp.runtime.files import PathLike, opened, reason, refusal

PIECE = 1 << 18  # bytes that are read at a time; more words at once make the collector slow
LONGEST_WORD = 10_000

COMMENT = re.compile(rb"#[^\n]*")
LONE_SIGN = re.compile(r"(?<![^\s:])([-+])[ \t]+(?=[0-9.])")  # `- 5` is a number, says the grammar

Cells = dict[str, list[list[Any]]]  # by statement: its names' numbers, column by column; the values


@contextmanager
def file_words(path: PathLike) -> Iterator["Words"]:
    """The words of a file; errors name the file."""
    with opened(path) as file:
        try:
            yield Words(file)
        except UnicodeDecodeError:
            raise refusal(path, "must be UTF-8 text") from None
        except (OSError, MemoryError) as error:
            raise refusal(path, f"cannot be read: {reason(error)}") from None


class _Floats(dict[str, float]):
    """The number that a word stands for; short words are cached, since they are frequent."""

    def __missing__(self, word: str) -> float:
        value = float(word)
        if not isfinite(value):
            raise ValueError
        if len(word) < 6:
            self[word] = value
        return value


class Words:
    """A file's words, taken one after the other."""

    def __init__(self, file: BinaryIO) -> None:
        self.file_bytes = os.fstat(file.fileno()).st_size
        self._file = file
        self._rest = b""  # what was read and not yet split: the beginning of a word
        self._in_comment = False
        self._next_number = 1  # of the line that is being read
        self._lines: list[list[str]] = [[]]  # words, by lines that have any
        self._numbers = [1]  # of these lines in the file
        self._begun = False
        self._row = self._column = 0  # the next word
        self._last_line = 1  # of the last word that was taken
        self._floats = _Floats()
        self._is_wrong = False  # what is wrong with the next line is to be said

    def ahead(self, count: int) -> str | None:
        """The word after `count` others, without taking it; None after the end of the file."""
        while True:
            left = count + self._column
            for row in range(self._row, len(self._lines)):
                if left < len(self._lines[row]):
                    return self._lines[row][left]
                left -= len(self._lines[row])
            if not self._read_piece():
                return None

    def take(self) -> str:
        """The next word."""
        word = self.ahead(0)
        if word is None:
            raise ModelError("the file ends in the middle of a statement")
        while self._column >= len(self._lines[self._row]):
            self._row, self._column = self._row + 1, 0
        self._column += 1
        self._last_line = self._numbers[self._row]
        return word

    def take_colon(self, after: str) -> None:
        """Take a colon; anything else is an error."""
        word = self.take()
        if word != ":":
            raise ModelError(f"a colon must follow {after[:80]!r}; found {word[:80]!r}")

    def number(self, what: str) -> float:
        """One number."""
        return float(next(self.numbers(1, what))[1][0])

    def numbers(self, count: int, what: str) -> Iterator[tuple[int, Floats]]:
        """Take `count` numbers, in parts: the number of those before, and the part."""
        done = 0
        while done < count:
            if self.ahead(0) is None:
                raise ModelError(f"{what} must have {count} numbers; the file ends after {done}")
            row, column = self._row, self._column
            part = self._take_many(count - done)
            try:
                values = np.array(list(map(self._floats.__getitem__, part)))
            except ValueError:
                k = next(k for k, word in enumerate(part) if not self._is_number(word))
                self._row, self._column = row, column
                for _ in range(k + 1):
                    self.take()
                raise ModelError(
                    f"{what} must have {count} finite numbers; number {done + k + 1} is "
                    f"{part[k][:80]!r}"
                ) from None
            yield done, values
            done += len(part)

    def statements(self, names: Mapping[str, Sequence[Names]]) -> Cells | None:
        """Statements `key : name : ... : name number` that come next, each in a line of its own.

        `names[key]` are the names that the key takes. None if the next line is none of them, or
        if something is wrong in the lines: that is left to be said when they are read word by word.
        """
        self.ahead(0)
        if self._row + 1 < len(self._lines) and self._column == len(self._lines[self._row]):
            self._row, self._column = self._row + 1, 0
        if self._column or self._is_wrong:
            self._is_wrong = False
            return None
        widths = {key: 2 * len(known) + 2 for key, known in names.items()}
        end = self._row
        while end < len(self._lines):
            line = self._lines[end]
            width = widths.get(line[0]) if line else None
            if width != len(line) or line[width - 3] != ":":
                break
            end += 1
        while end > self._row:
            try:
                cells = self._cells(self._lines[self._row : end], names)
            except (ValueError, ModelError):
                self._is_wrong = end == self._row + 1
                end = (self._row + end) // 2  # what comes before the line that is wrong
                continue
            self._row = end - 1
            self._column = len(self._lines[self._row])
            return cells
        return None

    def _cells(self, lines: list[list[str]], names: Mapping[str, Sequence[Names]]) -> Cells:
        cells: Cells = {}
        for key, known in names.items():
            columns = list(zip(*(line for line in lines if line[0] == key), strict=True))
            if columns:
                if any(column.count(":") != len(column) for column in columns[1:-1:2]):
                    raise ValueError
                cells[key] = [
                    list(map(known_name.__getitem__, column))
                    for known_name, column in zip(known, columns[2:-1:2], strict=True)
                ]
                cells[key].append(list(map(self._floats.__getitem__, columns[-1])))
        return cells

    @contextmanager
    def naming_lines(self) -> Iterator[None]:
        """Errors raised inside get the line of the last word taken."""
        try:
            yield
        except ModelError as error:
            raise ModelError(f"line {self._last_line}: {error}") from None

    def _take_many(self, most: int) -> list[str]:
        """A limited number of words of this piece."""
        lines, words = self._lines, self._lines[self._row][self._column :]
        while len(words) < most and self._row + 1 < len(lines):
            self._row += 1
            words += lines[self._row]
        self._column = len(lines[self._row]) - max(len(words) - most, 0)
        self._last_line = self._numbers[self._row]
        return words[:most]

    def _is_number(self, word: str) -> bool:
        try:
            self._floats[word]
        except ValueError:
            return False
        return True

    def _read_piece(self) -> bool:
        """Split more of the file; False at its end."""
        new = self._file.read(PIECE)
        raw = self._rest + new
        if not raw:
            return False
        cut = len(raw)
        if len(new) == PIECE:
            cut = max(raw.rfind(c) for c in (b" ", b"\n", b"\t", b"\r")) + 1
        if len(raw) - cut > LONGEST_WORD:
            raise ModelError(f"words must be at most {LONGEST_WORD} characters long")
        self._rest = raw[cut:]
        raw = raw[:cut]
        if self._in_comment:
            _, newline, rest = raw.partition(b"\n")
            raw = newline + rest
            self._in_comment = not newline
        if b"#" in raw:
            self._in_comment = raw.rfind(b"#") > raw.rfind(b"\n")
            raw = COMMENT.sub(b"", raw)
        text = raw.decode("utf-8" if self._begun else "utf-8-sig")
        self._begun = True
        self._append(_split_lines(text))
        return True

    def _append(self, rows: list[list[str]]) -> None:
        """Append lines to those that are left; the first may continue the last one."""
        self._lines = [self._lines[self._row][self._column :], *self._lines[self._row + 1 :]]
        self._numbers = self._numbers[self._row :]
        self._row = self._column = 0
        numbers = [number for number, row in enumerate(rows, self._next_number) if row]
        rows, self._next_number = [row for row in rows if row], self._next_number + len(rows) - 1
        if rows and numbers[0] == self._numbers[-1]:
            self._lines[-1] = self._lines[-1] + rows[0]
            rows, numbers = rows[1:], numbers[1:]
        self._lines += rows
        self._numbers += numbers


def _split_lines(text: str) -> list[list[str]]:
    if "- " in text or "+ " in text or "-\t" in text or "+\t" in text:
        text = LONE_SIGN.sub(r"\1", text)
    return [line.split() for line in text.replace(":", " : ").split("\n")]
