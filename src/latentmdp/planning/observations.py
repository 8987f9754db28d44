"""The agent's view of a latent MDP: one list of observations per `(state, action)`.

The canonical rows list outcomes per context. A planner over beliefs asks the other way round: which
observations `(symbol, next)` can follow `(s, a)`, and how likely is each in every context?
"""

from typing import NamedTuple

import numpy as np

from latentmdp.canonical import Floats, Ints
from latentmdp.kernels.beliefs import ObservationModel
from latentmdp.model import LatentMDP


class Start(NamedTuple):
    """The possible first states with their probabilities and the beliefs after seeing them."""

    state: Ints  # (n,)
    prob: Floats  # (n,)
    belief: Floats  # (n, M)


def observation_model(model: LatentMDP) -> ObservationModel:
    """The observations of `model`, all contexts side by side. `O(nnz log nnz + J M)`."""
    M, S, A = model.sizes
    row = np.repeat(np.arange(M * S * A), np.diff(model.indptr))
    context, place = np.divmod(row, S * A)
    symbols = int(model.symbol.max()) + 1
    key = (place * symbols + model.symbol) * S + model.next
    seen, number = np.unique(key, return_inverse=True)
    assert len(seen) < 2**32, "indices have 32 bits"
    likelihood = np.zeros((len(seen), M))
    likelihood[number, context] = model.prob
    place, rest = np.divmod(seen, symbols * S)
    symbol, following = np.divmod(rest, S)
    ptr = np.searchsorted(place, np.arange(S * A + 1))
    reward = np.array(model.row_reward.reshape(M, S * A).T, order="C")
    return ObservationModel(
        ptr.astype(np.uint32),
        following.astype(np.uint32),
        symbol,
        likelihood,
        reward,
        model.discount,
    )


def start_beliefs(model: LatentMDP) -> Start:
    """First states of positive probability and the beliefs `b_m ∝ w_m nu_m(s)` there."""
    weight = (model.w[:, None] * model.nu).T  # (S, M)
    prob = weight.sum(axis=1)
    state = np.flatnonzero(prob > 0)
    belief = weight[state] / prob[state, None]
    return Start(state, prob[state], np.ascontiguousarray(belief))
