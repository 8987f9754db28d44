"""What the saved state of a planner must be, array by array; checked before anything is restored.

The kernels follow actions, edges and node numbers without looking. So every number that leads into
another array is checked here, and so is that what they lead to belongs there.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.errors import ModelError
from latentmdp.formats.schema import (
    LARGEST_WHOLE,
    STREAM,
    Table,
    fitting,
    number,
    refuse_where,
    truth,
    whole,
)
from latentmdp.optimism.given import Given

if TYPE_CHECKING:  # it imports this file
    from latentmdp.optimism.memory.graph import MemoryGraph

LONGEST_REST = 10**6  # turns between two tries: far more than any `Backoff` waits
LONGEST_WAIT = 2**53  # turns since a try was due: there is at most one turn per episode

PLANNER: Table = {
    "policy": whole("nodes", below="A"),
    "policies": whole("models", "nodes", below="A"),
    "backoffs": whole("backoffs", 2, low=-LONGEST_WAIT, high=LONGEST_REST),
    "visits_at_search": whole(high=LARGEST_WHOLE),
    "perturb_stream": STREAM,
    "rule_stream": STREAM,
}

MEMORY: Table = {  # besides `PLANNER`, with memory; `markov` is a planner of its own
    "kind": whole(below="kinds"),
    "visits_at_solve": whole(high=LARGEST_WHOLE),
    "changed_pairs": whole("changed pairs", below="pairs"),
    "has_result": truth(),
    "nodes": whole("memory", below="grown"),
}

GRAPH: Table = {  # memory nodes while they grow; numbers of nodes count the default ones too
    "observations": whole("observations", below="codes"),
    "likelihood": number("observations", "M", low=0.0, high=1.0),
    "belief": number("grown", "M", low=0.0, high=1.0),
    "state": whole("grown", below="S"),
    "step": whole("grown", below="H"),
    "edge": whole("grown", "A"),
    "succ": whole("expanded"),
}


def planner_state(state: Any, known: Given, models: int, memory: int = 0) -> dict[str, Any]:
    """The state of a planner for so many models, on the default nodes and these of its memory."""
    nodes = (known.H + 1) * known.S + memory
    sizes = {"A": known.A, "models": models, "nodes": nodes, "backoffs": 3 + models}
    return fitting(state, PLANNER, sizes, "solver.")


def memory_state(state: Any, known: Given, models: int, kinds: int) -> dict[str, Any]:
    """The state of a planner with memory; `graph_state` looks closer at its graph."""
    sizes = {"kinds": kinds, "pairs": known.S * known.A}
    sizes |= {"M": known.M, "S": known.S, "A": known.A, "H": known.H}
    sizes["codes"] = known.S * known.A * known.M * known.S
    found = fitting(state, {"graph": GRAPH, "markov": {}, **MEMORY}, sizes, "solver.")
    if len(np.unique(found["nodes"])) < len(found["nodes"]):
        raise ModelError("solver.nodes must name each node once; one appears twice")
    falls = np.diff(found["graph"]["observations"]) <= 0
    refuse_where(falls, "solver.graph.observations", "must be below the next one")
    planner = planner_state(state, known, models, len(found["nodes"]))
    return found | planner | {"markov": state["markov"]}


def graph_state(state: Any, grown: "MemoryGraph") -> dict[str, Any]:
    """The state of a graph of memory nodes that `grown` has room for."""
    known, seen = grown.known, grown.seen
    observations = len(seen.next)
    sizes = {"observations": observations, "M": known.M, "S": known.S, "A": known.A, "H": known.H}
    sizes["codes"] = known.S * known.A * known.M * known.S
    graph = fitting(state, GRAPH, sizes, "solver.graph.")
    used = grown.expanded + len(graph["succ"])
    firsts = np.flatnonzero(known.root.sum(axis=0) > 0)
    if not len(firsts) <= sizes["grown"] <= grown.room or used > len(grown.nodes.succ):
        raise ModelError("solver.graph must have room for its nodes and successors; it has not")
    first = graph["state"][: len(firsts)] != firsts
    refuse_where(first, "solver.graph.state", "must be a first state of the model")
    started = graph["step"][: len(firsts)] != 0
    refuse_where(started, "solver.graph.step", "must be 0 at a first state")
    total = np.abs(graph["belief"].sum(axis=1) - 1.0)
    refuse_where(total > 1e-6, "solver.graph.belief", "must sum to 1")
    _check_edges(graph, grown, used)
    return graph


def _check_edges(graph: dict[str, Any], grown: "MemoryGraph", used: int) -> None:
    """Each action of a node has its step's default block, or successors that follow from it."""
    known, seen, D = grown.known, grown.seen, grown.D
    state, step, edge = graph["state"], graph["step"], graph["edge"]
    row = state[:, None] * known.A + np.arange(known.A)
    width = seen.start[row + 1] - seen.start[row]
    default = step[:, None] * len(seen.next) + seen.start[row]
    own = edge != default
    outside = (edge < grown.expanded) | (edge + width > used) | (step[:, None] + 1 >= known.H)
    refuse_where(own & outside, "solver.graph.edge", "must lead to successors of its own")
    node, action = np.nonzero(own)
    length = width[node, action]
    place = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
    child = graph["succ"][np.repeat(edge[node, action] - grown.expanded, length) + place]
    after = np.repeat(step[node] + 1, length)
    nxt = seen.next[np.repeat(seen.start[row[node, action]], length) + place]
    inside = np.clip(child - D, 0, len(state) - 1)
    memory = (child - D == inside) & (state[inside] == nxt) & (step[inside] == after)
    follows = memory | (child == after * known.S + nxt)
    refuse_where(~follows, "solver.graph.succ", "must follow from its node and observation")
    outside_all = graph["succ"] >= D + len(state)
    refuse_where(outside_all, "solver.graph.succ", "must be a node of the graph")
