"""Write a latent MDP as `.pomdpx`: the observed variables `state` and `step`, and `context`.

One entry per outcome, whatever the horizon.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from latentmdp.formats.pomdp.export import Export, write_lines
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.runtime.files import PathLike


def save_pomdpx(model: LatentMDP, path: PathLike) -> None:
    """Write a model as `.pomdpx`; `load` gives back one with the same values.

    Its states are pairs of a state and a step.
    """
    write_lines(path, _lines(Export(model)))


def _lines(e: Export) -> Iterator[str]:
    steps = [f"t{t}" for t in range(int(e.model.horizon) + 1)] if e.is_finite else []
    yield '<?xml version="1.0" encoding="ISO-8859-1"?>'
    yield '<pomdpx version="1.0" id="latentmdp"'
    yield ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
    yield ' xsi:noNamespaceSchemaLocation="pomdpx.xsd">'
    yield "<Description>A latent MDP: the context is hidden and stays."
    if e.is_finite:
        yield f"Episodes have {e.model.horizon} steps; nothing is earned in {steps[-1]}."
    yield "</Description>"
    yield f"<Discount>{e.model.discount!r}</Discount>"
    yield "<Variable>"
    yield _state_variable("state", True, e.looks)
    if e.is_finite:
        yield _state_variable("step", True, steps)
    yield _state_variable("context", False, e.contexts)
    yield '<ObsVar vname="nothing"><ValueEnum>none</ValueEnum></ObsVar>'
    yield f'<ActionVar vname="action"><ValueEnum>{" ".join(e.actions)}</ValueEnum></ActionVar>'
    yield '<RewardVar vname="reward"/>'
    yield "</Variable>"
    yield "<InitialStateBelief>"
    yield from _first_tables(e, steps)
    yield "</InitialStateBelief>"
    yield "<StateTransitionFunction>"
    yield from _table("state_1", "action context_0 state_0", _transitions(e))
    if e.is_finite:
        pairs = zip(steps, [*steps[1:], steps[-1]], strict=True)
        yield from _table("step_1", "step_0", ((f"{now} {then}", 1.0) for now, then in pairs))
    yield from _table("context_1", "context_0", [("- -", "identity")])
    yield "</StateTransitionFunction>"
    yield "<ObsFunction>"
    yield from _table("nothing", "context_1", [("* none", 1.0)])
    yield "</ObsFunction>"
    yield "<RewardFunction>"
    step, next_ = "step_0 " * e.is_finite, " state_1" * e.model.rewards_on_transitions
    parents = f"action {step}context_0 state_0{next_}"
    yield from _table("reward", parents, _rewards(e, steps), "Func", "ValueTable")
    yield "</RewardFunction>"
    yield "</pomdpx>"


def _first_tables(e: Export, steps: list[str]) -> Iterator[str]:
    """The observed variables first, since the context may depend on them: as SARSOP needs it."""
    w, nu = e.model.w, e.model.nu
    first = [e.looks[v] for v in e.first]
    if (nu == nu[0]).all():
        yield from _table("state_0", "null", zip(first, nu[0].tolist(), strict=True))
        yield from _table("context_0", "null", zip(e.contexts, w.tolist(), strict=True))
    else:
        joint = w[:, None] * nu
        marginal = joint.sum(axis=0)
        possible = marginal > 0.0
        given = np.tile(w[:, None], len(e.looks))  # (M, V); the prior where it never starts
        given[:, e.first[possible]] = joint[:, possible] / marginal[possible]
        entries = (
            (f"{e.looks[v]} {e.contexts[m]}", float(p)) for (m, v), p in np.ndenumerate(given)
        )
        yield from _table("state_0", "null", zip(first, marginal.tolist(), strict=True))
        yield from _table("context_0", "state_0", entries)
    if e.is_finite:
        yield from _table("step_0", "null", [(steps[0], 1.0)])


def _transitions(e: Export) -> Iterator[tuple[str, float]]:
    for m, v, a, row in e.rows():
        given = f"{e.actions[a]} {e.contexts[m]} {e.looks[v]}"
        for to, p, _ in e.outcomes(row):
            yield f"{given} {e.looks[to]}", p


def _rewards(e: Export, steps: list[str]) -> Iterator[tuple[str, float]]:
    """Rewards of all steps, then 0 for the last one: the last entry applies."""
    on_transitions = e.model.rewards_on_transitions
    step = "* " * e.is_finite
    for m, v, a, row in e.rows():
        given = f"{e.actions[a]} {step}{e.contexts[m]} {e.looks[v]}"
        if not on_transitions:
            yield given, float(e.model.row_reward[row])
        else:
            for to, _, r in e.outcomes(row):
                yield f"{given} {e.looks[to]}", r
    if e.is_finite:
        yield f"* {steps[-1]} * *{' *' * on_transitions}", 0.0


def _state_variable(name: str, is_seen: bool, values: list[str]) -> str:
    return (
        f'<StateVar vnamePrev="{name}_0" vnameCurr="{name}_1" fullyObs="{str(is_seen).lower()}">'
        f"<ValueEnum>{' '.join(values)}</ValueEnum></StateVar>"
    )


def _table(
    variable: str,
    parents: str,
    entries: Iterable[tuple[str, float | str]],
    element: str = "CondProb",
    numbers: str = "ProbTable",
) -> Iterator[str]:
    yield f'<{element}><Var>{variable}</Var><Parent>{parents}</Parent><Parameter type="TBL">'
    for place, value in entries:
        yield f"<Entry><Instance>{place}</Instance><{numbers}>{value}</{numbers}></Entry>"
    yield f"</Parameter></{element}>"
