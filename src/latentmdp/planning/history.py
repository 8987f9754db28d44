"""The best history-dependent policy of a known latent MDP, with bounds that prove how good it is."""

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np

from latentmdp.errors import ModelError
from latentmdp.evaluation import evaluate
from latentmdp.model import LatentMDP
from latentmdp.planning.belief_grid import build_grid
from latentmdp.planning.belief_graph import GraphSearch
from latentmdp.planning.belief_tree import TreeSearch
from latentmdp.planning.joint import joint_view, start_beliefs
from latentmdp.planning.policy_parts import PolicyParts
from latentmdp.policy import PolicyGraph

Progress = Callable[[float, int, float, float], None]
QUANTUM = 20_000  # work units between looks at the clock
ROUNDING = 1e-11  # relative to the largest value: a gap below is rounding error


@dataclass(frozen=True)
class HistoryResult:
    """A policy, its exact value `lower`, and a bound `upper` on every history-dependent policy.

    `history` lists `(seconds, work, lower, upper)` as the search went on.
    """

    policy: PolicyGraph
    lower: float
    upper: float
    status: str  # optimal, gap, time, memory, interrupted, stalled
    method: str
    nodes: int
    work: int
    history: list[tuple[float, int, float, float]]


def plan_history(
    model: LatentMDP,
    *,
    gap: float | None = None,
    time_limit: float | None = None,
    work_limit: int | None = None,
    memory_limit: int | None = None,
    method: str = "auto",
    progress: Progress | None = None,
) -> HistoryResult:
    """Plan over all history-dependent policies until `upper - lower <= gap * |upper|`."""
    started = time.perf_counter()
    joint, start = joint_view(model), start_beliefs(model)
    memory = memory_limit or 4 * 2**30
    corners = build_grid(joint, model.H, model.S, 1)
    scale = float(np.abs(corners.upper).max())
    floor, tiny = ROUNDING * scale, 1e-15 * scale
    search: Any = (GraphSearch if method == 'layers' else TreeSearch)(joint, start, model.H, corners)
    history: list[tuple[float, int, float, float]] = []
    status = ""
    with _interruptible() as stop:
        while not status:
            low, high = search.bounds
            history.append((time.perf_counter() - started, search.work, low, high))
            if progress is not None:
                progress(*history[-1])
            if stop.is_set():
                status = "interrupted"
            elif time_limit is not None and history[-1][0] >= time_limit:
                status = "time"
            elif work_limit is not None and search.work >= work_limit:
                status = "time"
            else:
                quantum = QUANTUM
                if work_limit is not None:
                    quantum = min(quantum, work_limit - search.work)
                said = search.advance(quantum, gap or 0.0, floor, tiny, memory)
                if said in ("memory", "stalled", "closed"):
                    status = said
    low, high = search.bounds
    table = corners.action[:, :, int(np.argmax(model.w))].astype(np.int64)
    parts = PolicyParts(table, int(np.argmax(model.w)))
    search.policy_parts(parts, 0.05 * max((gap or 0.0) * abs(high) - (high - low), 0.0))
    policy = parts.graph()
    lower = evaluate(model, policy).value
    upper = max(high, lower)
    history.append((time.perf_counter() - started, search.work, lower, upper))
    return HistoryResult(
        policy, lower, upper, status, search.name, search.nodes, search.work, history
    )


@contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """Turns Ctrl-C into an event that is looked at between two pieces of work."""
    event = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        event.set()

    mine = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if mine:
        signal.signal(signal.SIGINT, on_signal)
    try:
        yield event
    finally:
        if mine:
            signal.signal(signal.SIGINT, signal.default_int_handler)
