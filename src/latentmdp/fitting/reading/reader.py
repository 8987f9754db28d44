"""`read_episodes`: checked, coded, ordered episodes from a log, chunk by chunk.

It is the one function that turns a log into numbers; fitting, off-policy estimation and mixtures
without labels all read logs through it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from latentmdp.csr import Ints
from latentmdp.errors import ModelError
from latentmdp.fitting.reading.checks import check_table
from latentmdp.fitting.reading.chunks import Chunk
from latentmdp.fitting.reading.coding import LOST_BEFORE, UNUSABLE, Table, code
from latentmdp.fitting.reading.episodes import Episodes, Reading
from latentmdp.fitting.reading.sources import Source
from latentmdp.runtime.files import memory_budget, reason

ROW_BYTES = 400  # of memory that one row takes while its episode is read and checked


def read_episodes(
    source: Source, reading: Reading, *, unlabelled: bool = False
) -> Iterator[Episodes]:
    """The episodes of a log in chunks, without those that have doubtful rows.

    `reading` collects names, doubtful rows and sizes. An episode may go on in the next chunk; only
    the last one of a chunk can. With `unlabelled`, episodes without a context are no problem.
    Memory: one chunk, the names, and the ids of episodes (`EpisodeIds`).
    """
    held: Table | None = None  # the rows of the last episode, which may go on, and of no episode
    cuts = reading.options.cuts
    for chunk in source.chunks(reading.columns):
        if not len(chunk.frame):
            continue
        if held is not None and len(held) > memory_budget() // ROW_BYTES:
            raise ModelError(
                f"rows of one episode must fit into memory; one has more than {len(held):,} rows "
                f"before row {chunk.first:,} of {chunk.name}"
            )
        first = reading.begin(chunk)
        table = _coded(chunk, reading, first)
        reading.rows += len(chunk.frame)
        _note_lost(table, reading)
        if not cuts:
            table = table.at(np.flatnonzero(table.known_id))
        table = table if held is None else held.then(table)
        waiting = None
        if not table.known_id.all():
            table, waiting = _around_lost(table)
        if not len(table):
            held = waiting
            continue
        last = table.key[-1]
        order = _by_episode(table)
        if order is not None:
            table = table.at(order)
        begins = int(np.argmax(table.key == last)) if order is None else None
        if begins is None:
            kept = table.key != last
            held, table = table.at(np.flatnonzero(~kept)), table.at(np.flatnonzero(kept))
        else:
            held, table = table.at(slice(begins, None)), table.at(slice(0, begins))
        held = held if waiting is None else held.then(waiting)
        if len(table):
            yield check_table(table, reading, unlabelled)
    if held is not None and not held.known_id.all():
        held, waiting = _around_lost(held)
        if len(held) and len(waiting):  # the last rows of the log have no id
            held = held.marked(np.array([len(held) - 1]), UNUSABLE)
    if held is not None and len(held):
        yield check_table(held, reading, unlabelled)


def _coded(chunk: Chunk, reading: Reading, first: int) -> Table:
    """The numbers of a chunk; cells that pandas cannot handle are refused."""
    try:
        return code(chunk, reading.columns, reading.names, first, reading.options.date_format)
    except ModelError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelError(
            f"cells must hold numbers, text or dates; {chunk.name} has others: {reason(error)}"
        ) from error


def _note_lost(table: Table, reading: Reading) -> None:
    """Rows that do not say which episode they are of are noted."""
    lost = np.flatnonzero(~table.known_id)
    if len(lost):
        place = reading.place(int(table.row[lost[0]]))
        reading.problems.note("missing", reading.columns.episode, lost, place)


def _around_lost(table: Table) -> tuple[Table, Table]:
    """The rows that have an id, with a mark where others stood; those at the end, apart.

    Between two rows of one episode, rows without an id are of that episode. Between two episodes
    they may be the end of the first or the beginning of the second: neither can be used.
    """
    known = np.flatnonzero(table.known_id)
    end = int(known[-1]) + 1 if len(known) else 0
    waiting, found = table.at(slice(end, None)), table.at(known)
    gap = np.flatnonzero(np.diff(known, prepend=-1) > 1)  # rows before which others stood
    same = (gap > 0) & (found.key[gap] == found.key[gap - 1])
    found = found.marked(gap[same], LOST_BEFORE).marked(gap[~same], UNUSABLE)
    return found.marked(gap[~same & (gap > 0)] - 1, UNUSABLE), waiting


def _by_episode(table: Table) -> Ints | None:
    """The order that puts the rows of each episode together, if they are not yet."""
    new = np.ones(len(table), dtype=bool)
    new[1:] = table.key[1:] != table.key[:-1]
    keys = table.key[new]
    if (keys[1:] > keys[:-1]).all() or len(np.unique(keys)) == len(keys):
        return None
    first: dict[int, int] = {}
    for i, key in enumerate(keys.tolist()):
        first.setdefault(key, i)
    rank = np.array([first[key] for key in keys.tolist()])[np.cumsum(new) - 1]
    return np.argsort(rank, kind="stable")
