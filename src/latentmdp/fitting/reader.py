"""`read_episodes`: checked, coded, ordered episodes from a log, chunk by chunk.

It is the one function that turns a log into numbers; fitting, off-policy estimation and mixtures
without labels all read logs through it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from latentmdp.canonical import Ints
from latentmdp.fitting.checks import check_table
from latentmdp.fitting.coding import Table, code
from latentmdp.fitting.episodes import Episodes, Reading
from latentmdp.fitting.sources import Source


def read_episodes(
    source: Source, reading: Reading, *, unlabelled: bool = False
) -> Iterator[Episodes]:
    """The episodes of a log in chunks, without those that have doubtful rows.

    `reading` collects names, doubtful rows and sizes. An episode may go on in the next chunk; only
    the last one of a chunk can. With `unlabelled`, episodes without a context are no problem.
    Memory: one chunk, the names, and the ids of episodes (`EpisodeIds`).
    """
    held: Table | None = None  # the rows of the last episode, which may go on
    for chunk in source.chunks(reading.columns):
        if not len(chunk.frame):
            continue
        first = reading.begin(chunk)
        table = code(chunk, reading.columns, reading.names, first)
        reading.rows += len(chunk.frame)
        table = _with_ids(table, reading)
        table = table if held is None else held.then(table)
        if not len(table):
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
        if len(table):
            yield check_table(table, reading, unlabelled)
    if held is not None:
        yield check_table(held, reading, unlabelled)


def _with_ids(table: Table, reading: Reading) -> Table:
    """The rows that say which episode they are of; others are noted, and are of none."""
    if table.known_id.all():
        return table
    lost = np.flatnonzero(~table.known_id)
    place = reading.place(int(table.row[lost[0]]))
    reading.problems.note("missing", reading.columns.episode, lost, place)
    return table.at(np.flatnonzero(table.known_id))


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
