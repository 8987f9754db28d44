"""The memory of optimistic planning: depth-first with bounds against all actions everywhere.

Both solves are by belief, for the model with one standard error of optimism, which breaks ties. The
planner then plans with the nodes that its policies get to. Times are processor milliseconds, the
best of three: from nothing, and again on the graph that is there.
Run: python benchmarks/memory.py [spec ...]
"""

import sys
import time
from pathlib import Path

import numpy as np

import latentmdp as lm
from latentmdp.model.counts import Counts
from latentmdp.optimism.confidence import BonusConstants, rule_named
from latentmdp.optimism.given import Given
from latentmdp.optimism.memory.graph import BeliefPolicy, MemoryGraph
from latentmdp.optimism.memory.rule import likelihoods
from latentmdp.optimism.memory.search import MemorySearch
from latentmdp.optimism.optimistic_plan import make_planner
from latentmdp.optimism.settings import MemoryKind

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from optimism_twin import random_counts

GRADUAL = "horizon=10,shared_support=1,shared_rewards=1"
SPECS = [
    "maze:size=5,goals=4,horizon=20",
    "maze:size=6,goals=6,horizon=20",
    "maze:size=7,goals=8,horizon=20",
    "hard:contexts=5,states=20",
    "troubleshoot",
    "riverswim",
    f"garnet:states=10,actions=3,contexts=3,{GRADUAL}",
    f"garnet:states=20,actions=4,contexts=5,{GRADUAL}",
]
ROOM = 400_000  # nodes


def solved(
    search: MemorySearch, counts: Counts, kind: MemoryKind
) -> tuple[MemoryGraph, BeliefPolicy, list[float]]:
    """A graph of this kind, its solution, and the milliseconds from nothing and again."""
    known, seen = search.known, search.model.shown()
    likelihood = likelihoods(known, counts, seen, np.arange(known.S * known.A))
    graph, taken = MemoryGraph(known, seen, kind), []
    for _ in range(3):
        graph.start(likelihood)
        for _ in range(2):
            start = time.process_time()
            found = graph.solve(search)
            taken.append((time.process_time() - start) * 1e3)
    return graph, found, [min(taken[::2]), min(taken[1::2])]


def row(spec: str, visits: int) -> str:
    """One line of the table."""
    model = lm.make(spec)
    known, counts = Given.of(model), Counts.for_model(model)
    n = random_counts(np.random.default_rng(0), model, (visits,))
    counts.n_next[:] = n.reshape(counts.rows, -1)[counts.slot_row, counts.next]
    counts.n[:] = visits
    counts.snapshot_all()
    constants = BonusConstants(known.M, known.S, known.A, known.H, 10**9)
    planner = make_planner(known, rule_named("mvp"), constants, "history", np.random.default_rng(0))
    start = time.process_time()
    answer = planner.replan(counts)
    cold = (time.process_time() - start) * 1e3
    search = planner.searches[1]
    search.set_table(planner.table)
    side = planner.graph.kind.side or 1e-9
    full, _, (full_ms, _) = solved(search, counts, MemoryKind(ROOM, side, every=True))
    lazy, found, (lazy_ms, warm_ms) = solved(search, counts, MemoryKind(ROOM, side))
    more = "more than " if full.count > 0.99 * ROOM else ""
    true = lm.evaluate(model, answer.policy).value
    return (
        f"| {spec} | {visits} | {side:g} | {more}{full.count} | {full_ms:.1f} | {lazy.count} | "
        f"{found.tried / max(found.is_solved.sum(), 1):.2f} | {lazy_ms:.1f} | {warm_ms:.1f} | "
        f"{answer.nodes} | {cold:.0f} | {true:.5f} |"
    )


if __name__ == "__main__":
    row("maze:size=3,goals=2,horizon=6", 10)  # compiles
    print(
        "| model | visits | cells | all: nodes | ms | depth-first: nodes | actions a node | ms | "
        "again ms | planned with | whole plan ms | true value |"
    )
    print("|---" * 12 + "|")
    for spec in sys.argv[1:] or SPECS:
        for visits in (100, 10_000):
            print(row(spec, visits), flush=True)
