"""Simulate episodes step by step on a chain, with the counts and doubling of Algorithm 1.

An episode is a path: cells of the chain, and outcomes of the model, `(H,)` each. A row triggers
when its count becomes a power of two.
"""

from latentmdp.kernels.samplers import uniform
from latentmdp.kernels.structs import CELLS
from latentmdp.runtime.kernel_cache import kernel


@kernel
def draw(bitgen, cumulative, begin, end):
    """An index in `[begin, end)` by cumulative probabilities; the last takes the remainder."""
    if end - begin == 1:
        return begin
    u = uniform(bitgen)
    i = begin
    while end - i > 16:  # many: bisect first
        middle = (i + end) // 2
        if u >= cumulative[middle - 1]:
            i = middle
        else:
            end = middle
    while i < end - 1 and u >= cumulative[i]:
        i += 1
    return i


@kernel
def draw_episode(bitgen, start_cumulative, indptr, cumulative, row, first, succ, cells, outcomes):
    """Draw the path of one episode."""
    c = draw(bitgen, start_cumulative, 0, start_cumulative.size)
    for t in range(cells.size):
        r = row[c]
        begin = indptr[r]
        e = draw(bitgen, cumulative, begin, indptr[r + 1])
        cells[t], outcomes[t] = c, e
        c = succ[first[c] + e - begin]


@kernel
def count_episode(row, visits, n, n_next, cells, outcomes):
    """Count an episode; returns whether it triggers."""
    triggered = False
    for t in range(cells.size):
        c = cells[t]
        r = row[c]
        count = n[r] + 1
        n[r] = count
        n_next[outcomes[t]] += 1
        visits[c] += 1
        triggered |= count & (count - 1) == 0  # Alg. 1, l. 13: a power of two
    return triggered


@kernel
def uncount_episode(row, n, n_next, cells, outcomes):
    """Take back the counts of a triggering episode: `replay` adds them, with snapshots between."""
    for t in range(cells.size):
        n[row[cells[t]]] -= 1
        n_next[outcomes[t]] -= 1


@kernel
def walk(world, episodes):
    """Simulate at most `episodes`; stop after the first that triggers. Cost: steps.

    Returns `(episodes simulated, triggered)`; a triggering episode is left in the world's path.
    """
    model, chain, counts, bitgen = world.model, world.chain, world.counts, world.bitgen
    start_cumulative, indptr, cumulative = model.start_cumulative, model.indptr, model.cumulative
    row, first, succ, visits = chain.row, chain.first, chain.succ, chain.visits
    n, n_next, cells, outcomes = counts.n, counts.n_next, world.path_cells, world.path_outcomes
    for k in range(episodes):
        draw_episode(
            bitgen, start_cumulative, indptr, cumulative, row, first, succ, cells, outcomes
        )
        if count_episode(row, visits, n, n_next, cells, outcomes):
            uncount_episode(row, n, n_next, cells, outcomes)
            return k + 1, True
    return episodes, False


@kernel
def insert(values, size, value):
    """Insert into `size` ascending, distinct values, where it is new; returns the new size."""
    i = size
    while i > 0 and values[i - 1] > value:
        i -= 1
    if i > 0 and values[i - 1] == value:
        return size
    for j in range(size, i, -1):
        values[j] = values[j - 1]
    values[i] = value
    return size + 1


@kernel
def replay(world):
    """Alg. 1, l. 11 to 16: count the triggering episode in time order, with snapshots on the way.

    Returns the number of rows whose snapshot changed; the world lists them in ascending order.
    Visits by cell begin anew: the phase is over.
    """
    model, chain, counts = world.model, world.chain, world.counts
    n, n_next, N, N_next = counts
    size = 0
    for t in range(model.H):  # l. 11
        r, e = chain.row[world.path_cells[t]], world.path_outcomes[t]
        n[r] += 1  # l. 12
        n_next[e] += 1
        if n[r] & (n[r] - 1) == 0:  # l. 13
            N[r] = n[r]  # l. 15
            for k in range(model.indptr[r], model.indptr[r + 1]):  # l. 16
                N_next[k] = n_next[k]
            size = insert(world.changed, size, r)
    chain.visits[: chain.size[CELLS]] = 0
    return size


@kernel
def sample_episodes(world, cells, outcomes):
    """Draw trajectories, one path `(H,)` each: `cells, outcomes (episodes, H)`."""
    model, chain, bitgen = world.model, world.chain, world.bitgen
    start_cumulative, indptr, cumulative = model.start_cumulative, model.indptr, model.cumulative
    row, first, succ = chain.row, chain.first, chain.succ
    for k in range(len(cells)):
        draw_episode(
            bitgen, start_cumulative, indptr, cumulative, row, first, succ, cells[k], outcomes[k]
        )
