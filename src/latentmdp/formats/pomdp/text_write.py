"""Write a latent MDP as `.pomdp`: states are named context-state-step, one line per outcome.

A POMDP has no observation before the first action. Unless there is only one first state, an
additional step without reward shows it; rewards compensate for the discount of that step.
"""

from collections.abc import Iterator

import numpy as np

from latentmdp.errors import ModelError
from latentmdp.formats.pomdp.export import Export, write_lines
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.runtime.files import PathLike

MOST_LINES = 10**8


def save_pomdp(model: LatentMDP, path: PathLike) -> None:
    """Write a model as `.pomdp`; `load` gives back one with the same values.

    Its states are pairs of a state and a step.
    """
    export = Export(model)
    lines = export.count() * (model.horizon if export.is_finite else 1)
    if lines > MOST_LINES:
        raise ModelError(
            f"a .pomdp file must have at most {MOST_LINES} lines; it would have {lines} (a .pomdpx "
            "file is shorter)"
        )
    write_lines(path, _lines(export))


def first_state_is_known(model: LatentMDP) -> bool:
    """Whether all contexts start in the same single state."""
    return bool((model.nu == model.nu[0]).all() and model.nu[0].max() == 1.0)


def _lines(e: Export) -> Iterator[str]:
    model = e.model
    known = first_state_is_known(model)
    steps = int(model.horizon) if e.is_finite else 1
    timed = [[f"{look}-t{t}" if e.is_finite else look for look in e.looks] for t in range(steps)]
    seen = [look for looks in timed for look in looks] + ["end"] * e.is_finite
    states = seen + ["start"] * (not known)
    yield f"# A latent MDP with {model.M} contexts; states are named context-state-step."
    if e.is_finite:
        yield (
            f"# An episode has {steps} steps."
            if known
            else (f"# An episode has {steps + 1} steps; the first one shows the first state.")
        )
    yield f"discount: {model.discount!r}"
    yield "values: reward"
    yield f"states: {' '.join(f'{m}-{state}' for m in e.contexts for state in states)}"
    yield f"actions: {' '.join(e.actions)}"
    yield f"observations: {' '.join(seen)}"
    start = np.zeros((model.M, len(states)))
    start[:, e.first[int(model.nu[0].argmax())] if known else -1] = model.w
    yield f"start: {' '.join(map(repr, start.reshape(-1).tolist()))}"
    for m, context in enumerate(e.contexts):
        for look in seen:
            yield f"O: * : {context}-{look} : {look} 1.0"
        if not known:
            yield f"O: * : {context}-start : {seen[0]} 1.0"  # which never happens
            for s in np.flatnonzero(model.nu[m]).tolist():
                to = timed[0][e.first[s]]
                yield f"T: * : {context}-start : {context}-{to} {float(model.nu[m, s])!r}"
        if e.is_finite:
            yield f"T: * : {context}-end : {context}-end 1.0"
    scale = 1.0 if known else 1.0 / model.discount
    for t, looks in enumerate(timed):
        if not e.is_finite:
            yield from _steps(e, looks, looks, scale)
        elif t + 1 < steps:
            yield from _steps(e, looks, timed[t + 1], scale)
        else:
            yield from _last_step(e, looks, scale)


def _steps(e: Export, now: list[str], then: list[str], scale: float) -> Iterator[str]:
    for m, v, a, row in e.rows():
        here = f"{e.actions[a]} : {e.contexts[m]}-{now[v]}"
        for to, p, r in e.outcomes(row):
            there = f"{e.contexts[m]}-{then[to]}"
            yield f"T: {here} : {there} {p!r}"
            if e.model.rewards_on_transitions:
                yield f"R: {here} : {there} : * {r * scale!r}"
        if not e.model.rewards_on_transitions:
            yield f"R: {here} : * : * {float(e.model.row_reward[row]) * scale!r}"


def _last_step(e: Export, now: list[str], scale: float) -> Iterator[str]:
    """Whatever happens, it is the end; rewards on transitions are given by their expectation."""
    for m, v, a, row in e.rows():
        here = f"{e.actions[a]} : {e.contexts[m]}-{now[v]}"
        yield f"T: {here} : {e.contexts[m]}-end 1.0"
        yield f"R: {here} : * : * {float(e.model.row_reward[row]) * scale!r}"
