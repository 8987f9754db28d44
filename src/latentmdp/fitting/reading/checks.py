"""One chunk of whole episodes: put in order, looked through for doubtful rows, and closed.

A doubtful row makes its episode doubtful. With `on_bad="cut"` the episode is used up to its first
doubtful row, as one that was cut off there: the last step used went on, and where it led is known
only if nothing puts that in doubt.
"""

from __future__ import annotations

import numpy as np

from latentmdp.csr import Ints
from latentmdp.fitting.reading.coding import LARGEST_REWARD, NO_STEP, NOT_SAID, UNUSABLE, Table
from latentmdp.fitting.reading.copies import without_copies
from latentmdp.fitting.reading.episodes import CENSORED, ENDED, OPEN, Episodes, Reading
from latentmdp.fitting.reading.names import MISSING, UNKNOWN

FOLLOWING, OWN, NOWHERE = 0, 1, 2  # what the last step used led to: the state of the next row, what
# its own cell of the next state says (nothing, without such a column), or nobody knows


class _Look:
    """Notes doubtful rows and marks their episodes; `(E,)` arrays are by episode."""

    def __init__(self, table: Table, copies: np.ndarray, new: np.ndarray, reading: Reading) -> None:
        self.table, self.copies, self.reading = table, copies, reading
        self.owner = np.cumsum(new) - 1
        self.start = np.flatnonzero(new)
        self.rows_of = np.diff(np.append(self.start, len(table)))  # (E,)
        self.place = np.arange(len(table)) - self.start[self.owner]  # (n,) in its episode
        episodes = len(self.start)
        self.bad = np.zeros(episodes, dtype=bool)
        self.useless = np.zeros(episodes, dtype=bool)  # no part of it can be used
        self.rows_lost = np.zeros(episodes, dtype=bool)  # its number of steps is not known
        self.cell = np.full(episodes, len(table))  # place of the first bad state, action or reward
        self._cut = 4 * self.rows_of + 3  # 4 * (rows used) + 3 - (what the last one led to)

    def rows(
        self, kind: str, column: str | None, mask: np.ndarray, *, use: int = 0,
        leads: int = FOLLOWING,
    ) -> None:  # fmt: skip
        """Rows where `mask (n,)` holds are doubtful.

        The rows before them can be used, and `use` rows more (-1: one less).
        """
        places = np.flatnonzero(mask)
        if not len(places):
            return
        self._note(kind, column, places, int(self.table.row[places].min()))
        owner = self.owner[places]
        self.bad[owner] = True
        used = np.maximum(self.place[places] + use, 0)
        np.minimum.at(self._cut, owner, 4 * used + 3 - leads)

    def cells(self, kind: str, column: str | None, mask: np.ndarray, leads: int) -> None:
        """Rows whose state, action or reward is doubtful."""
        self.rows(kind, column, mask, leads=leads)
        places = np.flatnonzero(mask)
        np.minimum.at(self.cell, self.owner[places], self.place[places])

    def broken(self, how: np.ndarray) -> None:
        """Rows before which others were lost, and rows of episodes that cannot be used."""
        places = np.flatnonzero(how)
        owner = self.owner[places]
        self.bad[owner] = self.rows_lost[owner] = True
        self.useless[owner[how[places] == UNUSABLE]] = True
        np.minimum.at(self._cut, owner, 4 * self.place[places] + 3 - OWN)

    def episodes(self, kind: str, column: str | None, mask: np.ndarray) -> None:
        """Episodes where `mask (E,)` holds are doubtful as a whole."""
        places = np.flatnonzero(mask)
        if len(places):
            first = int(self.table.row[np.isin(self.owner, places)].min())
            self._note(kind, column, places, first)
            self.bad[places] = self.useless[places] = True

    def _note(self, kind: str, column: str | None, places: Ints, row: int) -> None:
        self.reading.problems.note(kind, column or kind, places, self.reading.place(row))

    @property
    def used(self) -> Ints:
        """`(E,)` rows of each episode before its first doubt; all without one."""
        return np.where(self.useless, 0, self._cut // 4)

    @property
    def leads(self) -> Ints:
        """`(E,)` what the last row used led to."""
        return 3 - self._cut % 4


def check_table(table: Table, reading: Reading, unlabelled: bool) -> Episodes:
    """The episodes of a table whose rows stand together by episode, without doubtful ones."""
    columns = reading.columns
    table, copies = without_copies(_in_order(table, reading), reading)
    new = np.ones(len(table), dtype=bool)
    new[1:] = table.key[1:] != table.key[:-1]
    look = _Look(table, copies, new, reading)
    last = np.append(new[1:], True)
    _check_ids(look, new)
    _check_steps(look, new)
    context = _contexts(look, new, unlabelled)
    closing = last & (table.action == MISSING) & ~new & ~(np.abs(table.reward) > 0)
    look.rows("copy", columns.episode, copies, leads=OWN)
    look.cells("missing", columns.state, table.state == MISSING, OWN)
    look.cells("unknown", columns.state, table.state == UNKNOWN, OWN)
    look.cells("missing", columns.action, (table.action == MISSING) & ~closing, FOLLOWING)
    look.cells("unknown", columns.action, table.action == UNKNOWN, FOLLOWING)
    look.cells("missing", columns.reward, np.isnan(table.reward) & ~closing, FOLLOWING)
    look.cells("reward", columns.reward, np.abs(table.reward) >= LARGEST_REWARD, FOLLOWING)
    look.cells("missing", columns.reading, (table.reading == MISSING) & ~closing, FOLLOWING)
    look.cells("unknown", columns.reading, table.reading == UNKNOWN, FOLLOWING)
    nxt = _next_states(look, last)
    stop = _stops(look, last, closing)
    for column, numbers in table.extra.items():
        look.rows("missing", column, ~np.isfinite(numbers) & ~closing)
    _compare(look, closing)
    if reading.options.cuts:
        return _cut_ones(look, closing, context, nxt, stop)
    return _good_ones(look, new, closing, context, nxt, stop)


def _in_order(table: Table, reading: Reading) -> Table:
    """The rows of each episode by step.

    A row without a step is taken to stand after the row before it. If the order of rows is not
    that of the steps that are known, nobody can tell where it stands.
    """
    new = np.ones(len(table), dtype=bool)
    new[1:] = table.key[1:] != table.key[:-1]
    if reading.columns.step is None or _ascending(table.step, new):
        return table
    owner, step = np.cumsum(new) - 1, table.step
    missing = np.isnan(step) if step.dtype.kind == "f" else step == NO_STEP
    if missing.any():
        known = np.flatnonzero(~missing)
        step, owners = step[known], owner[known]
        mixed = owners[1:][(owners[1:] == owners[:-1]) & (step[1:] <= step[:-1])]
        table = table.marked(missing & np.isin(owner, mixed), UNUSABLE)
        before = np.maximum.accumulate(np.where(missing, -1, np.arange(len(table))))
        inside = (before >= 0) & (owner[before] == owner)
        least = -np.inf if table.step.dtype.kind == "f" else NO_STEP
        step = np.where(inside, table.step[before], least)
    return table.at(np.lexsort((table.row, step, owner)))


def _ascending(step: np.ndarray, new: np.ndarray) -> bool:
    return bool((new[1:] | (step[1:] > step[:-1])).all())


def _check_ids(look: _Look, new: np.ndarray) -> None:
    """Episodes that come again, and those that a row without an id stands in or beside."""
    keys = look.table.key[new]
    look.episodes("again", look.reading.columns.episode, look.reading.ids.holds(keys))
    look.reading.ids.add(keys)
    look.broken(look.table.broken)


def _check_steps(look: _Look, new: np.ndarray) -> None:
    column, step = look.reading.columns.step, look.table.step
    if column is None:
        return
    known = ~np.isnan(step) if step.dtype.kind == "f" else step != NO_STEP
    look.rows("missing", column, ~known, leads=OWN)
    inside = ~new[1:] & known[1:] & known[:-1]
    again = np.append(False, inside & (step[1:] == step[:-1])) & ~look.copies
    look.rows("repeated", column, again, use=-1, leads=OWN)
    look.rows_lost[look.owner[again]] = True
    if step.dtype.kind == "i":
        gap = np.append(False, inside & (step[1:] - step[:-1] > 1))
        gap |= new & known & ((step < 0) | (step > 1))
        look.rows("gap", column, gap, leads=OWN)
        look.rows_lost[look.owner[gap]] = True


def _contexts(look: _Look, new: np.ndarray, unlabelled: bool) -> Ints:
    """`(E,)` the one context of each episode; its label may stand on some rows only."""
    table, columns = look.table, look.reading.columns
    starts = np.flatnonzero(new)
    if columns.context is None:
        return np.full(len(starts), MISSING, dtype=np.int64)
    strange = table.context == UNKNOWN
    look.rows("unknown", columns.context, strange)
    look.useless[look.owner[strange]] = True
    high = np.maximum.reduceat(table.context, starts)
    given = table.context >= 0
    low = np.minimum.reduceat(np.where(given, table.context, np.iinfo(np.int64).max), starts)
    look.episodes("context", columns.context, (high >= 0) & (low != high))
    some = ~given & (high >= 0)[look.owner]
    if some.any():
        look.reading.labelled_rows_missing = True
    if not unlabelled:
        unknown = np.logical_or.reduceat(strange, starts)
        look.episodes("unlabelled", columns.context, (high < 0) & ~unknown)
    return np.maximum(high, MISSING)


def _next_states(look: _Look, last: np.ndarray) -> Ints:
    """`(n,)` the state of the next row, or what the column says at the last one."""
    table, columns = look.table, look.reading.columns
    following = np.append(table.state[1:], MISSING)
    following[last] = MISSING
    if columns.next_state is None:
        return following
    strange = table.next == UNKNOWN
    look.rows("unknown", columns.next_state, strange & last)
    look.rows("unknown", columns.next_state, strange & ~last, use=1, leads=NOWHERE)
    blank = (table.next == MISSING) & ~last
    look.rows("missing", columns.next_state, blank, use=1, leads=NOWHERE)
    differs = ~last & (table.next != following) & (table.next >= 0) & (following >= 0)
    look.rows("next", columns.next_state, differs, use=1, leads=NOWHERE)
    return np.where(last, table.next, following)


def _stops(look: _Look, last: np.ndarray, closing: np.ndarray) -> np.ndarray:
    """`(E,)` how each episode stopped; a mark must stand where it does."""
    table, columns = look.table, look.reading.columns
    before_closing = np.append(closing[1:], False)
    final = last | before_closing  # a mark may stand on the last step or on the row after it
    ended, cut = np.zeros(look.bad.shape, dtype=bool), np.zeros(look.bad.shape, dtype=bool)
    for column, marks, found in (
        (columns.terminated, table.terminated, ended),
        (columns.truncated, table.truncated, cut),
    ):
        if column is not None:
            look.rows("over", column, (marks == 1) & ~final)
            # where false is written before the last row, an empty cell is no false
            written = np.bincount(look.owner[(marks == 0) & ~final], minlength=len(ended)) > 0
            empty = (marks == NOT_SAID) & written[look.owner]
            either = np.append(marks[1:], NOT_SAID) != NOT_SAID
            empty &= ~closing & ~(before_closing & either)
            look.rows("missing", column, empty)
            found[look.owner[(marks == 1) & final]] = True
    said = columns.terminated is not None or columns.truncated is not None
    if not said:
        return np.full(look.bad.shape, OPEN, dtype=np.int8)
    if columns.terminated is None:  # truncated alone: all others ended
        ended = ~cut
    return np.where(ended, ENDED, CENSORED).astype(np.int8)


def _compare(look: _Look, closing: np.ndarray) -> None:
    """Count what doubtful rows or episodes look like beside the others."""
    table, reading = look.table, look.reading
    if reading.options.on_bad == "raise":
        return
    reward = np.where(closing, 0.0, table.reward)
    reward = np.where(np.abs(reward) < LARGEST_REWARD, reward, np.nan)
    if not reading.options.cuts:
        steps = look.rows_of - np.bincount(look.owner[closing], minlength=len(look.bad))
        total = np.add.reduceat(reward, look.start)
        reading.selection.add(look.bad, table.state[look.start], steps, total)
        return
    # rows that could be the first with a doubtful cell; the first row has no reward before it
    at_risk = (look.place <= np.minimum(look.used, look.cell)[look.owner]) & (look.place > 0)
    at_risk &= ~closing & ~look.useless[look.owner]
    doubtful = (look.place == look.cell[look.owner])[at_risk]
    sums = np.cumsum(np.where(np.isnan(reward), 0.0, reward))
    before = sums - np.where(np.isnan(reward), 0.0, reward)
    before -= before[look.start][look.owner]
    first = table.state[look.start][look.owner]
    reading.selection.add(doubtful, first[at_risk], look.place[at_risk], before[at_risk])


def _good_ones(
    look: _Look, new: np.ndarray, closing: np.ndarray, context: Ints, nxt: Ints, stop: np.ndarray
) -> Episodes:
    """The episodes without doubtful rows."""
    table, good = look.table, ~look.bad
    look.reading.problems.left_out += int(look.bad.sum())
    kept = good[look.owner] & ~closing
    lengths = np.bincount(look.owner[kept], minlength=len(good))[good]
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    return Episodes(
        indptr, table.key[new][good], context[good], stop[good], table.state[kept],
        table.action[kept], table.reward[kept], nxt[kept], table.reading[kept],
        {name: x[kept] for name, x in table.extra.items()},
    )  # fmt: skip


def _cut_ones(
    look: _Look, closing: np.ndarray, context: Ints, nxt: Ints, stop: np.ndarray
) -> Episodes:
    """The episodes up to their first doubtful rows."""
    table, used = look.table, look.used
    steps = look.rows_of - np.bincount(look.owner[closing], minlength=len(used))
    whole = used >= look.rows_of
    good = used > 0
    kept = (look.place < used[look.owner]) & ~closing
    # a doubtful last row without an action lost its state only: how the episode stopped is known
    stop = np.where(whole | (used >= steps), stop, CENSORED).astype(np.int8)
    ends = look.start[good & ~whole] + used[good & ~whole] - 1  # the last row used of each
    leads = look.leads[good & ~whole]
    own = (
        np.full(len(ends), MISSING) if look.reading.columns.next_state is None else table.next[ends]
    )
    nxt = nxt.copy()
    nxt[ends] = np.where(leads == FOLLOWING, nxt[ends], np.where(leads == OWN, own, MISSING))
    nxt = np.maximum(nxt, MISSING)
    problems = look.reading.problems
    problems.left_out += int((~good).sum())
    problems.cut += int((good & ~whole).sum())
    lengths = np.minimum(used, steps)[good]
    return Episodes(
        np.concatenate([[0], np.cumsum(lengths)]), table.key[look.start][good], context[good],
        stop[good], table.state[kept], table.action[kept], table.reward[kept], nxt[kept],
        table.reading[kept], {name: x[kept] for name, x in table.extra.items()},
        np.where(look.rows_lost, np.minimum(used, steps), steps)[good],
    )  # fmt: skip
