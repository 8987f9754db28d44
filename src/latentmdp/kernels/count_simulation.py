"""Simulate the counts of whole blocks of episodes; exact in law, cost by updates, not episodes.

A block of episodes under one policy: split the episodes over the start cells by multinomial, then
each cell's arrivals over its outcomes. If no row's count passes a power of two, add it all up. If
one does, cut the block: the first half's share is multivariate hypergeometric at the root, and at
each cell given its share of arrivals (visits to a cell are exchangeable). Keep the half with the
first crossing; a block of one episode is a trajectory.

Any choice of block sizes that looks only at the past is exact. We jump to a low quantile of the
time of the next crossing, look again from there, and so on (`n, sqrt(n), ...` remain), and walk the
last few episodes step by step.
"""

from typing import NamedTuple

import numpy as np

from latentmdp.kernels._cache import kernel
from latentmdp.kernels.chain import END
from latentmdp.kernels.samplers import HYPERGEOMETRIC_LIMIT, binomial, hypergeometric
from latentmdp.kernels.step_simulation import walk


class Block(NamedTuple):
    """Buffers of a block and of its first half."""

    arrivals: np.ndarray  # (C,) episodes at each cell
    flow: np.ndarray  # (E,) episodes along each edge
    half_arrivals: np.ndarray  # (C,)
    half_flow: np.ndarray  # (E,)
    gain: np.ndarray  # (rows,) visits by row


@kernel
def draw_block(bitgen, scratch, episodes, model, chain, arrivals, flow):
    """Draw the counts of `episodes` episodes. Cost: cells, and edges of cells with arrivals."""
    cells, row, first, succ = chain.size[0], chain.row, chain.first, chain.succ
    indptr, conditional, start = model.indptr, model.conditional, model.start_conditional
    for c in range(cells):
        arrivals[c] = 0
    left = episodes
    for q in range(len(start)):
        arrivals[q] = binomial(bitgen, left, start[q], scratch)
        left -= arrivals[q]
    for c in range(cells):
        left = arrivals[c]
        offset = indptr[row[c]] - first[c]
        for k in range(first[c], first[c + 1]):
            x = left
            if x > 0 and k + 1 < first[c + 1]:  # the last outcome gets the remainder
                x = binomial(bitgen, left, conditional[k + offset], scratch)
            flow[k] = x
            left -= x
            if x > 0 and succ[k] != END:
                arrivals[succ[k]] += x


@kernel
def cut_block(bitgen, episodes, share, starts, chain, block):
    """Draw the first `share` of the block's `episodes` into its half; the rest remains."""
    cells, first = chain.size[0], chain.first
    arrivals, flow = block.arrivals, block.flow
    half_arrivals, half_flow = block.half_arrivals, block.half_flow
    for c in range(cells):
        half_arrivals[c] = 0
    pool, sample = episodes, share
    for q in range(starts):
        x = hypergeometric(bitgen, arrivals[q], pool - arrivals[q], sample)
        half_arrivals[q] = x
        pool -= arrivals[q]
        sample -= x
    for c in range(cells):
        pool, sample = arrivals[c], half_arrivals[c]
        arrivals[c] -= half_arrivals[c]
        for k in range(first[c], first[c + 1]):
            x = 0
            if sample > 0:
                x = hypergeometric(bitgen, flow[k], pool - flow[k], sample)
                sample -= x
            pool -= flow[k]
            half_flow[k] = x
            flow[k] -= x
            if x > 0 and chain.succ[k] != END:
                half_arrivals[chain.succ[k]] += x


@kernel
def crosses(chain, arrivals, gain, n):
    """Whether these arrivals take some row's count to or past a power of two."""
    for i in range(chain.size[2]):
        gain[chain.active[i]] = 0
    for c in range(chain.size[0]):
        gain[chain.row[c]] += arrivals[c]
    for i in range(chain.size[2]):
        r = chain.active[i]
        if (n[r] ^ (n[r] + gain[r])) > n[r]:  # a longer binary number
            return True
    return False


@kernel
def commit(model, chain, arrivals, flow, n, n_next, visits):
    """Add a block to the counts."""
    for c in range(chain.size[0]):
        if arrivals[c] > 0:
            r = chain.row[c]
            n[r] += arrivals[c]
            visits[c] += arrivals[c]
            offset = model.indptr[r] - chain.first[c]
            for k in range(chain.first[c], chain.first[c + 1]):
                n_next[k + offset] += flow[k]


@kernel
def next_power(n):
    """The smallest power of two above `n`."""
    power = 1
    while power <= n:
        power *= 2
    return power


@kernel
def jump(limit, H, chain, n, margin):
    """`(episodes, safe)`: how far to jump, and whether a crossing on the way is impossible.

    Row `r` gains about `x * rate` visits in `x` episodes, with a standard deviation guessed as
    `sqrt(x * spread)`; jump to where the first row is `margin` standard deviations short of its
    next power of two. The guess decides the cost, never the law.
    """
    best = float(limit)
    for i in range(chain.size[2]):
        r = chain.active[i]
        room = float(next_power(n[r]) - n[r] - 1)  # visits that do not trigger
        rate = chain.rate[r]
        if rate <= 0.0:
            continue
        spread = rate * max(1.0, 2.0 * rate / chain.peak[r] - 1.0 - rate)
        b = margin * np.sqrt(spread)
        x = (np.sqrt(b * b + 4.0 * rate * room) - b) / (2.0 * rate)
        best = min(best, max(x * x, np.floor(room / H)))
    episodes = max(1, int(best))
    safe = True
    for i in range(chain.size[2]):
        r = chain.active[i]
        safe &= (next_power(n[r]) - n[r] - 1) // H >= episodes
    if not safe:
        episodes = min(episodes, HYPERGEOMETRIC_LIMIT - 1)
    return episodes, safe


@kernel
def read_path(model, chain, block, path_cell, path_outcome):
    """The trajectory of a block of one episode."""
    c = 0
    while block.arrivals[c] == 0:
        c += 1
    for t in range(model.sizes[3]):
        k = chain.first[c]
        while block.flow[k] == 0:
            k += 1
        path_cell[t] = c
        path_outcome[t] = model.indptr[chain.row[c]] + k - chain.first[c]
        c = chain.succ[k]


@kernel
def bisect(bitgen, episodes, model, chain, block, n, n_next, visits, path_cell, path_outcome):
    """Find the first crossing in a drawn block: commit what lies before it, discard the rest.

    Returns its number in the block, from 1; that episode itself is in the path, visited but not
    yet counted.
    """
    before = 0
    starts = len(model.start_state)
    while episodes > 1:
        share = episodes // 2
        cut_block(bitgen, episodes, share, starts, chain, block)
        if crosses(chain, block.half_arrivals, block.gain, n):
            for c in range(chain.size[0]):
                block.arrivals[c] = block.half_arrivals[c]
            for k in range(chain.size[1]):
                block.flow[k] = block.half_flow[k]
            episodes = share
        else:
            commit(model, chain, block.half_arrivals, block.half_flow, n, n_next, visits)
            before += share
            episodes -= share
    read_path(model, chain, block, path_cell, path_outcome)
    for t in range(len(path_cell)):
        visits[path_cell[t]] += 1
    return before + 1


@kernel
def simulate_phase(
    bitgen, scratch, episodes, margin, patience,
    model, chain, block, n, n_next, visits, path_cell, path_outcome,
):  # fmt: skip
    """Simulate until the next trigger, at most `episodes`; returns `(simulated, triggered)`.

    As `walk`, and the same law. `patience`: walk as many steps as a block has edges, times this.
    """
    H = model.sizes[3]
    done = 0
    few = int(patience * chain.size[1] / H)
    while done < episodes:
        size, safe = jump(episodes - done, H, chain, n, margin)
        if size <= few:
            k, triggered = walk(
                bitgen, min(few, episodes - done), model, chain, n, n_next, visits,
                path_cell, path_outcome,
            )  # fmt: skip
            done += k
            if triggered:
                return done, True
            continue
        draw_block(bitgen, scratch, size, model, chain, block.arrivals, block.flow)
        if not safe and crosses(chain, block.arrivals, block.gain, n):
            done += bisect(
                bitgen, size, model, chain, block, n, n_next, visits, path_cell, path_outcome
            )
            return done, True
        commit(model, chain, block.arrivals, block.flow, n, n_next, visits)
        done += size
    return done, False
