"""An upper bound on what any policy earns, on a grid of beliefs, for groups of contexts.

The contexts are split into groups of at most `K`; whoever is told the group earns more, so the sum
over groups of a bound for each is a bound for all. Inside a group the value with memory and
hidden rewards (it bounds Markov policies) is convex in the belief: interpolating between the
vertices of a Freudenthal triangulation of the simplex with resolution `N` only raises it. With
`K = 1` or `N = 1` this is the value of knowing the context.
Vertices and cells are those of `history_grid`.
"""

from typing import Any, NamedTuple

from latentmdp.kernels._cache import kernel
from latentmdp.kernels.history_grid import locate


class Cell(NamedTuple):
    """Scratch for finding a cell of the triangulation, `(K,)` each."""

    belief: Any
    part: Any
    whole: Any
    order: Any
    vertex: Any
    weight: Any


@kernel
def find_cell(b, first, size, N, rank, cell):
    """The vertices around the unnormalised belief `b[first:first + size]`, into `cell`.

    Returns their number and the belief's mass. A smaller group than `K` is filled up with zeros.
    """
    mass = 0.0
    for k in range(size):
        mass += b[first + k]
    if mass <= 0.0:
        return 0, 0.0
    for k in range(cell.belief.size):
        cell.belief[k] = b[first + k] / mass if k < size else 0.0
    n = locate(cell.belief, N, rank, cell.whole, cell.part, cell.order, cell.vertex, cell.weight)
    return n, mass


@kernel
def successors(
    point, contexts, s, a, S, A, indptr, nxt, prob, row_reward, arriving, touched, marked
):
    """Beliefs after action `a` at vertex `point`: fills `arriving (S, K)`, `touched`.

    Returns the number of next states touched and the expected reward.
    """
    count, reward = 0, 0.0
    for k in range(contexts.size):
        if point[k] > 0.0:
            row = (contexts[k] * S + s) * A + a
            reward += point[k] * row_reward[row]
            for i in range(indptr[row], indptr[row + 1]):
                y = nxt[i]
                if not marked[y]:
                    marked[y] = True
                    touched[count] = y
                    count += 1
                    for j in range(contexts.size):
                        arriving[y, j] = 0.0
                arriving[y, k] += point[k] * prob[i]
    for i in range(count):
        marked[touched[i]] = False
    return count, reward


@kernel
def vertex_rows(
    points, contexts, N, rank, S, indptr, nxt, prob, row_reward, A, choice_ptr, choice,
    arriving, touched, marked, cell, ptr, index, mass, reward,
):  # fmt: skip
    """The vertices as a Markov decision process: a sparse row per (state, choice, vertex).

    Row `r = c * V + v` has expected `reward[r]` and leads with `mass` to `index` = next * V +
    vertex. With empty `index` only `ptr` is filled (count first, then fill).
    """
    V = points.shape[0]
    fill, at = index.size > 0, 0
    for s in range(S):
        for c in range(choice_ptr[s], choice_ptr[s + 1]):
            for v in range(V):
                n, r = successors(
                    points[v], contexts, s, choice[c], S, A, indptr, nxt, prob, row_reward,
                    arriving, touched, marked,
                )  # fmt: skip
                for i in range(n):
                    y = touched[i]
                    count, total = find_cell(arriving[y], 0, contexts.size, N, rank, cell)
                    if fill:
                        for j in range(count):
                            index[at + j] = y * V + cell.vertex[j]
                            mass[at + j] = total * cell.weight[j]
                    at += count
                reward[c * V + v] = r
                ptr[c * V + v + 1] = at


@kernel
def solve_vertices(ptr, index, mass, reward, choice_ptr, discount, upper, first, stop):
    """Fill the steps from `first` to before `stop` of `upper (H, S, V)`, the last one first."""
    H, S, V = upper.shape
    for t in range(stop - 1, first - 1, -1):
        later = upper[min(t + 1, H - 1)].reshape(S * V)
        for s in range(S):
            for c in range(choice_ptr[s], choice_ptr[s + 1]):
                for v in range(V):
                    x = reward[c * V + v]
                    if t < H - 1:
                        y = 0.0
                        for i in range(ptr[c * V + v], ptr[c * V + v + 1]):
                            y += mass[i] * later[index[i]]
                        x += discount * y
                    if c == choice_ptr[s] or x > upper[t, s, v]:
                        upper[t, s, v] = x


@kernel
def bound_at(b, group_ptr, N, rank, table, t, s, cell):
    """The bound at unnormalised belief `b (M,)` (contexts in group order), at step and state."""
    total = 0.0
    for g in range(group_ptr.size - 1):
        first = group_ptr[g]
        size = group_ptr[g + 1] - first
        count, mass = find_cell(b, first, size, N, rank, cell)
        if count > 0:
            y = 0.0
            for j in range(count):
                y += cell.weight[j] * table[g, t, s, cell.vertex[j]]
            total += mass * y
    return total
