"""Simulate the counts of whole blocks of episodes; exact in law, cost by updates, not episodes.

A block of episodes under one policy: split the episodes over the start cells by multinomial, then
each cell's arrivals over its outcomes. If no row's count passes a power of two, add it all up.

If one does, find the first episode that triggers. Given the counts, every assignment of paths to
episodes that has these counts is equally likely. So (a) the first half's share of the block is
multivariate hypergeometric, at the root and at each cell given its share of arrivals; and (b) a
random episode among those that visit a cell can be picked out by following the flows at random,
back to the root and on to the end, and its place in the block is uniform. Halve the block (a) until
the rows that cross have few visits in it; pick all episodes that make them (b); their places say
which one triggers; cut what is left of the block there (a).

Any choice of block sizes that looks only at the past is exact. We jump to a low quantile of the
time of the next crossing, look again from there, and so on (`n, sqrt(n), ...` remain), and walk the
last few episodes step by step.
"""

from typing import NamedTuple

import numpy as np

from latentmdp.kernels._cache import helper, kernel
from latentmdp.kernels.chain import END
from latentmdp.kernels.samplers import HYPERGEOMETRIC_LIMIT, binomial, hypergeometric, uniform
from latentmdp.kernels.step_simulation import draw, walk

FEW = 8  # arrivals at a cell that are faster to send on one by one
BOLD = 3.0  # visits that a block may be expected to overshoot by: few, so that picking finds them


class Block(NamedTuple):
    """Buffers of a block and of its first half."""

    arrivals: np.ndarray  # (C,) episodes at each cell
    flow: np.ndarray  # (E,) episodes along each edge
    half_arrivals: np.ndarray  # (C,)
    half_flow: np.ndarray  # (E,)
    gain: np.ndarray  # (rows,) visits by row
    place: np.ndarray  # (L,) places of the picked episodes in the block, ascending
    order: np.ndarray  # (L,) which one is there
    cells: np.ndarray  # (L, H) paths of the picked episodes
    outcomes: np.ndarray  # (L, H)


@helper
def draw_block(bitgen, scratch, episodes, law, chain, arrivals, flow):
    """Draw the counts of `episodes` episodes. Cost: cells, and edges of cells with arrivals."""
    cells, row, first, succ = chain.size[0], chain.row, chain.first, chain.succ
    indptr, conditional, start = law.indptr, law.conditional, law.start_conditional
    for c in range(cells):
        arrivals[c] = 0
    left = episodes
    for q in range(len(start)):
        arrivals[q] = binomial(bitgen, left, start[q], scratch)
        left -= arrivals[q]
    for c in range(cells):
        left = arrivals[c]
        offset = indptr[row[c]] - first[c]
        if left <= FEW:  # one by one is faster
            for k in range(first[c], first[c + 1]):
                flow[k] = 0
            for _ in range(left):
                k = draw(bitgen, law.cumulative, first[c] + offset, first[c + 1] + offset) - offset
                flow[k] += 1
                if succ[k] != END:
                    arrivals[succ[k]] += 1
            continue
        for k in range(first[c], first[c + 1]):
            x = left
            if x > 0 and k + 1 < first[c + 1]:  # the last outcome gets the remainder
                x = binomial(bitgen, left, conditional[k + offset], scratch)
            flow[k] = x
            left -= x
            if x > 0 and succ[k] != END:
                arrivals[succ[k]] += x


@helper
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


@helper
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


@helper
def commit(law, chain, arrivals, flow, n, n_next, visits):
    """Add a block to the counts."""
    for c in range(chain.size[0]):
        if arrivals[c] > 0:
            r = chain.row[c]
            n[r] += arrivals[c]
            visits[c] += arrivals[c]
            offset = law.indptr[r] - chain.first[c]
            for k in range(chain.first[c], chain.first[c + 1]):
                n_next[k + offset] += flow[k]


@helper
def next_power(n):
    """The smallest power of two above `n`."""
    n |= n >> 1
    n |= n >> 2
    n |= n >> 4
    n |= n >> 8
    n |= n >> 16
    n |= n >> 32
    return n + 1


@helper
def jump(limit, H, chain, n, margin):
    """`(episodes, safe)`: how far to jump, and whether a crossing on the way is impossible.

    Row `r` gains about `x * rate` visits in `x` episodes, with a standard deviation guessed as
    `sqrt(x * spread)`; jump to where the first row is `margin` standard deviations short of its
    next power of two, plus BOLD visits. The guess decides the cost, never the law.
    """
    best = float(limit)
    least = limit  # room per step, in episodes
    for i in range(chain.size[2]):
        r = chain.active[i]
        room = next_power(n[r]) - n[r] - 1  # visits that do not trigger
        rate = chain.rate[r]
        if rate <= 0.0:
            continue
        spread = rate * max(1.0, 2.0 * rate / chain.peak[r] - 1.0 - rate)
        b = margin * np.sqrt(spread)
        x = (np.sqrt(b * b + 4.0 * rate * (room + BOLD)) - b) / (2.0 * rate)
        best = min(best, x * x)
        least = min(least, room // H)
    episodes = max(1, least, int(best))
    if episodes <= least:
        return episodes, True
    return min(episodes, HYPERGEOMETRIC_LIMIT - 1), False


@kernel
def find_crossing(bitgen, episodes, law, chain, block, n, n_next, visits, path_cell, path_outcome):
    """The first crossing in a drawn block: count what lies before it, discard the rest.

    Returns its number in the block, from 1. That episode itself is in the path, visited but not
    yet counted.
    """
    before = 0
    starts = len(law.start_conditional)
    limit = len(block.place)
    while episodes > limit and crossing_visits(chain, block.gain, n) > limit:
        share = episodes // 2
        cut_block(bitgen, episodes, share, starts, chain, block)
        if crosses(chain, block.half_arrivals, block.gain, n):
            for c in range(chain.size[0]):
                block.arrivals[c] = block.half_arrivals[c]
            for k in range(chain.size[1]):
                block.flow[k] = block.half_flow[k]
            episodes = share
        else:
            commit(law, chain, block.half_arrivals, block.half_flow, n, n_next, visits)
            before += share
            episodes -= share
            crosses(chain, block.arrivals, block.gain, n)
    picked = pick_all(bitgen, episodes, law, chain, block, n)
    i = count_until_trigger(picked, chain, block, n, n_next, visits)
    for t in range(len(path_cell)):
        path_cell[t] = block.cells[block.order[i], t]
        path_outcome[t] = block.outcomes[block.order[i], t]
    place = block.place[i]
    cut_block(bitgen, episodes - picked, place - i, starts, chain, block)
    commit(law, chain, block.half_arrivals, block.half_flow, n, n_next, visits)
    return before + place + 1


@helper
def crossing_visits(chain, gain, n):
    """Visits in the block to the rows that cross."""
    total = 0
    for i in range(chain.size[2]):
        r = chain.active[i]
        if (n[r] ^ (n[r] + gain[r])) > n[r]:
            total += gain[r]
    return total


@helper
def pick_all(bitgen, episodes, law, chain, block, n):
    """Pick all episodes that visit a row which crosses, with their places; returns how many."""
    picked = np.int64(0)
    for t in range(law.H):
        for c in range(chain.layer[t], chain.layer[t + 1]):
            r = chain.row[c]
            if (n[r] ^ (n[r] + block.gain[r])) > n[r]:
                while block.arrivals[c] > 0:
                    pick(bitgen, c, t, law, chain, block, picked)
                    picked += 1
    place, order = block.place, block.order
    for i in range(picked):  # distinct places, each set equally likely; kept in ascending order
        drawn = -1
        while drawn < 0:
            drawn = min(int(uniform(bitgen) * episodes), episodes - 1)
            for j in range(i):
                if place[j] == drawn:
                    drawn = -1
                    break
        j = i
        while j > 0 and place[j - 1] > drawn:
            place[j], order[j] = place[j - 1], order[j - 1]
            j -= 1
        place[j], order[j] = drawn, i
    return picked


@helper
def pick(bitgen, cell, step, law, chain, block, i):
    """Take a random one of the block's episodes that visit `cell` out of it; store it as `i`."""
    H, first, succ = law.H, chain.first, chain.succ
    arrivals, flow = block.arrivals, block.flow
    cells, outcomes = block.cells, block.outcomes
    c = cell
    for t in range(step - 1, -1, -1):  # back to the root, by the flows into the cell
        left = uniform(bitgen) * arrivals[c]
        last = -1
        for b in range(chain.layer[t], chain.layer[t + 1]):
            for k in range(first[b], first[b + 1]):
                if succ[k] == c and flow[k] > 0:
                    if left >= 0.0:
                        cells[i, t] = b
                        outcomes[i, t] = law.indptr[chain.row[b]] + k - first[b]
                        last = k
                    left -= flow[k]
        flow[last] -= 1
        arrivals[c] -= 1
        c = cells[i, t]
    arrivals[c] -= 1
    c = cell
    for t in range(step, H):  # on to the end, by the flows out of the cell
        total = 0
        for k in range(first[c], first[c + 1]):
            total += flow[k]
        left = uniform(bitgen) * total
        last = -1
        for k in range(first[c], first[c + 1]):
            if flow[k] > 0:
                if left >= 0.0:
                    last = k
                left -= flow[k]
        flow[last] -= 1
        cells[i, t] = c
        outcomes[i, t] = law.indptr[chain.row[c]] + last - first[c]
        c = succ[last]
        if c != END:
            arrivals[c] -= 1


@helper
def count_until_trigger(picked, chain, block, n, n_next, visits):
    """Count picked episodes in order until one triggers, which is not counted; its number."""
    row, cells, outcomes = chain.row, block.cells, block.outcomes
    for i in range(picked):
        e, triggered = block.order[i], False
        for t in range(cells.shape[1]):
            r = row[cells[e, t]]
            n[r] += 1
            n_next[outcomes[e, t]] += 1
            visits[cells[e, t]] += 1
            triggered |= n[r] & (n[r] - 1) == 0
        if triggered:
            for t in range(cells.shape[1]):
                n[row[cells[e, t]]] -= 1
                n_next[outcomes[e, t]] -= 1
            return i
    return picked


@kernel
def simulate_block(bitgen, scratch, episodes, law, chain, block, n, n_next, visits):
    """Count `episodes` episodes at once, whatever their counts pass."""
    draw_block(bitgen, scratch, episodes, law, chain, block.arrivals, block.flow)
    commit(law, chain, block.arrivals, block.flow, n, n_next, visits)


@kernel
def simulate_phase(
    bitgen, scratch, episodes, margin, patience,
    law, chain, block, n, n_next, visits, path_cell, path_outcome,
):  # fmt: skip
    """Simulate until the next trigger, at most `episodes`; returns `(simulated, triggered, block)`.

    As `walk`, and the same law; but where `block > 0`, the trigger lies in a block of so many more
    episodes, drawn and not counted, and `find_crossing` must come next (apart, or both would
    compile twice). `patience`: walk as many steps as a block has edges, times this.
    """
    H = law.H
    done = 0
    few = int(patience * chain.size[1] / H)
    while done < episodes:
        size, safe = jump(episodes - done, H, chain, n, margin)
        if size <= few:
            k, triggered = walk(
                bitgen, min(few, episodes - done), law, chain, n, n_next, visits,
                path_cell, path_outcome,
            )  # fmt: skip
            done += k
            if triggered:
                return done, True, 0
            continue
        draw_block(bitgen, scratch, size, law, chain, block.arrivals, block.flow)
        if not safe and crosses(chain, block.arrivals, block.gain, n):
            return done, True, size
        commit(law, chain, block.arrivals, block.flow, n, n_next, visits)
        done += size
    return done, False, 0
