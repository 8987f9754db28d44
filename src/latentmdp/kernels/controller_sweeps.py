"""Linear systems of nodes that follow one another, in circles too: one strong component at a time.

Nodes that can reach one another form a component. Taken in the order in which Tarjan finds them,
every component comes after all that it leads to: the values of those are known by then, and only
inside a component is there anything to iterate. The number of sweeps does not depend on the
discount: a component that needs more is left to the direct solver of `evaluation/discounted.py`.
"""

import numpy as np

from latentmdp.runtime.kernel_cache import kernel

EPSILON = 2.0**-52  # of float64: the rounding error of a sum, relative to it
MOST_SWEEPS = 200  # of a component; slower ones are left to a direct solver
TRIAL = 15  # sweeps: the changes after one and after two trials tell how fast they shrink


@kernel
def strong_components(indptr, column, order, start):
    """Tarjan's algorithm: fill `order (N,)`, components in a row, each after what it leads to.

    `start (N + 1,)` gets where each begins in `order`; returns how many there are.
    """
    N = indptr.size - 1
    index, low = np.full(N, -1), np.zeros(N, np.int64)
    open_nodes, path, edge = np.empty(N, np.int64), np.empty(N, np.int64), np.empty(N, np.int64)
    is_open = np.zeros(N, np.bool_)
    n_open = count = found = components = 0
    start[0] = 0
    for root in range(N):
        if index[root] >= 0:
            continue
        depth = 0
        path[0], edge[0] = root, indptr[root]
        index[root] = low[root] = count
        count += 1
        open_nodes[n_open], is_open[root] = root, True
        n_open += 1
        while depth >= 0:
            n = path[depth]
            if edge[depth] < indptr[n + 1]:
                k = column[edge[depth]]
                edge[depth] += 1
                if index[k] < 0:
                    index[k] = low[k] = count
                    count += 1
                    open_nodes[n_open], is_open[k] = k, True
                    n_open += 1
                    depth += 1
                    path[depth], edge[depth] = k, indptr[k]
                elif is_open[k]:
                    low[n] = min(low[n], index[k])
                continue
            if low[n] == index[n]:
                while True:
                    n_open -= 1
                    k = open_nodes[n_open]
                    is_open[k] = False
                    order[found] = k
                    found += 1
                    if k == n:
                        break
                components += 1
                start[components] = found
            depth -= 1
            if depth >= 0:
                low[path[depth]] = min(low[path[depth]], low[n])
    return components


@kernel
def solve_component(indptr, column, entry, discount, right, order, begin, end, x):
    """Sweep `x = right + discount * (matrix x)` over `order[begin:end]` until rounding is left.

    Each sweep shrinks the largest error by the discount at least, so what is left after a change of
    `c` is at most `c * discount / (1 - discount)`. Returns whether that was reached; the sweeps
    end without it where the changes shrink too slowly for `MOST_SWEEPS`.
    """
    before = 0.0
    for sweep in range(MOST_SWEEPS):
        change, largest = 0.0, 0.0
        for i in range(begin, end):
            n = order[i]
            total, own = 0.0, 0.0
            for e in range(indptr[n], indptr[n + 1]):
                if column[e] == n:
                    own += entry[e]
                else:
                    total += entry[e] * x[column[e]]
            value = (right[n] + discount * total) / (1.0 - discount * own)
            change = max(change, abs(value - x[n]))
            largest = max(largest, abs(value))
            x[n] = value
        enough = EPSILON * largest * (1.0 - discount)
        if end == begin + 1 or change <= enough:
            return True
        if sweep == TRIAL:
            before = change
        if sweep == 2 * TRIAL:
            rate = (change / before) ** (1.0 / TRIAL)
            if change * rate ** (MOST_SWEEPS - sweep) > enough:
                return False
    return False


@kernel
def solve_in_order(
    indptr, column, entry, discount, right, order, start, components, backward, first, x
):  # fmt: skip
    """Solve for `x` from the component `first` on; `backward`: the last found comes first.

    Returns the first component, in this order, that sweeps do not solve; `components` if none.
    """
    for i in range(first, components):
        c = components - 1 - i if backward else i
        if not solve_component(
            indptr, column, entry, discount, right, order, start[c], start[c + 1], x
        ):
            return i
    return components
