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

import numpy as np

from latentmdp.kernels._cache import helper, kernel
from latentmdp.kernels.chain import END
from latentmdp.kernels.samplers import HYPERGEOMETRIC_LIMIT, binomial, hypergeometric, uniform
from latentmdp.kernels.step_simulation import draw, walk_in
from latentmdp.kernels.world import world_at

FEW = 8  # arrivals at a cell that are faster to send on one by one
BOLD = 3.0  # visits that a block may be expected to overshoot by: few, so that picking finds them


@helper
def draw_block(w, bitgen, scratch, episodes):
    """Draw the counts of `episodes` episodes. Cost: cells, and edges of cells with arrivals."""
    arrivals, flow, first, succ = w.arrivals, w.flow, w.first, w.succ
    cells = w.size[0]
    for c in range(cells):
        arrivals[c] = 0
    left = episodes
    for q in range(w.starts):
        x = binomial(bitgen, left, w.start_conditional[q], scratch)
        arrivals[q] = x
        left -= x
    for c in range(cells):
        left = arrivals[c]
        begin, end = first[c], first[c + 1]
        offset = w.indptr[w.row[c]] - begin
        if left <= FEW:  # one by one is faster
            for k in range(begin, end):
                flow[k] = 0
            for _ in range(left):
                k = draw(bitgen, w.cumulative, begin + offset, end + offset) - offset
                flow[k] += 1
                if succ[k] != END:
                    arrivals[succ[k]] += 1
            continue
        for k in range(begin, end):
            x = left
            if x > 0 and k + 1 < end:  # the last outcome gets the remainder
                x = binomial(bitgen, left, w.conditional[k + offset], scratch)
            flow[k] = x
            left -= x
            if x > 0 and succ[k] != END:
                arrivals[succ[k]] += x


@helper
def cut_block(w, bitgen, episodes, share):
    """Draw the first `share` of the block's `episodes` into its half; the rest remains."""
    cells, first = w.size[0], w.first
    arrivals, flow = w.arrivals, w.flow
    half_arrivals, half_flow = w.half_arrivals, w.half_flow
    for c in range(cells):
        half_arrivals[c] = 0
    pool, sample = episodes, share
    for q in range(w.starts):
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
            if x > 0 and w.succ[k] != END:
                half_arrivals[w.succ[k]] += x


@helper
def crosses(w, arrivals):
    """Whether these arrivals take some row's count to or past a power of two."""
    for i in range(w.size[2]):
        w.gain[w.active[i]] = 0
    for c in range(w.size[0]):
        w.gain[w.row[c]] += arrivals[c]
    crossing = False
    for i in range(w.size[2]):
        crossing |= row_crosses(w, w.active[i])
    return crossing


@helper
def row_crosses(w, r):
    """Whether this row's gain takes its count to or past a power of two: a longer number."""
    n = w.n[r]
    return (n ^ (n + w.gain[r])) > n


@helper
def commit(w, arrivals, flow):
    """Add a block to the counts."""
    for c in range(w.size[0]):
        if arrivals[c] > 0:
            r = w.row[c]
            w.n[r] += arrivals[c]
            w.visits[c] += arrivals[c]
            offset = w.indptr[r] - w.first[c]
            for k in range(w.first[c], w.first[c + 1]):
                w.n_next[k + offset] += flow[k]


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
def jump(w, limit, margin):
    """`(episodes, safe)`: how far to jump, and whether a crossing on the way is impossible.

    Row `r` gains about `x * rate` visits in `x` episodes, with a standard deviation guessed as
    `sqrt(x * spread)`; jump to where the first row is `margin` standard deviations short of its
    next power of two, plus BOLD visits. The guess decides the cost, never the law.
    """
    best = float(limit)
    least = limit  # room per step, in episodes
    for i in range(w.size[2]):
        r = w.active[i]
        room = next_power(w.n[r]) - w.n[r] - 1  # visits that do not trigger
        rate = w.rate[r]
        if rate <= 0.0:
            continue
        spread = rate * max(1.0, 2.0 * rate / w.peak[r] - 1.0 - rate)
        b = margin * np.sqrt(spread)
        x = (np.sqrt(b * b + 4.0 * rate * (room + BOLD)) - b) / (2.0 * rate)
        best = min(best, x * x)
        least = min(least, room // w.H)
    episodes = max(1, least, int(best))
    if episodes <= least:
        return episodes, True
    return min(episodes, HYPERGEOMETRIC_LIMIT - 1), False


@kernel
def find_crossing(here, bitgen, episodes):
    """The first crossing in a drawn block: count what lies before it, discard the rest.

    Returns its number in the block, from 1. That episode itself is in the path, visited but not
    yet counted.
    """
    w = world_at(here)
    before = 0
    while episodes > w.picked and crossing_visits(w) > w.picked:
        share = episodes // 2
        cut_block(w, bitgen, episodes, share)
        if crosses(w, w.half_arrivals):
            for c in range(w.size[0]):
                w.arrivals[c] = w.half_arrivals[c]
            for k in range(w.size[1]):
                w.flow[k] = w.half_flow[k]
            episodes = share
        else:
            commit(w, w.half_arrivals, w.half_flow)
            before += share
            episodes -= share
            crosses(w, w.arrivals)
    picked = pick_all(w, bitgen, episodes)
    i = count_until_trigger(w, picked)
    at = w.order[i] * w.H
    for t in range(w.H):
        w.path_cell[t] = w.cells[at + t]
        w.path_outcome[t] = w.outcomes[at + t]
    place = w.place[i]
    cut_block(w, bitgen, episodes - picked, place - i)
    commit(w, w.half_arrivals, w.half_flow)
    return before + place + 1


@helper
def crossing_visits(w):
    """Visits in the block to the rows that cross."""
    total = 0
    for i in range(w.size[2]):
        r = w.active[i]
        if row_crosses(w, r):
            total += w.gain[r]
    return total


@helper
def pick_all(w, bitgen, episodes):
    """Pick all episodes that visit a row which crosses, with their places; returns how many."""
    picked = np.int64(0)
    for t in range(w.H):
        for c in range(w.layer[t], w.layer[t + 1]):
            if row_crosses(w, w.row[c]):
                while w.arrivals[c] > 0:
                    pick(w, bitgen, c, t, picked)
                    picked += 1
    place, order = w.place, w.order
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
def pick(w, bitgen, cell, step, i):
    """Take a random one of the block's episodes that visit `cell` out of it; store it as `i`."""
    first, succ, arrivals, flow = w.first, w.succ, w.arrivals, w.flow
    path = i * w.H
    c = cell
    for t in range(step - 1, -1, -1):  # back to the root, by the flows into the cell
        left = uniform(bitgen) * arrivals[c]
        last = -1
        for b in range(w.layer[t], w.layer[t + 1]):
            for k in range(first[b], first[b + 1]):
                if succ[k] == c and flow[k] > 0:
                    if left >= 0.0:
                        w.cells[path + t] = b
                        w.outcomes[path + t] = w.indptr[w.row[b]] + k - first[b]
                        last = k
                    left -= flow[k]
        flow[last] -= 1
        arrivals[c] -= 1
        c = w.cells[path + t]
    arrivals[c] -= 1
    c = cell
    for t in range(step, w.H):  # on to the end, by the flows out of the cell
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
        w.cells[path + t] = c
        w.outcomes[path + t] = w.indptr[w.row[c]] + last - first[c]
        c = succ[last]
        if c != END:
            arrivals[c] -= 1


@helper
def count_until_trigger(w, picked):
    """Count picked episodes in order until one triggers, which is not counted; its number."""
    for i in range(picked):
        path, triggered = w.order[i] * w.H, False
        for t in range(path, path + w.H):
            r = w.row[w.cells[t]]
            n = w.n[r] + 1
            w.n[r] = n
            w.n_next[w.outcomes[t]] += 1
            w.visits[w.cells[t]] += 1
            triggered |= n & (n - 1) == 0
        if triggered:
            for t in range(path, path + w.H):
                w.n[w.row[w.cells[t]]] -= 1
                w.n_next[w.outcomes[t]] -= 1
            return i
    return picked


@kernel
def simulate_block(here, bitgen, scratch, episodes):
    """Count `episodes` episodes at once, whatever their counts pass."""
    w = world_at(here)
    draw_block(w, bitgen, scratch, episodes)
    commit(w, w.arrivals, w.flow)


@kernel
def simulate_phase(here, bitgen, scratch, episodes, margin, patience):
    """Simulate until the next trigger, at most `episodes`; returns `(simulated, triggered, block)`.

    As `walk`, and the same law; but where `block > 0`, the trigger lies in a block of so many more
    episodes, drawn and not counted, and `find_crossing` must come next (apart, or both would
    compile twice). `patience`: walk as many steps as a block has edges, times this.
    """
    w = world_at(here)
    done = 0
    few = int(patience * w.size[1] / w.H)
    while done < episodes:
        size, safe = jump(w, episodes - done, margin)
        if size <= few:
            k, triggered = walk_in(w, bitgen, min(few, episodes - done))
            done += k
            if triggered:
                return done, True, 0
            continue
        draw_block(w, bitgen, scratch, size)
        if not safe and crosses(w, w.arrivals):
            return done, True, size
        commit(w, w.arrivals, w.flow)
        done += size
    return done, False, 0
