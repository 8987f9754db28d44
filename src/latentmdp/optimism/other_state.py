"""One more state, which stands for everything that a log has not shown.

It is the last one, nobody leaves it, and it pays the least that a step can pay. Policies that are
handed out do not know it.
"""

from dataclasses import replace

import numpy as np

from latentmdp.csr import Floats, Ints
from latentmdp.model.counts import Counts
from latentmdp.optimism.given import Given
from latentmdp.policy.graph import PolicyGraph


def wider_rows(row: Ints, S: int, A: int) -> Ints:
    """Numbers of rows with one more state in each context."""
    return row + row // (S * A) * A


def wider_known(known: Given, least: Floats, other: Floats, lowest: float) -> Given:
    """`known` with one more state.

    `least (rows, S)` is paid on the way to the states that there are, `other (rows,)` on the way to
    the new one, `lowest` in it. Rows that pay the same on every way pay it themselves.
    """
    M, S, A = known.M, known.S, known.A
    row = wider_rows(np.arange(M * S * A), S, A)
    rows = M * (S + 1) * A
    same = (least == other[:, None]).all(axis=1)
    row_reward = np.full(rows, lowest)
    row_reward[row] = np.where(same, other, 0.0)
    next_reward: Floats | None = None
    if not same.all():
        next_reward = np.zeros((rows, S + 1))
        next_reward[row, :S] = np.where(same[:, None], 0.0, least)
        next_reward[row, S] = np.where(same, 0.0, other)
    row_symbol, next_symbol = np.zeros(rows, dtype=np.int64), known.next_symbol
    if next_symbol is None and next_reward is None:
        row_symbol[row] = known.row_symbol
    else:
        shown = known.row_symbol[:, None] if next_symbol is None else next_symbol
        next_symbol = np.zeros((rows, S + 1), dtype=np.int64)
        next_symbol[row, :S] = shown
    if next_symbol is not None and next_reward is None:
        next_reward = np.zeros((rows, S + 1))
    allowed = known.allowed
    if allowed is not None:
        allowed = np.concatenate([allowed, np.ones((1, A), dtype=bool)])
    return replace(
        known, S=S + 1, nu=np.concatenate([known.nu, np.zeros((M, 1))], axis=1),
        row_reward=row_reward, row_symbol=row_symbol, next_reward=next_reward,
        next_symbol=next_symbol, allowed=allowed,
    )  # fmt: skip


def wider_counts(counts: Counts, many: int) -> Counts:
    """Counts with one more state, of which `many` visits say that nobody leaves it."""
    M, S, A = counts.M, counts.S, counts.A
    stay = np.arange(M)[:, None] * ((S + 1) * A) + S * A + np.arange(A)
    row = np.concatenate([wider_rows(counts.slot_row, S, A), stay.ravel()])
    nxt = np.concatenate([counts.next, np.full(M * A, S)])
    N_next = np.concatenate([counts.N_next, np.full(M * A, many)])
    order = np.argsort(row, kind="stable")
    indptr = np.searchsorted(row[order], np.arange(M * (S + 1) * A + 1))
    result = Counts(M, S + 1, A, indptr, nxt[order])
    result.n_next[:] = N_next[order]
    np.add.at(result.n, row[order], N_next[order])
    result.snapshot_all()
    return result


def wider_policy(policy: PolicyGraph) -> PolicyGraph:
    """The policy with a node for the new state at every step."""
    H, S, N = policy.H, policy.S, policy.N
    new = N + np.arange(H)
    return PolicyGraph.from_arrays(
        np.append(policy.step, np.arange(H)), np.append(policy.state, np.full(H, S)),
        np.append(policy.action, np.zeros(H, dtype=np.int64)),
        np.append(policy.indptr, np.full(H, policy.indptr[-1])), policy.symbol, policy.next,
        policy.node, np.append(policy.root, new[0]), np.column_stack([policy.default, new]),
    )  # fmt: skip


def narrower_policy(policy: PolicyGraph) -> PolicyGraph:
    """The policy without nodes for the last state."""
    S = policy.S - 1
    kept = policy.state < S
    owner = np.repeat(np.arange(policy.N), np.diff(policy.indptr))
    edges = kept[owner] & (policy.next < S)
    new_id = np.cumsum(kept) - 1
    indptr = np.zeros(int(kept.sum()) + 1, dtype=np.int64)
    np.cumsum(np.bincount(owner[edges], minlength=policy.N)[kept], out=indptr[1:])
    return PolicyGraph.from_arrays(
        policy.step[kept], policy.state[kept], policy.action[kept], indptr, policy.symbol[edges],
        policy.next[edges], new_id[policy.node[edges]], new_id[policy.root[:S]],
        new_id[policy.default[:, :S]],
    )  # fmt: skip
