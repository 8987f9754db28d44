"""Markov policies that users of multi-model MDPs expect, and what knowing the context is worth.

They cost one or a few sweeps, carry no certificate, and start the coordinate ascent.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.errors import ModelError
from latentmdp.kernels.planning.markov_sweep import pull_back, table_value
from latentmdp.kernels.policies import backward_induction
from latentmdp.model.either_kind import AnyModel, ordinary
from latentmdp.model.horizons import is_infinite, needs_finite
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.planning.infinite.belief_grid import known_contexts
from latentmdp.planning.markov.view import markov_view, step_spans, view_spans
from latentmdp.policy.folding import folding
from latentmdp.policy.graph import PolicyGraph, fitted, playable
from latentmdp.runtime.files import memory_budget

QMDP_NODE_BYTES, QMDP_CONTEXT_BYTES = 1_500, 64  # of a node of `qmdp_memory`, and per context
ClockCheck = Callable[[], None]  # called between two pieces of work; raises to stop


def _never_stop() -> None:
    """A clock check that never stops the work."""


def weight_select_update(model: AnyModel) -> PolicyGraph:
    """Backward in time, the action with the best average over contexts, weighted by `w` alone.

    Steimle, Kaufman and Denton (2021). Ignores that a state may tell the contexts apart.
    """
    return policy("wsu", model)


def mean_model(model: AnyModel) -> PolicyGraph:
    """The optimal policy of the MDP with averaged transition probabilities and rewards."""
    return policy("mean", model)


def qmdp(model: AnyModel) -> PolicyGraph:
    """The Markov variant of QMDP: the best average of the contexts' own optimal values, by `w`.

    As if the context were told after the next action.
    """
    return policy("qmdp", model)


@folding
def qmdp_memory(
    model: LatentMDP, time_limit: float | None = 60.0, memory_limit: int | None = None
) -> PolicyGraph:
    """QMDP on the belief: `argmax_a sum_m b_m Q_m(s, a)`. A graph over the beliefs it meets.

    Their number may grow exponentially with the horizon where beliefs do not merge. Beliefs that
    time (in seconds) or memory (in bytes; default: a quarter of the machine's) do not suffice for
    act as the belief before the first step, as the policy does after unexpected observations.
    """
    needs_finite(model, "the baseline qmdp with memory")
    memory = memory_budget() if memory_limit is None else memory_limit
    most = memory // (QMDP_NODE_BYTES + QMDP_CONTEXT_BYTES * model.M)
    if most < model.H * model.S:
        raise ModelError(
            f"memory_limit must suffice for {model.H * model.S} nodes, one per step and state; "
            f"{memory} bytes suffice for about {most}"
        )
    later, _ = context_values(model)

    @lru_cache(maxsize=4)  # nodes come by step
    def values(t: int) -> Floats:
        return row_values(model, later[t + 1])

    policy = PolicyGraph.from_belief(
        model.unmasked(),
        lambda t, s, belief: int(np.argmax(belief @ values(t)[:, s])),
        max_nodes=most,
        time_limit=time_limit,
    )
    return playable(model, policy).for_model(model)


def knowing_the_context(model: AnyModel) -> float:
    """What one could earn if told the context: a bound on every policy."""
    model = ordinary(model)
    if is_infinite(model.horizon):
        _, known, _ = known_contexts(model, lambda: False)
        return float((model.w[:, None] * model.nu * known).sum())
    values, _ = context_values(model)
    return float((model.w[:, None] * model.nu * values[0]).sum())


def known_bound(model: LatentMDP, known: Floats, slack: float) -> Floats:
    """`(M, S)` bounds on knowing the context without a last step, from values `known` near them.

    Backed up, no value of `known + excess / (1 - discount)` rises above it. `slack` for rounding.
    """
    excess = max(float((row_values(model, known).max(axis=2) - known).max()), 0.0) + slack
    bound: Floats = known + excess / (1.0 - model.discount)
    return bound


def context_values(model: LatentMDP, check_clock: ClockCheck = _never_stop) -> tuple[Floats, Ints]:
    """`context_optimal`, looking at the clock on the way."""
    value = np.zeros((model.H + 1, model.M, model.S))
    best = np.empty((model.H, model.M, model.S), dtype=np.int64)
    for first, stop in reversed(step_spans(model.H, len(model.next))):
        backward_induction(
            model.indptr, model.next, model.prob, model.row_reward, model.A, model.discount,
            value[first : stop + 1], best[first:stop],
        )  # fmt: skip
        check_clock()
    return value, best


def context_start(model: LatentMDP, check_clock: ClockCheck = _never_stop) -> tuple[Floats, Ints]:
    """`(values (M, S) at the first step, table (H, S))`: each context solved as an MDP of its own.

    The table is that of the likeliest context. Values are kept for a few steps at a time.
    """
    likeliest = int(np.argmax(model.w))
    table = np.empty((model.H, model.S), dtype=np.int64)
    at_first = np.zeros((model.M, model.S))
    for first, stop, value, best in _context_spans(model):
        table[first:stop], at_first = best[:, likeliest], value[0]
        check_clock()
    return at_first, table


def table_value_lean(model: LatentMDP, table: Ints, check_clock: ClockCheck = _never_stop) -> float:
    """The value of a table of actions; alpha vectors are kept for a few steps at a time."""
    view = markov_view(model)
    value = np.zeros((1, view.M, view.S))
    for first, stop in reversed(view_spans(view)):
        value = _before(value, stop - first)
        worth = table_value(view, table[first:stop], value)
        check_clock()
    return float(worth)


def _context_spans(model: LatentMDP) -> Iterator[tuple[int, int, Floats, Ints]]:
    """Backward induction in each context by spans `(first, stop)` of steps, last to first.

    With `values (stop - first + 1, M, S)` and the best actions `(stop - first, M, S)`.
    """
    value = np.zeros((1, model.M, model.S))
    for first, stop in reversed(step_spans(model.H, len(model.next))):
        value = _before(value, stop - first)
        best = np.empty((stop - first, model.M, model.S), dtype=np.int64)
        backward_induction(
            model.indptr, model.next, model.prob, model.row_reward, model.A, model.discount,
            value, best,
        )  # fmt: skip
        yield first, stop, value, best


def _before(value: Floats, steps: int) -> Floats:
    """Room for the values of so many earlier steps, before the first ones of `value`."""
    longer = np.empty((steps + 1, *value.shape[1:]))
    longer[steps] = value[0]
    return longer


def policy(name: str, model: AnyModel) -> PolicyGraph:
    """The baseline `name`, a key of `TABLES`."""
    rows = ordinary(model)
    return fitted(model, playable(rows, PolicyGraph.from_table(action_table(name, rows))))


def action_table(name: str, model: LatentMDP) -> Ints:
    """`(H, S)` actions of the baseline `name`, a key of `TABLES`."""
    needs_finite(model, f"the baseline {name}, a policy for each step,")
    actions = np.zeros((model.H, model.S), dtype=np.int64)
    TABLES[name](model, actions, _never_stop)
    return actions


def _weight_select_update(model: LatentMDP, table: Ints, check_clock: ClockCheck) -> None:
    """A backward sweep in which nothing arrives."""
    view = markov_view(model)
    table[:] = view.choice[view.choice_ptr[:-1]]
    value, scratch = np.zeros((1, view.M, view.S)), np.empty((view.M, 2))
    for first, stop in reversed(view_spans(view)):
        nothing, value = np.zeros((stop - first, view.M, view.S)), _before(value, stop - first)
        pull_back(view, table[first:stop], nothing, scratch, value)
        check_clock()


def _mean_model(model: LatentMDP, table: Ints, check_clock: ClockCheck) -> None:
    """Rewards of an outcome are averaged like probabilities."""
    if model.stochastic_rewards:
        model = model.replace(observe_rewards=False)  # which has the mean reward of a next state
    M, S, A = model.sizes
    row = np.repeat(np.arange(M * S * A), np.diff(model.indptr))
    context, place = np.divmod(row, S * A)
    outcome, number = np.unique(place * S + model.next, return_inverse=True)
    weight = model.w[context]
    prob = np.bincount(number, weight * model.prob)
    total = np.bincount(number, weight)  # 0 where only contexts of weight 0 can go
    reward = np.bincount(number, weight * model.reward) / np.where(total > 0, total, 1.0)
    indptr = np.searchsorted(outcome, np.arange(S * A + 1) * S)
    row_reward = np.add.reduceat(prob * reward, indptr[:-1])
    value = np.zeros((model.H + 1, 1, S))
    for first, stop in reversed(step_spans(model.H, len(prob))):
        backward_induction(
            indptr, outcome % S, prob, row_reward, A, model.discount,
            value[first : stop + 1], table[first:stop, None],
        )  # fmt: skip
        check_clock()


def _qmdp(model: LatentMDP, table: Ints, check_clock: ClockCheck) -> None:
    for first, stop, value, _ in _context_spans(model):
        q = row_values(model, value[1:])  # (steps, M, S, A)
        table[first:stop] = np.einsum("m,tmsa->tsa", model.w, q).argmax(axis=2)
        check_clock()


def row_values(model: LatentMDP, later: Floats) -> Floats:
    """`(..., M, S, A)`: expected reward plus discounted `later (..., M, S)` values."""
    M, S, A = model.sizes
    context = np.repeat(np.arange(M * S * A) // (S * A), np.diff(model.indptr))
    value = model.prob * later[..., context, model.next]
    mean = np.add.reduceat(value, model.indptr[:-1], axis=-1)
    return (model.row_reward + model.discount * mean).reshape(*later.shape[:-2], M, S, A)


TABLES: dict[str, Callable[[LatentMDP, Ints, ClockCheck], None]] = {
    "wsu": _weight_select_update,
    "mean": _mean_model,
    "qmdp": _qmdp,
}
