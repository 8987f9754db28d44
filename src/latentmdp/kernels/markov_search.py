"""Depth-first branch and bound over Markov policies, forward in time.

Decisions are taken step by step, at each step state by state. Given the decisions so far, the
mass `mass[t, s, j] = discount^t P(state s at step t, context j)` is known exactly up to the current
step; what the decided states send on collects in `mass[t + 1]`. The bound of a partial policy is

    reward so far + sum_{undecided s} U_t(s, mass[t, s]) + sum_{s'} U_{t+1}(s', mass[t+1, s'])

with the belief-grid bound `U` of `markov_grid`: as if the policy could remember from here on.
What it did before is forgotten: mass that meets in a state is added up, which is what makes the
bound one for Markov policies.

All of the search's state lies in the arrays of `Stack`, so that it can pause and go on.
"""

from typing import Any, NamedTuple

from latentmdp.kernels._cache import kernel
from latentmdp.kernels.markov_grid import bound_at


class Stack(NamedTuple):
    """Where the search stands; contexts in group order, `B` = the most choices of a state."""

    place: Any  # (3,) step, position in the step, 1 if the step is new
    mass: Any  # (H + 1, S, M)
    later: Any  # (H + 1, S) U of mass
    state: Any  # (H, S) the reachable states of a step, heaviest first
    count: Any  # (H,) their number
    open: Any  # (H, S + 1) sum of U over the undecided
    earned: Any  # (H + 1, S + 1) reward before each decision
    choice: Any  # (H, S, B) actions, best bound first
    bound: Any  # (H, S, B)
    tried: Any  # (H, S)
    log_ptr: Any  # (H, S + 1) into the log below: what a decision overwrote in mass[t + 1]
    log_state: Any  # (L,)
    log_later: Any  # (L,)
    log_mass: Any  # (L, M)
    policy: Any  # (H, S)


class Scratch(NamedTuple):
    """Buffers."""

    arriving: Any  # (S, M)
    touched: Any  # (S,)
    marked: Any  # (S,) all False between uses
    vertex: Any  # (K,)
    weight: Any  # (K,)
    x: Any  # (K,)
    whole: Any  # (K,)
    order: Any  # (K,)


class Tree(NamedTuple):
    """The model, contexts in group order, and the belief-grid bound."""

    context: Any  # (M,)
    group_ptr: Any  # (G + 1,)
    K: int
    N: int
    choose: Any
    table: Any  # (G, H, S, V)
    row_reward: Any
    indptr: Any
    next: Any
    prob: Any
    discount: float
    A: int
    choice_ptr: Any
    choice: Any


@kernel
def upper_of(tree, x, t, s, b):
    """`U_t(s, b)`; 0 after the last step."""
    if t >= tree.table.shape[1]:
        return 0.0
    return bound_at(
        b, tree.group_ptr, tree.K, tree.N, tree.choose, tree.table, t, s,
        x.vertex, x.weight, x.x, x.whole, x.order,
    )  # fmt: skip


@kernel
def enter(tree, k, x, t):
    """Begin step `t`: list its states by falling mass, bound each."""
    S, M = k.mass.shape[1], k.mass.shape[2]
    n = 0
    for s in range(S):
        total = 0.0
        for j in range(M):
            total += k.mass[t, s, j]
            k.mass[t + 1, s, j] = 0.0
        k.later[t + 1, s] = 0.0
        if total > 0.0:
            i = n
            while i > 0 and k.open[t, i - 1] < total:
                k.open[t, i] = k.open[t, i - 1]
                k.state[t, i] = k.state[t, i - 1]
                i -= 1
            k.open[t, i] = total  # borrowed as sort key
            k.state[t, i] = s
            n += 1
    k.count[t] = n
    k.open[t, n] = 0.0
    for i in range(n - 1, -1, -1):
        k.open[t, i] = k.open[t, i + 1] + k.later[t, k.state[t, i]]
    k.log_ptr[t, 0] = 0 if t == 0 else k.log_ptr[t - 1, k.count[t - 1]]


@kernel
def send(tree, k, x, t, s, a):
    """What state `s` sends on with action `a`: adds to `arriving`; `(touched, reward)`."""
    S, M = k.mass.shape[1], k.mass.shape[2]
    n, reward = 0, 0.0
    for j in range(M):
        p = k.mass[t, s, j]
        if p > 0.0:
            row = (tree.context[j] * S + s) * tree.A + a
            reward += p * tree.row_reward[row]
            for i in range(tree.indptr[row], tree.indptr[row + 1]):
                y = tree.next[i]
                if not x.marked[y]:
                    x.marked[y] = True
                    x.touched[n] = y
                    n += 1
                    for h in range(M):
                        x.arriving[y, h] = k.mass[t + 1, y, h]
                x.arriving[y, j] += p * tree.prob[i] * tree.discount
    for i in range(n):
        x.marked[x.touched[i]] = False
    return n, reward


@kernel
def rank_choices(tree, k, x, t, i, base):
    """Bound every action of the `i`-th state of step `t`; best first. `base`: U of mass[t + 1]."""
    s = k.state[t, i]
    first, last = tree.choice_ptr[s], tree.choice_ptr[s + 1]
    final = t == k.count.size - 1
    for c in range(first, last):
        n, reward = send(tree, k, x, t, s, tree.choice[c])
        total = k.earned[t, i] + k.open[t, i + 1] + base + reward
        if not final:
            for e in range(n):
                y = x.touched[e]
                total += upper_of(tree, x, t + 1, y, x.arriving[y]) - k.later[t + 1, y]
        q = c - first
        while q > 0 and k.bound[t, i, q - 1] < total:
            k.bound[t, i, q] = k.bound[t, i, q - 1]
            k.choice[t, i, q] = k.choice[t, i, q - 1]
            q -= 1
        k.bound[t, i, q] = total
        k.choice[t, i, q] = tree.choice[c]
    # In the last step the best action is exact: no other need be tried.
    k.tried[t, i] = 0
    return 1 if final else last - first


@kernel
def take(tree, k, x, t, i, a):
    """Decide action `a` for the `i`-th state of step `t`; remember what it overwrites."""
    s = k.state[t, i]
    n, reward = send(tree, k, x, t, s, a)
    k.policy[t, s] = a
    k.earned[t, i + 1] = k.earned[t, i] + reward
    at = k.log_ptr[t, i]
    for e in range(n):
        y = x.touched[e]
        k.log_state[at] = y
        k.log_later[at] = k.later[t + 1, y]
        for j in range(k.mass.shape[2]):
            k.log_mass[at, j] = k.mass[t + 1, y, j]
            k.mass[t + 1, y, j] = x.arriving[y, j]
        k.later[t + 1, y] = upper_of(tree, x, t + 1, y, x.arriving[y])
        at += 1
    k.log_ptr[t, i + 1] = at


@kernel
def untake(k, t, i):
    """Undo `take` of the `i`-th state of step `t`."""
    for e in range(k.log_ptr[t, i], k.log_ptr[t, i + 1]):
        y = k.log_state[e]
        k.later[t + 1, y] = k.log_later[e]
        for j in range(k.mass.shape[2]):
            k.mass[t + 1, y, j] = k.log_mass[e, j]


@kernel
def search(tree, k, x, width, threshold, slack, best_policy, max_nodes):
    """Go on with the search for policies worth more than `threshold + slack`.

    Returns `(finished, nodes, threshold)`; the threshold rises to the value of the best policy
    found, which is then in `best_policy`. When finished, no policy is worth more than the
    threshold plus slack. `width (H, S)` is scratch that lives with the stack.
    """
    H, S = width.shape
    nodes = 0
    t, i, new = k.place[0], k.place[1], k.place[2]
    while nodes < max_nodes:
        if new == 1:
            if i == 0:
                enter(tree, k, x, t)
            base = 0.0
            if t < H - 1:
                for s in range(S):
                    base += k.later[t + 1, s]
            width[t, i] = rank_choices(tree, k, x, t, i, base)
            nodes += 1
            new = 0
        q = k.tried[t, i]
        if q < width[t, i] and k.bound[t, i, q] > threshold + slack:
            k.tried[t, i] += 1
            take(tree, k, x, t, i, k.choice[t, i, q])
            if i + 1 < k.count[t]:
                i, new = i + 1, 1
            elif t < H - 1:
                k.earned[t + 1, 0] = k.earned[t, i + 1]
                t, i, new = t + 1, 0, 1
            else:
                if k.earned[t, i + 1] > threshold:
                    threshold = k.earned[t, i + 1]
                    for h in range(H):
                        for s in range(S):
                            best_policy[h, s] = k.policy[h, s]
                untake(k, t, i)
        else:
            if i > 0:
                i -= 1
            elif t > 0:
                t -= 1
                i = k.count[t] - 1
            else:
                k.place[0], k.place[1], k.place[2] = t, i, new
                return True, nodes, threshold
            untake(k, t, i)
    k.place[0], k.place[1], k.place[2] = t, i, new
    return False, nodes, threshold
