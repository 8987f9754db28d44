"""What a learner hoped each action to be worth: its optimistic value of every alternative.

An alternative is taken once; then the policy goes on from its default nodes.
"""

from typing import TYPE_CHECKING

import numpy as np

from latentmdp.optimism.confidence import RULES
from latentmdp.optimism.given import Given
from latentmdp.optimism.model import ConfidenceModel
from latentmdp.optimism.reference import Reference
from latentmdp.optimism.substitutes import Substitutes
from latentmdp.policy.graph import PolicyGraph

if TYPE_CHECKING:
    from latentmdp.learning.run import Run
    from latentmdp.model.counts import Counts

MAX_WORK = 2**25  # rows x states x steps of a dense backup
MAX_KEPT = 2**19  # numbers (node, context, action) of one phase


def optimistic_actions(run: "Run", counts: "Counts", policy: PolicyGraph) -> np.ndarray | None:
    """`(N, M, A)` optimistic values at the policy's nodes; None where there are none to show.

    None for algorithms without optimism or without a cap, for sampled models (`psrl`), and where
    it would be large.
    """
    model = run.model
    rule = RULES.get(run.spec.algorithm)
    if rule is None or rule.random or rule.cap > 1.0:
        return None
    work = model.M * model.S**2 * model.A * model.H + policy.N * model.M * model.S
    if work > MAX_WORK or policy.N * model.M * model.A > MAX_KEPT:
        return None
    known = Given.of(model)
    if known.allowed is not None:
        counts = Substitutes(known).of(counts)
    optimistic = ConfidenceModel.of(known, counts, rule, run.spec.constants(model))
    return _alternatives(Reference(optimistic), policy)


def _alternatives(reference: Reference, policy: PolicyGraph) -> np.ndarray:
    M, S, A, H = (getattr(reference.known, size) for size in "MSAH")
    alpha, values = reference.alpha(policy), np.zeros((policy.N, M, A))
    for t in range(H):
        after = alpha[policy.default[t + 1]].T if t + 1 < H else np.zeros((M, S))
        every = reference.backup(np.arange(M * S * A), np.repeat(after, S * A, axis=0))
        nodes = np.flatnonzero(policy.step == t)
        values[nodes] = every.reshape(M, S, A)[:, policy.state[nodes]].transpose(1, 0, 2)
    np.put_along_axis(values, policy.action[:, None, None], alpha[:, :, None], axis=2)
    return values
