"""Alg. 1, l. 3 to 14, for whole blocks of episodes: exact in law, cost by updates, not episodes.

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

from latentmdp.kernels.samplers import HYPERGEOMETRIC_LIMIT, binomial, hypergeometric, uniform
from latentmdp.kernels.simulation.steps import count_episode, draw, uncount_episode, walk
from latentmdp.kernels.structs import CELLS, EDGES, END, ROWS
from latentmdp.runtime.kernel_cache import kernel

ONE_BY_ONE = 8  # arrivals at a cell that are faster to send on one by one
OVERSHOOT = 3.0  # visits that a block may be expected to cross by: few, so that picking finds them


@kernel
def draw_block(world, episodes):
    """Draw the counts of `episodes` episodes. Cost: cells, and edges of cells with arrivals."""
    model, chain, bitgen, scratch = world.model, world.chain, world.bitgen, world.scratch
    indptr, cumulative, conditional = model.indptr, model.cumulative, model.conditional
    row, first, succ, cells = chain.row, chain.first, chain.succ, chain.size[CELLS]
    arrivals, flow = world.block
    arrivals[:cells] = 0
    left = episodes
    for q in range(model.start_conditional.size):
        x = binomial(bitgen, left, model.start_conditional[q], scratch)
        arrivals[q] = x
        left -= x
    for c in range(cells):
        left = arrivals[c]
        begin, end = first[c], first[c + 1]
        offset = indptr[row[c]] - begin
        if left <= ONE_BY_ONE:
            flow[begin:end] = 0
            for _ in range(left):
                k = draw(bitgen, cumulative, begin + offset, end + offset) - offset
                flow[k] += 1
                if succ[k] != END:
                    arrivals[succ[k]] += 1
            continue
        for k in range(begin, end):
            x = left
            if x > 0 and k + 1 < end:  # the last outcome gets the remainder
                x = binomial(bitgen, left, conditional[k + offset], scratch)
            flow[k] = x
            left -= x
            if x > 0 and succ[k] != END:
                arrivals[succ[k]] += x


@kernel
def cut_block(world, block, half, episodes, share):
    """Draw the first `share` of the block's `episodes` into `half`; the rest remains: (a)."""
    chain, bitgen = world.chain, world.bitgen
    first, succ, cells = chain.first, chain.succ, chain.size[CELLS]
    arrivals, flow = block
    half_arrivals, half_flow = half
    half_arrivals[:cells] = 0
    pool, sample = episodes, share
    for q in range(world.model.start_prob.size):
        x = hypergeometric(bitgen, arrivals[q], pool - arrivals[q], sample)
        half_arrivals[q] = x
        pool -= arrivals[q]
        sample -= x
    for c in range(cells):
        pool, sample = arrivals[c], half_arrivals[c]
        arrivals[c] -= sample
        for k in range(first[c], first[c + 1]):
            x = 0
            if sample > 0:
                x = hypergeometric(bitgen, flow[k], pool - flow[k], sample)
                sample -= x
            pool -= flow[k]
            half_flow[k] = x
            flow[k] -= x
            if x > 0 and succ[k] != END:
                half_arrivals[succ[k]] += x


@kernel
def crosses(count, gain):
    """Whether this gain takes a count to or past a power of two: to a longer binary number."""
    return (count ^ (count + gain)) > count


@kernel
def crossing_visits(world, arrivals):
    """Visits to the rows whose counts a block takes to or past a power of two; fills in `gain`."""
    chain, n, gain = world.chain, world.counts.n, world.gain
    row, active, rows = chain.row, chain.active, chain.size[ROWS]
    for i in range(rows):
        gain[active[i]] = 0
    for c in range(chain.size[CELLS]):
        gain[row[c]] += arrivals[c]
    total = 0
    for i in range(rows):
        r = active[i]
        if crosses(n[r], gain[r]):
            total += gain[r]
    return total


@kernel
def commit(world, block):
    """Add a block to the counts."""
    indptr, chain = world.model.indptr, world.chain
    row, first, visits = chain.row, chain.first, chain.visits
    n, n_next = world.counts.n, world.counts.n_next
    arrivals, flow = block
    for c in range(chain.size[CELLS]):
        if arrivals[c] > 0:
            r = row[c]
            n[r] += arrivals[c]
            visits[c] += arrivals[c]
            offset = indptr[r] - first[c]
            for k in range(first[c], first[c + 1]):
                n_next[k + offset] += flow[k]


@kernel
def next_power(n):
    """The smallest power of two above `n`."""
    n |= n >> 1
    n |= n >> 2
    n |= n >> 4
    n |= n >> 8
    n |= n >> 16
    n |= n >> 32
    return n + 1


@kernel
def choose_size(world, limit, margin):
    """`(episodes, safe)` of the next block: `safe` if no row can cross in it.

    Row `r` gains about `x * rate` visits in `x` episodes, with a standard deviation guessed as
    `sqrt(x * spread)`; stop where the first row is `margin` standard deviations short of its
    next power of two, plus OVERSHOOT visits. The guess decides the cost, never the law.
    """
    chain, n, H = world.chain, world.counts.n, world.model.H
    active, rates, peak = chain.active, chain.rate, chain.peak
    best = float(limit)
    least = limit  # episodes in which no row can cross, were it visited at every step
    for i in range(chain.size[ROWS]):
        r = active[i]
        room = next_power(n[r]) - n[r] - 1  # visits that do not trigger
        rate = rates[r]
        if rate <= 0.0:
            continue
        spread = rate * max(1.0, 2.0 * rate / peak[r] - 1.0 - rate)
        b = margin * np.sqrt(spread)
        x = (np.sqrt(b * b + 4.0 * rate * (room + OVERSHOOT)) - b) / (2.0 * rate)
        best = min(best, x * x)
        least = min(least, room // H)
    episodes = max(1, least, int(best))
    if episodes <= least:
        return episodes, True
    return min(episodes, HYPERGEOMETRIC_LIMIT - 1), False


@kernel
def draw_edge_into(bitgen, begin, end, first, succ, flow, cell, arrivals):
    """One of the edges from the cells `begin .. end` into `cell`, by the flows: `(from, edge)`."""
    left = uniform(bitgen) * arrivals
    start, last = END, END
    for b in range(begin, end):
        for k in range(first[b], first[b + 1]):
            if succ[k] == cell and flow[k] > 0:
                if left >= 0.0:
                    start, last = b, k
                left -= flow[k]
    return start, last


@kernel
def draw_edge(bitgen, begin, end, flow):
    """One of the edges `begin .. end`, in proportion to the flows."""
    total = 0
    for k in range(begin, end):
        total += flow[k]
    left = uniform(bitgen) * total
    last = END
    for k in range(begin, end):
        if flow[k] > 0:
            if left >= 0.0:
                last = k
            left -= flow[k]
    return last


@kernel
def pick(world, block, cell, step, cells, outcomes):
    """Take a random one of the block's episodes that visit `cell` out of it, with its path: (b)."""
    chain, indptr, bitgen = world.chain, world.model.indptr, world.bitgen
    row, first, succ, layer = chain.row, chain.first, chain.succ, chain.layer
    arrivals, flow = block
    c = cell
    for t in range(step - 1, -1, -1):  # back to the root, by the flows into the cell
        cells[t], last = draw_edge_into(
            bitgen, layer[t], layer[t + 1], first, succ, flow, c, arrivals[c]
        )
        flow[last] -= 1
        arrivals[c] -= 1
        c = cells[t]
        outcomes[t] = indptr[row[c]] + last - first[c]
    arrivals[c] -= 1
    c = cell
    for t in range(step, cells.size):  # on to the end, by the flows out of the cell
        last = draw_edge(bitgen, first[c], first[c + 1], flow)
        flow[last] -= 1
        cells[t] = c
        outcomes[t] = indptr[row[c]] + last - first[c]
        c = succ[last]
        if c != END:
            arrivals[c] -= 1


@kernel
def pick_crossing(world, block):
    """Pick all episodes that visit a row which crosses, by `gain`; returns how many."""
    chain, picked, n, gain = world.chain, world.picked, world.counts.n, world.gain
    count = 0
    for t in range(world.model.H):
        for c in range(chain.layer[t], chain.layer[t + 1]):
            r = chain.row[c]
            if crosses(n[r], gain[r]):
                while block.arrivals[c] > 0:
                    pick(world, block, c, t, picked.cells[count], picked.outcomes[count])
                    count += 1
    return count


@kernel
def draw_places(bitgen, count, episodes, place, order):
    """Distinct places in the block for `count` picked episodes, each set of them equally likely."""
    for i in range(count):
        drawn = -1
        while drawn < 0:
            drawn = min(int(uniform(bitgen) * episodes), episodes - 1)
            for j in range(i):
                if place[j] == drawn:
                    drawn = -1
                    break
        j = i
        while j > 0 and place[j - 1] > drawn:  # ascending
            place[j], order[j] = place[j - 1], order[j - 1]
            j -= 1
        place[j], order[j] = drawn, i


@kernel
def find_trigger(world, episodes, crossing):
    """The first triggering episode of the drawn block: count what lies before, discard the rest.

    `crossing` is the block's `crossing_visits`. Returns the episode's number in the block, from 1;
    it is left in the world's path, not yet counted.
    """
    block, half, picked = world.block, world.half, world.picked
    row, visits, n, n_next = (
        world.chain.row,
        world.chain.visits,
        world.counts.n,
        world.counts.n_next,
    )
    most, before = picked.place.size, 0
    while min(episodes, crossing) > most:
        share = episodes // 2
        cut_block(world, block, half, episodes, share)
        crossing = crossing_visits(world, half.arrivals)
        if crossing > 0:
            block, half = half, block
            episodes = share
        else:
            commit(world, half)
            before += share
            episodes -= share
            crossing = crossing_visits(world, block.arrivals)
    count = pick_crossing(world, block)
    draw_places(world.bitgen, count, episodes, picked.place, picked.order)
    i, triggered = -1, False  # one of them triggers: all visits to the rows that cross are theirs
    while not triggered:
        i += 1
        cells, outcomes = picked.cells[picked.order[i]], picked.outcomes[picked.order[i]]
        triggered = count_episode(row, visits, n, n_next, cells, outcomes)
    uncount_episode(row, n, n_next, cells, outcomes)
    for t in range(cells.size):
        world.path_cells[t], world.path_outcomes[t] = cells[t], outcomes[t]
    cut_block(world, block, half, episodes - count, picked.place[i] - i)
    commit(world, half)
    return before + picked.place[i] + 1


@kernel
def simulate_block(world, episodes):
    """Count `episodes` episodes at once, whatever their counts pass."""
    draw_block(world, episodes)
    commit(world, world.block)


@kernel
def simulate_phase(world, episodes, margin, steps_per_edge):
    """Simulate until the next trigger, at most `episodes`; returns `(simulated, triggered)`.

    As `walk`, and the same law. Where few episodes are left, they are walked instead: as many steps
    as a block has edges, times `steps_per_edge`.
    """
    done, block = 0, world.block
    few = int(steps_per_edge * world.chain.size[EDGES] / world.model.H)
    while done < episodes:
        size, safe = choose_size(world, episodes - done, margin)
        if size <= few:
            walked, triggered = walk(world, min(few, episodes - done))
            done += walked
            if triggered:
                return done, True
            continue
        draw_block(world, size)
        crossing = 0 if safe else crossing_visits(world, block.arrivals)
        if crossing > 0:
            return done + find_trigger(world, size, crossing), True
        commit(world, block)
        done += size
    return done, False
