"""The model that a learner's snapshot amounts to: its transitions as far as they are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from latentmdp.model.latent_mdp import LatentMDP

if TYPE_CHECKING:
    from latentmdp.model.counts import Counts
    from latentmdp.optimism.given import Given

SHARED_VISITS = 1.0  # that all contexts together lend to each of them, at each state and action


def estimated_model(known: Given, counts: Counts) -> LatentMDP:
    """What is known, with transitions by the snapshot of the counts.

    A context that has few visits at a state and action of its own borrows from all: the transitions
    of all contexts together count as one more visit. So a context that was not there yet is as
    likely after an observation as before. Where no context was, the state stays as it is.
    """
    M, S, A = known.M, known.S, known.A
    seen = counts.N_next > 0
    row, nxt, visits = counts.slot_row[seen], counts.next[seen], counts.N_next[seen]
    code, number = np.unique(row % (S * A) * S + nxt, return_inverse=True)
    pair, following = np.divmod(code, S)  # (n,) what any context has seen
    own = np.zeros((M, len(code)))
    own[row // (S * A), number] = visits
    at_pair = np.bincount(pair, own.sum(axis=0), minlength=S * A)
    shared = SHARED_VISITS * own.sum(axis=0) / at_pair[pair]
    prob = (own + shared) / (counts.N.reshape(M, S * A)[:, pair] + SHARED_VISITS)
    unvisited = np.flatnonzero(at_pair == 0)
    pair = np.concatenate([pair, unvisited])
    following = np.concatenate([following, unvisited // A])
    prob = np.concatenate([prob, np.ones((M, len(unvisited)))], axis=1)
    context = np.repeat(np.arange(M), len(pair))
    pair, following = np.tile(pair, M), np.tile(following, M)
    row = context * (S * A) + pair
    reward = known.row_reward[row] + known.rewards(row, following)
    symbols = known.row_symbol if known.next_symbol is None else known.next_symbol
    return LatentMDP.from_rows(
        context, pair // A, pair % A, following, prob.reshape(-1), reward, known.w, known.nu,
        known.H, n_actions=A, allowed=known.allowed, observe_rewards=bool(symbols.any()),
        max_return=None,
    )  # fmt: skip
