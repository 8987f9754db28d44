"""The agent's view of a latent MDP: one list of observations per `(state, action)`.

The canonical rows list outcomes per context. A planner over beliefs asks the other way round: which
observations `(symbol, next)` can follow `(s, a)`, and how likely is each in every context?
"""

from typing import NamedTuple

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.kernels.beliefs import ObservationModel
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.planning.budget import StopCheck

LOOK_OUTCOMES = 5_000  # between two looks at the clock


class Start(NamedTuple):
    """The possible first states with their probabilities and the beliefs after seeing them."""

    state: Ints  # (n,)
    prob: Floats  # (n,)
    belief: Floats  # (n, M)


class ObservationList(NamedTuple):
    """The observations of all contexts, without their probabilities."""

    ptr: Ints  # (rows + 1,) observations of row (t, s, a), or (s, a), as in `ObservationModel`
    symbol: Ints  # (J,) sorted by (symbol, next) inside a row
    next: Ints  # (J,)
    key: Ints  # (J,) ascending: all of it as one number, as `_keys` has it


def listing_bytes(model: LatentMDP) -> int:
    """Memory of `list_observations` at its peak, at most."""
    return 48 * len(model.next) + 16 * model.steps * model.S * model.A


def list_observations(model: LatentMDP) -> ObservationList:
    """The observations of `model`. `O(nnz log M)`."""
    S, rows = model.S, model.steps * model.S * model.A
    seen = _seen(model, 0, model.M)
    place, rest = np.divmod(seen, (int(model.symbol.max()) + 1) * S)
    symbol, following = np.divmod(rest, S)
    ptr = np.searchsorted(place, np.arange(rows + 1))
    return ObservationList(ptr, symbol, following, seen)


def _seen(model: LatentMDP, first: int, stop: int) -> Ints:
    """The observations of some contexts, ascending."""
    if stop - first == 1:
        return _keys(model, first)
    half = (first + stop) // 2
    both = np.concatenate([_seen(model, first, half), _seen(model, half, stop)])
    both.sort(kind="stable")  # which merges sorted parts
    new = np.append(True, both[1:] != both[:-1])
    return both if new.all() else both[new]


def _keys(model: LatentMDP, m: int) -> Ints:
    """The number of each outcome of a context, ascending: by row, symbol, next."""
    rows = model.steps * model.S * model.A
    length = np.diff(model.indptr).reshape(model.steps, model.M, -1)[:, m].reshape(-1)
    mine = _outcomes(model, m)
    place = np.repeat(np.arange(rows), length)
    symbols = int(model.symbol.max()) + 1
    key: Ints = (place * symbols + model.symbol[mine]) * model.S + model.next[mine]
    return key


def _outcomes(model: LatentMDP, m: int) -> slice | Ints:
    """The outcomes of a context."""
    pairs = model.S * model.A
    parts = [
        (int(model.indptr[first]), int(model.indptr[first + pairs]))
        for first in range(m * pairs, len(model.indptr) - 1, model.M * pairs)
    ]
    return slice(*parts[0]) if len(parts) == 1 else np.concatenate([np.arange(*p) for p in parts])


def model_bytes(model: LatentMDP, J: int) -> int:
    """Memory of the observation model, with `J` observations."""
    M, S, A = model.sizes
    return 8 * (J * (M + 6) + model.steps * S * A * (M + 2)) + 32 * len(model.next) // M


def observation_model(model: LatentMDP, listed: ObservationList | None = None) -> ObservationModel:
    """The observations of `model`, all contexts side by side. `O(nnz log nnz + J M)`."""
    found = observations_in_time(model, listed, bool)
    assert found is not None
    return found


def observations_in_time(
    model: LatentMDP, listed: ObservationList | None, stop: StopCheck
) -> ObservationModel | None:
    """`observation_model`, or None if `stop()` says so on the way."""
    M, S, A = model.sizes
    listed = list_observations(model) if listed is None else listed
    assert len(listed.key) < 2**32, "indices have 32 bits"
    likelihood = np.zeros((len(listed.key), M))
    done = 0  # outcomes since the last look at the clock
    for m in range(M):
        if done > LOOK_OUTCOMES:
            done = 0
            if stop():
                return None
        done += len(model.next) // M
        likelihood[np.searchsorted(listed.key, _keys(model, m)), m] = model.prob[
            _outcomes(model, m)
        ]
    by_step = model.row_reward.reshape(model.steps, M, S * A)
    reward = np.ascontiguousarray(by_step.swapaxes(1, 2)).reshape(-1, M)
    last_reward = np.ascontiguousarray(model.last_row_reward.reshape(M, S * A).T)
    return ObservationModel(
        A,
        model.stride // M,
        listed.ptr.astype(np.uint32),
        listed.next.astype(np.uint32),
        listed.symbol,
        likelihood,
        reward,
        last_reward,
        np.ascontiguousarray(model.terminal_or_zeros.T),
        model.discount,
    )


def start_beliefs(model: LatentMDP) -> Start:
    """First states of positive probability and the beliefs `b_m ∝ w_m nu_m(s)` there."""
    weight = (model.w[:, None] * model.nu).T  # (S, M)
    prob = weight.sum(axis=1)
    state = np.flatnonzero(prob > 0)
    belief = weight[state] / prob[state, None]
    return Start(state, prob[state], np.ascontiguousarray(belief))
