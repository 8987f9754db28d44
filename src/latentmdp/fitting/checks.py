"""One chunk of whole episodes: put in order, looked through for doubtful rows, and closed."""

from __future__ import annotations

import numpy as np

from latentmdp.canonical import Ints
from latentmdp.fitting.coding import LARGEST_REWARD, NO_STEP, Table
from latentmdp.fitting.episodes import CENSORED, ENDED, OPEN, Episodes, Reading
from latentmdp.fitting.names import MISSING, UNKNOWN


class _Look:
    """Notes doubtful rows and marks their episodes."""

    def __init__(self, table: Table, owner: Ints, reading: Reading) -> None:
        self.table, self.owner, self.reading = table, owner, reading
        self.bad = np.zeros(int(owner[-1]) + 1, dtype=bool)

    def rows(self, kind: str, column: str | None, mask: np.ndarray) -> None:
        """Rows where `mask (n,)` holds are doubtful."""
        places = np.flatnonzero(mask)
        if len(places):
            first = int(self.table.row[places].min())
            self._note(kind, column, places, first)
            self.bad[self.owner[places]] = True

    def episodes(self, kind: str, column: str | None, mask: np.ndarray) -> None:
        """Episodes where `mask (E,)` holds are doubtful."""
        places = np.flatnonzero(mask)
        if len(places):
            first = int(self.table.row[np.isin(self.owner, places)].min())
            self._note(kind, column, places, first)
            self.bad[places] = True

    def _note(self, kind: str, column: str | None, places: Ints, row: int) -> None:
        self.reading.problems.note(kind, column or kind, places, self.reading.place(row))


def check_table(table: Table, reading: Reading, unlabelled: bool) -> Episodes:
    """The episodes of a table whose rows stand together by episode, without doubtful ones."""
    columns = reading.columns
    new = np.ones(len(table), dtype=bool)
    new[1:] = table.key[1:] != table.key[:-1]
    owner = np.cumsum(new) - 1
    if columns.step is not None and not _ascending(table.step, new):
        order = np.lexsort((table.row, table.step, owner))
        table = table.at(order)
    look = _Look(table, owner, reading)
    last = np.append(new[1:], True)
    _check_ids(look, new)
    _check_steps(look, new)
    context = _contexts(look, new, unlabelled)
    closing = last & (table.action == MISSING) & ~new & ~(np.abs(table.reward) > 0)
    for column, values in ((columns.state, table.state), (columns.action, table.action)):
        missing = (values == MISSING) & ~(closing if values is table.action else False)
        look.rows("missing", column, missing)
        look.rows("unknown", column, values == UNKNOWN)
    look.rows("missing", columns.reward, np.isnan(table.reward) & ~closing)
    look.rows("reward", columns.reward, np.abs(table.reward) >= LARGEST_REWARD)
    nxt = _next_states(look, last, closing)
    stop = _stops(look, last, closing)
    for column, numbers in table.extra.items():
        look.rows("missing", column, ~np.isfinite(numbers) & ~closing)
    return _good_ones(look, new, closing, context, nxt, stop)


def _ascending(step: np.ndarray, new: np.ndarray) -> bool:
    return bool((new[1:] | (step[1:] > step[:-1])).all())


def _check_ids(look: _Look, new: np.ndarray) -> None:
    keys = look.table.key[new]
    look.episodes("again", look.reading.columns.episode, look.reading.ids.holds(keys))
    look.reading.ids.add(keys)


def _check_steps(look: _Look, new: np.ndarray) -> None:
    column, step = look.reading.columns.step, look.table.step
    if column is None:
        return
    if step.dtype.kind == "f":
        look.rows("missing", column, np.isnan(step))
    known = step != NO_STEP
    look.rows("missing", column, ~known)
    inside = ~new[1:] & known[1:] & known[:-1]
    again = np.append(False, inside & (step[1:] == step[:-1]))
    look.rows("repeated", column, again)
    if step.dtype.kind == "i":
        gap = np.append(False, inside & (step[1:] - step[:-1] > 1))
        gap |= new & known & ((step < 0) | (step > 1))
        look.rows("gap", column, gap)


def _contexts(look: _Look, new: np.ndarray, unlabelled: bool) -> Ints:
    """`(E,)` the one context of each episode; its label may stand on some rows only."""
    table, columns = look.table, look.reading.columns
    starts = np.flatnonzero(new)
    if columns.context is None:
        return np.full(len(starts), MISSING, dtype=np.int64)
    look.rows("unknown", columns.context, table.context == UNKNOWN)
    high = np.maximum.reduceat(table.context, starts)
    given = table.context >= 0
    low = np.minimum.reduceat(np.where(given, table.context, np.iinfo(np.int64).max), starts)
    look.episodes("context", columns.context, (high >= 0) & (low != high))
    some = ~given & (high >= 0)[look.owner]
    if some.any():
        look.reading.labelled_rows_missing = True
    if not unlabelled:
        unknown = np.logical_or.reduceat(table.context == UNKNOWN, starts)
        look.episodes("unlabelled", columns.context, (high < 0) & ~unknown)
    return np.maximum(high, MISSING)


def _next_states(look: _Look, last: np.ndarray, closing: np.ndarray) -> Ints:
    """`(n,)` the state of the next row, or what the column says at the last one."""
    table, columns = look.table, look.reading.columns
    following = np.append(table.state[1:], MISSING)
    following[last] = MISSING
    if columns.next_state is None:
        return following
    look.rows("unknown", columns.next_state, table.next == UNKNOWN)
    look.rows("missing", columns.next_state, (table.next == MISSING) & ~last)
    differs = ~last & (table.next != following) & (table.next >= 0) & (following >= 0)
    look.rows("next", columns.next_state, differs)
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
            found[look.owner[(marks == 1) & final]] = True
    said = columns.terminated is not None or columns.truncated is not None
    if not said:
        return np.full(look.bad.shape, OPEN, dtype=np.int8)
    if columns.terminated is None:  # truncated alone: all others ended
        ended = ~cut
    return np.where(ended, ENDED, CENSORED).astype(np.int8)


def _good_ones(
    look: _Look, new: np.ndarray, closing: np.ndarray, context: Ints, nxt: Ints, stop: np.ndarray
) -> Episodes:
    table, good = look.table, ~look.bad
    look.reading.problems.left_out += int(look.bad.sum())
    kept = good[look.owner] & ~closing
    lengths = np.bincount(look.owner[kept], minlength=len(good))[good]
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    return Episodes(
        indptr, table.key[new][good], context[good], stop[good], table.state[kept],
        table.action[kept], table.reward[kept], nxt[kept],
        {name: x[kept] for name, x in table.extra.items()},
    )  # fmt: skip
