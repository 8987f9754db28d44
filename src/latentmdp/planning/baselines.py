"""Markov policies that users of multi-model MDPs expect, and what knowing the context is worth.

They cost one or a few sweeps, carry no certificate, and start the coordinate ascent.
"""

from collections.abc import Callable

import numpy as np

from latentmdp.canonical import Floats, Ints
from latentmdp.evaluation import context_optimal
from latentmdp.model import LatentMDP
from latentmdp.planning.markov_view import markov_view
from latentmdp.policy import PolicyGraph


def weight_select_update(model: LatentMDP) -> PolicyGraph:
    """Backward in time, the action with the best average over contexts, weighted by `w` alone.

    Steimle, Kaufman and Denton (2021). Ignores that a state may tell the contexts apart.
    """
    return PolicyGraph.from_table(_weight_select_update(model))


def mean_model(model: LatentMDP) -> PolicyGraph:
    """The optimal policy of the MDP with averaged transition probabilities and rewards."""
    return PolicyGraph.from_table(_mean_model(model))


def qmdp(model: LatentMDP) -> PolicyGraph:
    """The Markov variant of QMDP: the best average of the contexts' own optimal values, by `w`.

    As if the context were told after the next action.
    """
    return PolicyGraph.from_table(_qmdp(model))


def qmdp_memory(model: LatentMDP) -> PolicyGraph:
    """QMDP on the belief: `argmax_a sum_m b_m Q_m(s, a)`. A graph over all beliefs it meets.

    The number of nodes may grow exponentially with the horizon where beliefs do not merge.
    """
    later = context_optimal(model)[0]
    q = np.stack([row_values(model, later[t + 1]) for t in range(model.H)])  # (H, M, S, A)
    return PolicyGraph.from_belief(model, lambda t, s, belief: int(np.argmax(belief @ q[t, :, s])))


def knowing_the_context(model: LatentMDP) -> float:
    """What one could earn if told the context: a bound on every policy."""
    values, _ = context_optimal(model)
    return float((model.w[:, None] * model.nu * values[0]).sum())


def policy(name: str, model: LatentMDP) -> PolicyGraph:
    """The baseline `name`, a key of `TABLES`."""
    return PolicyGraph.from_table(TABLES[name](model))


def table(name: str, model: LatentMDP) -> Ints:
    """`(H, S)` actions of the baseline `name`, a key of `TABLES`."""
    return TABLES[name](model)


def _weight_select_update(model: LatentMDP) -> Ints:
    """A backward sweep in which nothing arrives."""
    from latentmdp.kernels.markov_sweep import pull_back

    view = markov_view(model)
    table = np.tile(view.choice[view.choice_ptr[:-1]], (view.H, 1))
    pull_back(
        table, np.zeros((view.H, view.M, view.S)), view.w, view.row_reward, view.indptr, view.next,
        view.prob, view.discount, view.A, view.choice_ptr, view.choice, np.empty((view.M, 2)),
        np.zeros((view.H + 1, view.M, view.S)),
    )  # fmt: skip
    return table


def _mean_model(model: LatentMDP) -> Ints:
    """Rewards of an outcome are averaged like probabilities."""
    from latentmdp.kernels.policies import backward_induction

    M, S, A = model.sizes
    row = np.repeat(np.arange(M * S * A), np.diff(model.indptr))
    context, place = np.divmod(row, S * A)
    outcome, which = np.unique(place * S + model.next, return_inverse=True)
    weight = model.w[context]
    prob = np.bincount(which, weight * model.prob)
    total = np.bincount(which, weight)  # 0 where only contexts of weight 0 can go
    reward = np.bincount(which, weight * model.reward) / np.where(total > 0, total, 1.0)
    indptr = np.searchsorted(outcome, np.arange(S * A + 1) * S)
    row_reward = np.add.reduceat(prob * reward, indptr[:-1])
    best = np.empty((model.H, 1, S), dtype=np.int64)
    backward_induction(
        indptr, outcome % S, prob, row_reward, A, model.discount,
        np.zeros((model.H + 1, 1, S)), best,
    )  # fmt: skip
    return best[:, 0].copy()


def _qmdp(model: LatentMDP) -> Ints:
    later, _ = context_optimal(model)
    return np.stack(
        [
            np.einsum("m,msa->sa", model.w, row_values(model, later[t + 1])).argmax(axis=1)
            for t in range(model.H)
        ]
    )


def row_values(model: LatentMDP, later: Floats) -> Floats:
    """`(M, S, A)` expected reward plus discounted `later (M, S)` values."""
    M, S, A = model.sizes
    context = np.repeat(np.arange(M * S * A) // (S * A), np.diff(model.indptr))
    mean = np.add.reduceat(model.prob * later[context, model.next], model.indptr[:-1])
    return (model.row_reward + model.discount * mean).reshape(M, S, A)


TABLES: dict[str, Callable[[LatentMDP], Ints]] = {
    "wsu": _weight_select_update,
    "mean": _mean_model,
    "qmdp": _qmdp,
}
