"""Exact evaluation of a policy graph: alpha vectors, value, variance, the return's distribution."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp.csr import Floats, Ints, pieces
from latentmdp.errors import ModelError
from latentmdp.evaluation.alpha_vectors import value_vectors
from latentmdp.model.horizons import needs_finite
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.model.units import NORMALISED, USER, Conversion
from latentmdp.policy.graph import as_policy

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 6  # contexts that a repr lists


@dataclass(frozen=True)
class Evaluation:
    """What a policy earns in a model.

    `alpha (N, M)`: expected remaining reward at each node in each context; `value`: of an episode;
    `variance`: `Var^pi` of Definition 1, the variance of an episode's total reward; `contexts (M,)`
    and `context_variances (M,)`: the same given the context. `to_frame` has these as a table.
    """

    alpha: Floats
    value: float
    variance: float
    contexts: Floats
    context_variances: Floats
    weights: Floats  # (M,) of the contexts
    context_names: tuple[str, ...] | None = None
    conversion: Conversion = Conversion()  # noqa: RUF009  # to the units before `normalized()`

    @property
    def units(self) -> str:
        """`normalised units` where values are not in the units of the rewards that were given."""
        return "" if self.conversion == Conversion() else NORMALISED

    def to_frame(self) -> "pd.DataFrame":
        """One row per context: `context` (its name, if it has one), `weight, value, variance`."""
        import pandas as pd  # loads slowly

        return pd.DataFrame(
            {
                "context": self.context_names or np.arange(len(self.contexts)),
                "weight": self.weights,
                "value": self.contexts,
                "variance": self.context_variances,
            }
        )

    def _repr_html_(self) -> str:
        """For notebooks, in a person's own units: the value, and a table by context."""
        from latentmdp.tables import notebook

        contexts, value = self.conversion.value(self.contexts), self.conversion.value(self.value)
        low, high = min(0.0, float(contexts.min())), max(0.0, float(contexts.max()))
        names = self.context_names or [str(m) for m in range(len(contexts))]
        columns = (names, *(x.tolist() for x in (self.weights, contexts)))
        variances = np.maximum([self.variance, *self.context_variances], 0.0)
        deviation, *deviations = self.conversion.difference(np.sqrt(variances)).tolist()
        rows = [
            (name, w, value, sd, notebook.bar(value, low, high))
            for name, w, value, sd in zip(*columns, deviations, strict=True)
        ]
        headers = ("context", "weight", "value", "standard deviation", "")
        heading = f"value {value:.6g}, standard deviation {deviation:.6g}"
        heading += f", in {USER}" if self.units else ""
        return notebook.page(heading, notebook.table(headers, rows))

    def __repr__(self) -> str:
        shown = ", ".join(f"{x:.6g}" for x in self.contexts[:SHOWN])
        more = f", ... {len(self.contexts)} in all" if len(self.contexts) > SHOWN else ""
        in_units = f", in {self.units}" if self.units else ""
        return (
            f"Evaluation(value {self.value:.6g}, variance {self.variance:.6g}, by context: "
            f"{shown}{more}{in_units}; alpha of {len(self.alpha)} nodes)"
        )


def evaluate(model: LatentMDP, policy: Any) -> Evaluation:
    """Evaluate `policy` in `model`, exactly. `O(N M Gamma)`.

    The policy is a `PolicyGraph`, a `Plan`, or a table of actions `(H, S)` or `(S,)`.
    A stationary policy (without a last step: `evaluation_stationary`) has values `alpha (N, M)` at
    its nodes with all steps of the model ahead.

    >>> from latentmdp import make
    >>> model = make("bandit:arms=2,contexts=2,horizon=3,seed=0")
    >>> ev = evaluate(model, np.zeros((3, model.S), dtype=int))
    >>> 0.0 <= ev.value <= 1.0 and ev.alpha.shape == (3 * model.S, 2)
    True
    """
    given = getattr(policy, "policy", policy)
    policy = as_policy(model, policy)
    alpha, var = value_vectors(model, policy)
    first, first_var = alpha[policy.root].T, var[policy.root].T  # (M, S)
    contexts = (model.nu * first).sum(axis=1)
    value = float(model.w @ contexts)
    carried = (model.nu * first_var).sum(axis=1)
    # Definition 1: the root's variance over (m, s) ~ w∘nu, then what each step decides.
    drawn = float(model.w @ (model.nu * (first - value) ** 2).sum(axis=1))
    own = (model.nu * (first - contexts[:, None]) ** 2).sum(axis=1) + carried
    if getattr(given, "stationary", False) and not policy.stationary:
        alpha = alpha[: given.N].copy()
    return Evaluation(
        alpha, value, drawn + float(model.w @ carried), contexts, own, model.w, model.context_names,
        model.conversion,
    )  # fmt: skip


def return_distribution(
    model: LatentMDP, policy: Any, max_atoms: int = 5_000_000
) -> tuple[Floats, Floats]:
    """`(totals, probabilities)` of an episode's total reward, ascending; exact.

    Follows all `(node, context, total so far)` forward; totals closer than rounding error merge.
    """
    needs_finite(model, "the distribution of the return")
    policy = as_policy(model, policy)
    m, s = np.nonzero(model.w[:, None] * model.nu)
    node, prob, total = policy.root[s], model.w[m] * model.nu[m, s], np.zeros(len(m))
    tolerance = 2.0**-44 * max(1.0, abs(model.min_return), abs(model.max_return))
    for t in range(policy.H):
        row = model.row(t, m, policy.state[node], policy.action[node])
        length = model.indptr[row + 1] - model.indptr[row]
        if length.sum() > max_atoms:
            raise ModelError(
                f"the distribution must have at most max_atoms={max_atoms} (node, context, total) "
                f"at a step; step {t} has {length.sum()}"
            )
        i = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
        i += np.repeat(model.indptr[row], length)
        before, m = np.repeat(node, length), np.repeat(m, length)
        prob = np.repeat(prob, length) * model.prob[i]
        total = np.repeat(total, length) + model.discount**t * model.reward[i]
        if t == policy.H - 1 and model.terminal is not None:
            total += model.discount**policy.H * model.terminal[m, model.next[i]]
        if t < policy.H - 1:
            node = policy.successors(before, model.symbol[i], model.next[i])
        else:
            node, m = np.zeros_like(before), np.zeros_like(m)
        order = np.lexsort((total, m, node))
        node, m, total, prob = node[order], m[order], total[order], prob[order]
        new = np.ones(len(order), dtype=bool)
        new[1:] = (
            (np.diff(node) != 0) | (np.diff(m) != 0) | (np.diff(total) > tolerance)
        )  # fmt: skip
        starts = np.flatnonzero(new)
        node, m, total, prob = node[new], m[new], total[new], np.add.reduceat(prob, starts)
    return total, prob


def context_optimal(model: LatentMDP) -> tuple[Floats, Ints]:
    """`(values (H+1, M, S), actions (H, M, S))` of each context solved as an MDP of its own.

    What one could earn knowing the context: `sum w_m nu_m(s) values[0, m, s]` bounds every policy.
    """
    from latentmdp.kernels.policies import backward_induction  # Numba loads slowly

    needs_finite(model, "context_optimal, which answers step by step,")
    value = np.zeros((model.H + 1, model.M, model.S))
    value[model.H] = model.terminal_or_zeros
    best = np.empty((model.H, model.M, model.S), dtype=np.int64)
    for first, end in reversed(pieces(model.H, len(model.next) / model.steps)):  # of the steps
        backward_induction(
            model.indptr, model.next, model.prob, model.row_reward, model.A, model.stride,
            model.discount, first, value[first : end + 1], best[first:end],
        )  # fmt: skip
    if model.allowed is None:
        return value, best
    if model.steps == 1:
        return value, model.substitute[np.arange(model.S), best]
    at = np.ix_(np.arange(model.H), np.arange(model.M), np.arange(model.S))
    return value, model.substitute[at[0], at[2], best]
