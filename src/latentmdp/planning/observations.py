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


class ObservationList(NamedTuple):
    """The observations of all contexts, without their probabilities."""

    ptr: Ints  # (S*A + 1,) observations of (s, a) are ptr[s*A + a] ... ptr[s*A + a + 1]
    symbol: Ints  # (J,) sorted by (symbol, next) inside (s, a)
    next: Ints  # (J,)
    number: Ints  # (nnz,) the observation of each outcome of the model


def listing_bytes(model: LatentMDP) -> int:
    """Memory of `list_observations`, about, at its peak."""
    return 64 * len(model.next) + 16 * model.S * model.A


def list_observations(model: LatentMDP) -> ObservationList:
    """The observations of `model`. `O(nnz log nnz)`."""
    M, S, A = model.sizes
    row = np.repeat(np.arange(M * S * A), np.diff(model.indptr))
    symbols = int(model.symbol.max()) + 1
    key = (row % (S * A) * symbols + model.symbol) * S + model.next
    del row
    seen, number = np.unique(key, return_inverse=True)
    place, rest = np.divmod(seen, symbols * S)
    symbol, following = np.divmod(rest, S)
    return ObservationList(np.searchsorted(place, np.arange(S * A + 1)), symbol, following, number)


def model_bytes(model: LatentMDP, J: int) -> int:
    """Memory of the observation model, with `J` observations."""
    M, S, A = model.sizes
    return 8 * (J * (M + 2) + S * A * (M + 1)) + 8 * len(model.next)


def observation_model(model: LatentMDP, listed: ObservationList | None = None) -> ObservationModel:
    """The observations of `model`, all contexts side by side. `O(nnz log nnz + J M)`."""
    M, S, A = model.sizes
    ptr, symbol, following, number = list_observations(model) if listed is None else listed
    assert len(symbol) < 2**32, "indices have 32 bits"
    likelihood = np.zeros((len(symbol), M))
    per_context = model.indptr[:: S * A]  # outcomes of each context are contiguous
    for m in range(M):
        mine = slice(per_context[m], per_context[m + 1])
        likelihood[number[mine], m] = model.prob[mine]
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
