"""The behaviour of a log as the user gives it: a column, a table of probabilities, or a policy."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.fitting.fits import END
from latentmdp.fitting.off_policy import estimators
from latentmdp.fitting.off_policy.behaviour import Behaviour
from latentmdp.fitting.off_policy.estimators import LoggedSteps
from latentmdp.fitting.reading.episodes import Episodes
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.policy.graph import PolicyGraph, as_policy


def given_behaviour(episodes: Episodes, symbols: Ints, given: Any, model: LatentMDP) -> Behaviour:
    """The probability of each logged action by what was given.

    `given`: the name of a column, an array `(S, A)`, `(M, S, A)` or `(H, M, S, A)`, a policy, a
    plan, or a table of actions (whole numbers, `(H, S)` or `(S,)`). `symbols (n,)`: what a policy
    sees of each reward.
    """
    if isinstance(given, str):
        found, said = episodes.extra[given], f"given by column {given!r}"
    elif _is_policy(given, model):
        policy = as_policy(model, given, "behaviour")
        return Behaviour(_by_policy(episodes, symbols, policy, model), said="given by a policy")
    else:
        found, said = _by_table(episodes, given, model)
    bad = ~((found > 0.0) & (found <= 1.0 + 1e-9))
    if bad.any():
        i = int(np.argmax(bad))
        raise ModelError(
            "behaviour must be the probability of the action that was taken, above 0 and at most "
            f"1; in {_where(episodes, i)} it is {found[i]}"
        )
    return Behaviour(found, said=said)


def _is_policy(given: Any, model: LatentMDP) -> bool:
    """Whether it says which actions are taken, and not how likely they are."""
    if isinstance(getattr(given, "policy", given), PolicyGraph):
        return True
    array = np.asarray(given)
    table = array.dtype.kind in "iu" and array.shape in ((model.H, model.S), (model.S,))
    if table and array.shape == (model.S, model.A):
        raise ModelError(
            f"behaviour of the shape {array.shape} and whole numbers may be actions by step and "
            "state, or probabilities by state and action; give PolicyGraph.from_table(table), or "
            "an array of floats"
        )
    return table


def _by_table(episodes: Episodes, given: Any, model: LatentMDP) -> tuple[Floats, str]:
    try:
        table = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        table = np.zeros(0)
    H, M, S, A = model.H, model.M, model.S, model.A
    step = np.arange(len(episodes.state)) - np.repeat(episodes.indptr[:-1], episodes.lengths)
    context = episodes.context[episodes.owner]
    index: dict[tuple[int, ...], tuple[Ints, ...]] = {
        (S, A): (), (M, S, A): (context,), (H, M, S, A): (step, context)
    }  # fmt: skip
    named = model.state_names
    if named is not None and named[-1] == END and table.ndim > 1 and table.shape[-2] == S - 1:
        # as the log has states: nobody acts at the end
        table = np.concatenate([table, np.zeros_like(table[..., :1, :])], axis=-2)
    if table.shape not in index:
        raise ModelError(
            f"behaviour must be a column's name or have the shape {(S, A)} (by state), {(M, S, A)} "
            f"(by context) or {(H, M, S, A)} (by step and context), or be a policy; it is "
            f"{table.shape if table.size else type(given).__name__}"
        )
    if table.ndim > 2 and (context < 0).any():
        raise ModelError(
            f"behaviour of the shape {table.shape} needs the context of every episode; episode "
            f"{int(episodes.owner[np.argmax(context < 0)])} (from 0) has none"
        )
    said = {2: "state", 3: "context and state", 4: "step, context and state"}[table.ndim]
    return table[*index[table.shape], episodes.state, episodes.action], f"given by {said}"


def _by_policy(episodes: Episodes, symbols: Ints, policy: PolicyGraph, model: LatentMDP) -> Floats:
    """Ones, if the policy plays every action of the log; else the first that it does not play."""
    ones = np.ones(len(episodes.state))
    steps = LoggedSteps(
        episodes.indptr, episodes.state, episodes.action, symbols, episodes.next, episodes.reward,
        ones,
    )  # fmt: skip
    replayed = estimators.replay(steps, policy)
    if (replayed.ratio == 0.0).any():
        i = int(np.argmax(replayed.ratio == 0.0))
        states = model.state_names or range(model.S)
        actions = model.action_names or range(model.A)
        raise ModelError(
            "behaviour must be the policy that made the log; in "
            f"{_where(episodes, i)}, in state {states[episodes.state[i]]!r}, the log has action "
            f"{actions[episodes.action[i]]!r} and the policy plays "
            f"{actions[policy.action[replayed.node[i]]]!r}"
        )
    return ones


def _where(episodes: Episodes, row: int) -> str:
    owner = int(episodes.owner[row])
    return f"step {row - episodes.indptr[owner]} of episode {owner} (both from 0)"
