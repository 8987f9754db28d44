"""Counts of a log: how often what followed what, and sums of rewards; memory of the counts only.

A cell is one kind of step, `(context, state, action, kind, value, reading)`:

- `MOVED`, value = next state;
- `FINISHED`, the episode ended there: value = the next state, or -1 where the log has none;
- `STOPPED`, the last step of an episode whose next state is not known and of which nobody said
  whether it ended: value = the episode's length. Whether that is an end depends on the longest
  episode of the whole log (`cells.py`);
- `CUT`, the last step of a cut-off episode with no next state: only its reward counts.

Tallies of parts of a log add up to the tally of the whole, to the bit, in any order.
"""

from __future__ import annotations

import numpy as np

from latentmdp.csr import Ints
from latentmdp.errors import ModelError
from latentmdp.fitting.reading.classes import Classes, classes_of
from latentmdp.fitting.reading.episodes import CENSORED, ENDED, Episodes

MOVED, FINISHED, STOPPED, CUT = 0, 1, 2, 3


class Tally:
    """Cells, first states, returns and lengths of episodes."""

    def __init__(self, horizon: int | None = None, discount: float = 1.0) -> None:
        self.horizon, self.discount = horizon, discount
        self.cells = Classes.empty(6)  # see the module; of step rewards
        self.starts = Classes.empty(2)  # context, first state; of the episodes' returns
        self.lengths = Classes.empty(2)  # length, how it stopped; of the returns too
        self.longest = 0  # steps of the longest episode, also of one that was cut at a doubtful row

    def add(self, episodes: Episodes) -> None:
        """Count some episodes. `O(rows + cells)`."""
        if not len(episodes):
            return
        kind = np.full(len(episodes.state), MOVED, dtype=np.int64)
        value = episodes.next.copy()
        last = episodes.indptr[1:] - 1
        unknown = value[last] < 0
        ended = episodes.stop == ENDED
        kind[last[ended]] = FINISHED
        for stopped, code in ((CENSORED, CUT), (0, STOPPED)):
            kind[last[unknown & ~ended & (episodes.stop == stopped)]] = code
        stops = last[unknown & ~ended & (episodes.stop == 0)]
        value[stops] = episodes.lengths[kind[last] == STOPPED]
        columns = (
            episodes.context[episodes.owner], episodes.state, episodes.action, kind, value,
            episodes.reading,
        )  # fmt: skip
        self.cells.add(*classes_of(columns, episodes.reward))
        returns = self._returns(episodes)
        first = episodes.state[episodes.indptr[:-1]]
        self.starts.add(*classes_of((episodes.context, first), returns))
        how = episodes.stop.astype(np.int64)
        self.lengths.add(*classes_of((episodes.lengths, how), returns))
        self.longest = max(self.longest, int(episodes.written.max()))

    def _returns(self, episodes: Episodes) -> np.ndarray:
        """`(E,)` total reward of each episode, up to the horizon."""
        step = np.arange(len(episodes.state)) - np.repeat(episodes.indptr[:-1], episodes.lengths)
        reward = episodes.reward * self.discount**step if self.discount != 1.0 else episodes.reward
        if self.horizon is not None:
            reward = np.where(step < self.horizon, reward, 0.0)
        found = np.add.reduceat(reward, episodes.indptr[:-1])
        if (np.abs(found) >= 1e12).any():
            raise ModelError("an episode's total reward must be below 10^12 in size; one is not")
        return found

    def merge(self, other: Tally) -> None:
        """Add the tally of another part of the log, coded with the same names."""
        for name in ("cells", "starts", "lengths"):
            theirs = getattr(other, name)
            getattr(self, name).add(theirs.keys, theirs.sums)
        self.longest = max(self.longest, other.longest)

    def renumbered(self, contexts: Ints, states: Ints, actions: Ints, readings: Ints) -> Tally:
        """The same tally with other numbers: `contexts[m]` for `m`, and so on.

        `readings` is empty where the log has none.
        """
        made = Tally(self.horizon, self.discount)
        context, state, action, kind, value, reading = self.cells.keys
        reading = readings[reading] if len(readings) else reading
        moved = (kind <= FINISHED) & (value >= 0)
        value = np.where(moved, states[np.where(moved, value, 0)], value)
        keys = np.stack([contexts[context], states[state], actions[action], kind, value, reading])
        made.cells.add(keys, self.cells.sums)
        made.starts.add(
            np.stack([contexts[self.starts.keys[0]], states[self.starts.keys[1]]]),
            self.starts.sums,
        )
        made.lengths.add(self.lengths.keys, self.lengths.sums)
        made.longest = self.longest
        return made
