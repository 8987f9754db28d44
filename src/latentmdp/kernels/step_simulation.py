"""Simulate episodes step by step on a chain, with the counts and doubling of Algorithm 1.

Counts `n (rows,)` and `n_next (nnz,)` are by model row and outcome; a row triggers when its count
becomes a power of two.
"""

from latentmdp.kernels._cache import helper, kernel
from latentmdp.kernels.samplers import uniform
from latentmdp.kernels.world import world_at


@helper
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


@helper
def walk_in(w, bitgen, episodes):
    """Simulate at most `episodes`; stop after the first that triggers.

    Returns `(episodes simulated, triggered)`. An episode that triggers is not yet counted in
    `n, n_next`: `replay` walks its path `(H,)` in time order. `visits (C,)` counts every episode's
    visits by cell. Cost: steps.
    """
    for k in range(episodes):
        triggered = False
        c = draw(bitgen, w.start_cumulative, 0, w.starts)
        for t in range(w.H):
            r = w.row[c]
            begin = w.indptr[r]
            e = draw(bitgen, w.cumulative, begin, w.indptr[r + 1])
            n = w.n[r] + 1
            w.n[r] = n
            w.n_next[e] += 1
            w.visits[c] += 1
            triggered |= n & (n - 1) == 0  # a power of two
            w.path_cell[t] = c
            w.path_outcome[t] = e
            c = w.succ[w.first[c] + e - begin]
        if triggered:
            for t in range(w.H):  # undo: snapshots are taken in the middle of the episode
                w.n[w.row[w.path_cell[t]]] -= 1
                w.n_next[w.path_outcome[t]] -= 1
            return k + 1, True
    return episodes, False


@kernel
def walk(here, bitgen, episodes):
    """`walk_in` the world at this address."""
    return walk_in(world_at(here), bitgen, episodes)


@kernel
def replay(here):
    """Alg. 1, l. 11 to 16: count the triggering episode in time order, with snapshots on the way.

    Returns the number of rows whose snapshot changed; they are listed in ascending order. Visits by
    cell begin anew: the phase is over.
    """
    w = world_at(here)
    n, n_next, changed, count = w.n, w.n_next, w.changed, 0
    for t in range(w.H):
        r = w.row[w.path_cell[t]]
        n[r] += 1  # Alg. 1, l. 12
        n_next[w.path_outcome[t]] += 1
        if n[r] & (n[r] - 1) == 0:  # l. 13
            w.N[r] = n[r]  # l. 15
            for e in range(w.indptr[r], w.indptr[r + 1]):  # l. 16
                w.N_next[e] = n_next[e]
            i = count
            while i > 0 and changed[i - 1] > r:
                i -= 1
            if i == 0 or changed[i - 1] < r:
                for j in range(count, i, -1):
                    changed[j] = changed[j - 1]
                changed[i] = r
                count += 1
    for c in range(w.size[0]):
        w.visits[c] = 0
    return count


@kernel
def sample_episodes(here, bitgen, episodes, rows, outcomes):
    """Draw trajectories: `rows, outcomes (K, H)` as indices of the model."""
    w = world_at(here)
    for k in range(episodes):
        c = draw(bitgen, w.start_cumulative, 0, w.starts)
        for t in range(w.H):
            r = w.row[c]
            e = draw(bitgen, w.cumulative, w.indptr[r], w.indptr[r + 1])
            rows[k, t] = r
            outcomes[k, t] = e
            c = w.succ[w.first[c] + e - w.indptr[r]]
