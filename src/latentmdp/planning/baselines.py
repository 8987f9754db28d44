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
from latentmdp.model.horizons import is_infinite, needs_finite
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.model.rows import place_of
from latentmdp.planning.infinite.belief_grid import known_contexts
from latentmdp.planning.markov.view import markov_view, step_spans, view_spans
from latentmdp.policy.graph import PolicyGraph, fitted, playable
from latentmdp.runtime.files import memory_budget

QMDP_NODE_BYTES, QMDP_CONTEXT_BYTES = 1_500, 64  # of a node of `qmdp_memory`, and per context
ClockCheck = Callable[[], None]  # called between two pieces of work; raises to stop


def _never_stop() -> None:
    """A clock check that never stops the work."""


def weight_select_update(model: LatentMDP) -> PolicyGraph:
    """Backward in time, the action with the best average over contexts, weighted by `w` alone.

    Steimle, Kaufman and Denton (2021). Ignores that a state may tell the contexts apart.
    """
    return policy("wsu", model)


def mean_model(model: LatentMDP) -> PolicyGraph:
    """The optimal policy of the MDP with averaged transition probabilities and rewards."""
    return policy("mean", model)


def qmdp(model: LatentMDP) -> PolicyGraph:
    """The Markov variant of QMDP: the best average of the contexts' own optimal values, by `w`.

    As if the context were told after the next action.
    """
    return policy("qmdp", model)


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
        return row_values(model, later[t + 1], t)

    policy = PolicyGraph.from_belief(
        model.unmasked(),
        lambda t, s, belief: int(np.argmax(belief @ values(t)[:, s])),
        max_nodes=most,
        time_limit=time_limit,
    )
    return playable(model, policy).for_model(model)


def knowing_the_context(model: LatentMDP) -> float:
    """What one could earn if told the context: a bound on every policy."""
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
    value[model.H] = model.terminal_or_zeros
    best = np.empty((model.H, model.M, model.S), dtype=np.int64)
    for first, stop in reversed(step_spans(model.H, len(model.next) // model.steps)):
        backward_induction(
            model.indptr, model.next, model.prob, model.row_reward, model.A, model.stride,
            model.discount, first, value[first : stop + 1], best[first:stop],
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
    value = view.terminal[None]
    for first, stop in reversed(view_spans(view)):
        value = _before(value, stop - first)
        worth = table_value(view, table[first:stop], first, value)
        check_clock()
    return float(worth)


def _context_spans(model: LatentMDP) -> Iterator[tuple[int, int, Floats, Ints]]:
    """Backward induction in each context by spans `(first, stop)` of steps, last to first.

    With `values (stop - first + 1, M, S)` and the best actions `(stop - first, M, S)`.
    """
    value = model.terminal_or_zeros[None]
    for first, stop in reversed(step_spans(model.H, len(model.next) // model.steps)):
        value = _before(value, stop - first)
        best = np.empty((stop - first, model.M, model.S), dtype=np.int64)
        backward_induction(
            model.indptr, model.next, model.prob, model.row_reward, model.A, model.stride,
            model.discount, first, value, best,
        )  # fmt: skip
        yield first, stop, value, best


def _before(value: Floats, steps: int) -> Floats:
    """Room for the values of so many earlier steps, before the first ones of `value`."""
    longer = np.empty((steps + 1, *value.shape[1:]))
    longer[steps] = value[0]
    return longer


def policy(name: str, model: LatentMDP) -> PolicyGraph:
    """The baseline `name`, a key of `TABLES`."""
    return fitted(model, playable(model, PolicyGraph.from_table(action_table(name, model))))


def action_table(name: str, model: LatentMDP) -> Ints:
    """`(H, S)` actions of the baseline `name`, a key of `TABLES`."""
    needs_finite(model, f"the baseline {name}, a policy for each step,")
    actions = np.zeros((model.H, model.S), dtype=np.int64)
    TABLES[name](model, actions, _never_stop)
    return actions


def _weight_select_update(model: LatentMDP, table: Ints, check_clock: ClockCheck) -> None:
    """A backward sweep in which nothing arrives."""
    view = markov_view(model)
    table[:] = view.choice[view.choice_ptr[:-1]].reshape(view.steps, view.S)
    value, scratch = view.terminal[None], np.empty((view.M, 2))
    for first, stop in reversed(view_spans(view)):
        nothing, value = np.zeros((stop - first, view.M, view.S)), _before(value, stop - first)
        pull_back(view, table[first:stop], nothing, first, scratch, value)
        check_clock()


def _mean_model(model: LatentMDP, table: Ints, check_clock: ClockCheck) -> None:
    """Rewards of an outcome are averaged like probabilities."""
    if model.stochastic_rewards:
        model = model.replace(observe_rewards=False)  # which has the mean reward of a next state
    (M, S, A), T = model.sizes, model.steps
    row = np.repeat(np.arange(T * M * S * A), np.diff(model.indptr))
    context, place = row // (S * A) % M, place_of(model.sizes, row)
    outcome, number = np.unique(place * S + model.next, return_inverse=True)
    weight = model.w[context]
    prob = np.bincount(number, weight * model.prob)
    total = np.bincount(number, weight)  # 0 where only contexts of weight 0 can go
    reward = np.bincount(number, weight * model.reward) / np.where(total > 0, total, 1.0)
    indptr = np.searchsorted(outcome, np.arange(T * S * A + 1) * S)
    row_reward = np.add.reduceat(prob * reward, indptr[:-1])
    value = np.zeros((model.H + 1, 1, S))
    value[model.H, 0] = model.w @ model.terminal_or_zeros
    for first, stop in reversed(step_spans(model.H, len(prob) // T)):
        backward_induction(
            indptr, outcome % S, prob, row_reward, A, 0 if T == 1 else S * A, model.discount,
            first, value[first : stop + 1], table[first:stop, None],
        )  # fmt: skip
        check_clock()


def _qmdp(model: LatentMDP, table: Ints, check_clock: ClockCheck) -> None:
    for first, stop, value, _ in _context_spans(model):
        q = row_values(model, value[1:], first)  # (steps, M, S, A)
        table[first:stop] = np.einsum("m,tmsa->tsa", model.w, q).argmax(axis=2)
        check_clock()


def row_values(model: LatentMDP, later: Floats, first: int = 0) -> Floats:
    """`(..., M, S, A)`: expected reward plus discounted `later (..., M, S)` values.

    Those of step `first`, or with one more axis of the steps from there on.
    """
    M, S, A = model.sizes
    if model.steps > 1:
        by_step = [
            _step_values(model, v, first + t)
            for t, v in enumerate(later if later.ndim > 2 else [later])
        ]
        return np.array(by_step) if later.ndim > 2 else by_step[0]
    context = np.repeat(np.arange(M * S * A) // (S * A), np.diff(model.indptr))
    value = model.prob * later[..., context, model.next]
    mean = np.add.reduceat(value, model.indptr[:-1], axis=-1)
    return (model.row_reward + model.discount * mean).reshape(*later.shape[:-2], M, S, A)


def _step_values(model: LatentMDP, later: Floats, step: int) -> Floats:
    """`row_values` of one step of a step-dependent model."""
    M, S, A = model.sizes
    rows = slice(step * model.stride, (step + 1) * model.stride)
    ptr = model.indptr[rows.start : rows.stop + 1]
    mine = slice(ptr[0], ptr[-1])
    context = np.repeat(np.arange(M * S * A) // (S * A), np.diff(ptr))
    value = model.prob[mine] * later[context, model.next[mine]]
    mean = np.add.reduceat(value, ptr[:-1] - ptr[0])
    found: Floats = (model.row_reward[rows] + model.discount * mean).reshape(M, S, A)
    return found


TABLES: dict[str, Callable[[LatentMDP, Ints, ClockCheck], None]] = {
    "wsu": _weight_select_update,
    "mean": _mean_model,
    "qmdp": _qmdp,
}
