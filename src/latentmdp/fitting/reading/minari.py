"""Minari data sets as logs: discrete observations and actions, the context in the `infos`.

An episode's context is the last value of `infos[COLUMN]`, as `LatentMDPEnv` gives it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from latentmdp.errors import ModelError
from latentmdp.fitting.reading.chunks import CHUNK_ROWS, Chunk
from latentmdp.fitting.reading.columns import Columns

OWN = ("episode", "step", "state", "action", "reward", "next_state", "terminated", "truncated")


@dataclass(frozen=True)
class MinariSource:
    """A data set; its columns are `OWN` and the keys of its infos."""

    dataset: Any
    rows: int = CHUNK_ROWS

    def header(self) -> list[str]:
        for episode in self.dataset.iterate_episodes():
            return [*OWN, *(key for key in _infos(episode) if key not in OWN)]
        raise ModelError("a log must have at least one episode; the data set has none")

    def chunks(self, columns: Columns) -> Iterator[Chunk]:
        keys = [name for name in columns.used if name not in OWN]
        waiting: list[pd.DataFrame] = []
        rows, first = 0, 1
        for episode in self.dataset.iterate_episodes():
            waiting.append(_frame(episode, keys))
            rows += len(waiting[-1])
            if rows >= self.rows:
                yield Chunk(pd.concat(waiting), "the data set", first)
                first, rows, waiting = first + rows, 0, []
        if waiting:
            yield Chunk(pd.concat(waiting), "the data set", first)


def load_minari(name: str) -> MinariSource:
    """A data set that is on this machine, by its id."""
    try:
        import minari
    except ImportError:
        raise ModelError("Minari data sets need minari: pip install 'latentmdp[minari]'") from None
    try:
        return MinariSource(minari.load_dataset(name))
    except (FileNotFoundError, ValueError, OSError) as error:
        raise ModelError(f"minari:{name} cannot be read: {' '.join(str(error).split())}") from None


def _infos(episode: Any) -> dict[str, Any]:
    return episode.infos or {}


def _frame(episode: Any, keys: list[str]) -> pd.DataFrame:
    state = _discrete("observations", episode.observations, episode.id)
    action = _discrete("actions", episode.actions, episode.id)
    n = len(action)
    columns: dict[str, Any] = {
        "episode": np.full(n, int(episode.id)), "step": np.arange(n), "state": state[:-1],
        "action": action, "reward": np.asarray(episode.rewards, dtype=np.float64),
        "next_state": state[1:], "terminated": np.asarray(episode.terminations, dtype=bool),
        "truncated": np.asarray(episode.truncations, dtype=bool),
    }  # fmt: skip
    for key in keys:
        found = _infos(episode).get(key)
        if found is None:
            raise ModelError(f"infos must have {key!r} in every episode; {episode.id} has none")
        columns[key] = [np.asarray(found).reshape(-1)[-1]] * n
    return pd.DataFrame(columns)


def _discrete(what: str, found: Any, episode: Any) -> np.ndarray:
    array = np.asarray(found)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ModelError(
            f"{what} must be whole numbers (Discrete spaces); episode {episode} has "
            f"{array.dtype} of shape {array.shape}"
        )
    return array
