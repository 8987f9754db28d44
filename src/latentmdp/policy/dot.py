"""A policy graph in Graphviz's language."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from latentmdp.errors import printable
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.policy.belief import reach_weights

if TYPE_CHECKING:
    from latentmdp.policy.graph import PolicyGraph

NodeObservations = Callable[[int], list[tuple[int, int]]]


def to_dot(policy: "PolicyGraph", model: LatentMDP | None, max_nodes: int) -> str:
    """See `PolicyGraph.to_dot`."""
    states = (model.state_names if model else None) or [f"s{i}" for i in range(policy.S)]
    actions = model.action_names if model else None
    if model is None:
        roots, observations = policy.root, _own_observations(policy)
    else:
        roots = policy.root[(model.nu * model.w[:, None]).any(axis=0)]
        observations = _model_observations(policy, model)
    queue = list(dict.fromkeys(int(r) for r in roots))[:max_nodes]
    seen = set(queue)
    lines = ["digraph policy {", '  node [shape=box, fontname="sans-serif"];']
    for n in queue:
        action = actions[policy.action[n]] if actions else f"a{policy.action[n]}"
        step = "" if policy.stationary else f"{policy.step[n]}: "
        label = f"{step}{states[policy.state[n]]} / {action}"
        lines.append(f"  n{n} [label={_quoted(label)}];")
        for symbol, nxt in observations(n):
            to = int(policy.successors(n, symbol, nxt))
            if to not in seen:
                if len(seen) >= max_nodes:
                    continue
                seen.add(to)
                queue.append(to)
            lines.append(f"  n{n} -> n{to} [label={_quoted(f'{states[nxt]} ({symbol})')}];")
    return "\n".join([*lines, "}"])


def _own_observations(policy: "PolicyGraph") -> NodeObservations:
    def observations(n: int) -> list[tuple[int, int]]:
        e = slice(policy.indptr[n], policy.indptr[n + 1])
        return [(int(y), int(s)) for y, s in zip(policy.symbol[e], policy.next[e], strict=True)]

    return observations


def _model_observations(policy: "PolicyGraph", model: LatentMDP) -> NodeObservations:
    g = reach_weights(model, policy)

    def observations(n: int) -> list[tuple[int, int]]:
        if policy.ends_after(policy.step[n]):
            return []
        found = set()
        for m in np.flatnonzero(g[n]):
            row = model.row(policy.step[n], m, policy.state[n], policy.action[n])
            for i in range(model.indptr[row], model.indptr[row + 1]):
                found.add((int(model.symbol[i]), int(model.next[i])))
        return sorted(found)

    return observations


def _quoted(text: str) -> str:
    text = "\n".join(printable(line) for line in text.split("\n"))
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
