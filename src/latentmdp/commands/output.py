"""How commands print: JSON, tables, text and progress; plain in a pipe, drawn on a terminal."""

import json
import math
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from threading import Timer
from typing import Any, NamedTuple

from latentmdp.errors import printable
from latentmdp.model.units import USER, USER_WORDS
from latentmdp.runtime.notice import notice
from latentmdp.runtime.strict_json import plain


class ShownUnits(NamedTuple):
    """The units of the numbers that a command prints."""

    name: str = ""  # empty if the model is not normalised
    of_model: str = ""  # the model's own units in words

    @property
    def facts(self) -> dict[str, str]:
        """For JSON."""
        return {"units": self.name} if self.name else {}

    def say(self, what: str = "values") -> None:
        """Print one line about the units, if the model is normalised."""
        if self.name == USER:
            print_text(f"{what} are in {USER_WORDS} (--model-units: in the model's units)")
        elif self.name:
            print_text(f"{what} are in {self.of_model} (--user-units: in yours)")


class PartlyDoneError(Exception):
    """Ctrl-C has ended a command that has printed how far it came."""


def in_units(model: Any, user_units: bool) -> tuple[Any, ShownUnits]:
    """The model in the units asked for."""
    if not model.units:
        return model, ShownUnits()
    name, words = USER if user_units else model.units, model.units_in_words
    return model.denormalized() if user_units else model, ShownUnits(name, words)


def print_json(values: dict[str, Any]) -> None:
    """One JSON object on one line; what is not finite becomes null."""
    print(json.dumps(plain(values), allow_nan=False))


class Progress:
    """Shows on standard error what a command is doing; call it with the next thing it does.

    On a terminal that is one line with a spinner, details and the time so far; elsewhere a plain
    line for each thing that takes longer than a second.
    """

    def __init__(self, what: str, quiet: bool = False) -> None:
        self._what = what
        self._live: Any = None
        self._timer: Timer | None = None
        self._quiet = quiet or sys.stderr is None

    def __call__(self, what: str) -> None:
        """Show the next thing."""
        self._what = what
        self.details("")
        self._stop_timer()
        if not self._quiet and self._live is None:
            line = f"{printable(what)} ..."
            self._timer = Timer(1.0, lambda: print(line, file=sys.stderr, flush=True))
            self._timer.daemon = True
            self._timer.start()

    def details(self, text: str) -> None:
        """Show how far it is, on a terminal."""
        if self._live is not None:
            words = f"{self._what} ({text})" if text else self._what
            self._live.update(self._task, description=printable(words))

    def __enter__(self) -> "Progress":
        if not self._quiet and sys.stderr.isatty():
            from rich import progress as rich
            from rich.console import Console

            text = rich.TextColumn("{task.description}", markup=False)
            columns = rich.SpinnerColumn(), text, rich.TimeElapsedColumn()
            self._live = rich.Progress(*columns, console=Console(stderr=True), transient=True)
            self._live.start()
            self._task = self._live.add_task("")
            notice.show = self.details
        self(self._what)
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop_timer()
        if self._live is not None:
            notice.show = None
            self._live.stop()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def on_terminal() -> bool:
    """Whether standard output is a terminal (not a pipe or a file)."""
    return sys.stdout.isatty()


def print_text(text: str) -> None:
    """Text for people, at a terminal's width; control characters of names in files are escaped."""
    lines = [printable(line) for line in text.split("\n")]
    if on_terminal():
        lines = [_wrapped(line, shutil.get_terminal_size().columns) for line in lines]
    print("\n".join(lines))


READABLE = 100  # characters of a line of prose, however wide the terminal


def _wrapped(line: str, width: int) -> str:
    """The line broken between words; what follows goes below the last of its columns."""
    columns = [m.end() for m in re.finditer(r"\S {2,}", line) if m.end() <= width - 24]
    width = width if columns else min(width, READABLE)
    if len(line) <= width:
        return line
    start = columns[-1] if columns else 0
    text = textwrap.fill(
        line[start:], width - start, break_long_words=False, break_on_hyphens=False,
        subsequent_indent="" if start else "  ",
    )  # fmt: skip
    return line[:start] + text.replace("\n", "\n" + " " * start)


def print_table(headers: Sequence[str], rows: Iterable[Sequence[Any]], title: str = "") -> None:
    """A table: Rich's on a terminal, aligned plain text in a pipe. Numbers go to the right."""
    columns = list(zip(*rows, strict=True)) or [()] * len(headers)
    written = [column_texts(column) for column in columns]
    right = [all(_NUMBER.fullmatch(text) for text in texts) for texts in written]
    cells = [list(row) for row in zip(*written, strict=True)]
    if on_terminal():
        _print_rich_table(headers, cells, right, title)
        return
    widths = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
    if title:
        print(printable(title))
    for row in [list(headers), *cells]:
        parts = (
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        )
        print("  ".join(parts).rstrip())


_NUMBER = re.compile(r"|[-+]?[\d,]*\.?\d+(e[-+]?\d+)?%?|[-+]?inf|nan")
DIGITS = 6  # of the largest number in a column


def column_texts(values: Sequence[Any]) -> list[str]:
    """The cells of a column: numbers with the same decimals, so that their points align.

    >>> column_texts([0.25, 12.5, 3])
    ['0.25', '12.50', '3.00']
    >>> column_texts([1e-9, 2.0]), column_texts([10**6, 7])
    (['1e-09', '2'], ['1,000,000', '7'])
    """
    if not values or not all(type(v) in (int, float) for v in values):
        return [_cell(value) for value in values]
    if all(type(v) is int for v in values):
        return [f"{value:,}" for value in values]
    sizes = [abs(v) for v in values if v != 0]
    most, least = max(sizes, default=1.0), min(sizes, default=1.0)
    decimals = min(max(DIGITS - 1 - math.floor(math.log10(most)), 0), DIGITS) if most < 1e15 else 0
    if not most < 1e15 or least < 10.0 ** (2 - decimals):  # some would lose their digits
        return [_cell(value) for value in values]
    texts = [f"{value:,.{decimals}f}" for value in values]
    while decimals and all(text.endswith("0") for text in texts):
        texts, decimals = [text[:-1] for text in texts], decimals - 1
    return texts if decimals else [text.rstrip(".") for text in texts]


def _cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else printable(str(value))


def _print_rich_table(
    headers: Sequence[str], cells: list[list[str]], right: list[bool], title: str
) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(printable(title)) if title else None, box=box.SIMPLE_HEAD)
    for header, to_right in zip(headers, right, strict=True):
        table.add_column(Text(header), justify="right" if to_right else "left", no_wrap=to_right)
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))
    console = Console()
    columns = zip(headers, *cells, strict=True)
    least = [  # a column of numbers stays whole, words may go below one another
        max(len(part) for cell in column for part in ([cell] if whole else cell.split() or [""]))
        for column, whole in zip(columns, right, strict=True)
    ]
    if sum(least) + 3 * len(least) + 1 <= console.width:
        console.print(table)
        return
    widest = max(map(len, headers))  # too narrow for columns: one below the other, nothing is cut
    if title:
        print_text(title)
    for row in cells:
        for header, cell in zip(headers, row, strict=True):
            print_text(f"{header.ljust(widest)}  {cell}")
        print()
