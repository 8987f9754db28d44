"""One step with a confidence set, Eq. (2): values of nodes, and the derivative.

The best distribution in a box moves mass from the lowest next values to the highest. Monotone in
the next values and, below the cap, convex. The worst one (`rows.direction` is -1) moves it the
other way, and is concave: here it is the best one for *scores*, the values times the direction.
Each call handles nodes of one step.

A row's distributions: slots in their boxes `[lower, upper]`, every next state without a slot at
most `unseen`, at most `budget` of mass moved. States without a slot lead to default nodes, whose
scores are kept in descending order with running sums: the merge of slots and default nodes jumps
over runs of them, so that a row of `b` slots costs `O(b^2 + b log S)`, not `O(S)`.

Index conventions. Row `(m, s, a)` is number `(m * S + s) * A + a`; its slots are numbered
`k = start[row] + i`, in scratch arrays by `i < count`. *Places* number the default nodes of the
next step by falling score: place `p` has the state `by_value[t, m, p]`, `rank` is the inverse, and
`best[t, m, p]` the score; `total[t, m, p]` is the sum of the scores before it. Slots have a place
too: where their score stands among the default nodes.
"""

import numpy as np

from latentmdp.runtime.kernel_cache import kernel


@kernel
def sort_defaults(rows, nodes, t, m0, m1, valuation):
    """Put the scores of the default nodes of step `t` in descending order, in these contexts.

    By insertion into the last order, which nearly holds; ties by state, so that the order depends
    only on the values.
    """
    direction = rows.direction
    value, states, rank = valuation.value, valuation.by_value, valuation.rank
    best, total, first, S = valuation.best, valuation.total, nodes.span[t], len(nodes.first)
    for m in range(m0, m1):
        same = 0
        while same < S and best[t, m, same] == direction * value[first + states[t, m, same], m]:
            same += 1
        # the order holds in front of `lowest`; from there on ranks and sums are written anew
        lowest = same
        for i in range(same, S):
            s = states[t, m, i]
            new = direction * value[first + s, m]
            j = i
            while j > 0 and (
                best[t, m, j - 1] < new or (best[t, m, j - 1] == new and states[t, m, j - 1] > s)
            ):
                best[t, m, j], states[t, m, j] = best[t, m, j - 1], states[t, m, j - 1]
                j -= 1
            best[t, m, j], states[t, m, j] = new, s
            lowest = min(lowest, j)
        if lowest < S:
            running = total[t, m, lowest]
            for i in range(lowest, S):
                rank[t, m, states[t, m, i]] = i
                total[t, m, i] = running
                running += best[t, m, i]
            total[t, m, S] = running


# One function, since its parts work on 8 to 18 arrays for each node: as kernels of their own, or as
# functions that Numba inlines, they took 5 to 28 times as long, for references are counted at every
# call. The four parts have headings instead.
@kernel
def visit_box_rows(rows, nodes, begin, end, wanted, policy, action, m0, m1, valuation, out,
                   pushing, through_cap, scratch):  # fmt: skip
    """`min(cap, r + max over q of q.v)`, Eq. (2), or its derivative, the maximising `q`.

    With the direction -1 it is the minimum, and the minimising `q`.

    Arguments as in `visit_bonus_rows`: values of the `wanted` nodes to `out`, or when `pushing`
    `out[n]` times the maximising `q` added to the successors' reach.
    """
    start, stop, next_state, observation = rows.start, rows.stop, rows.next, rows.observation
    p_hat, reward, lower, upper = rows.p_hat, rows.reward, rows.lower, rows.upper
    gain, unseens, budget, cap = rows.gain, rows.unseen, rows.budget, rows.cap
    direction = rows.direction
    state, edges, succ, possible = nodes.state, nodes.edge, nodes.succ, nodes.possible
    order, place, listed, weight = scratch.order, scratch.place, scratch.listed, scratch.weight
    after, by_place, values = scratch.after, scratch.by_place, valuation.value
    S, A, t = len(nodes.first), edges.shape[1], nodes.step[begin] + 1
    later = nodes.span[t]  # the first default node of the next step
    for m in range(m0, m1):
        states, rank = valuation.by_value[t, m], valuation.rank[t, m]
        best, total = valuation.best[t, m], valuation.total[t, m]
        for n in range(begin, end):
            if not wanted[n]:
                continue
            if pushing:
                if out[n, m] <= 0.0:
                    continue
            elif not possible[n, m]:
                out[n, m] = 0.0
                continue
            a = policy[n] if action < 0 else action
            row, edge = (m * S + state[n]) * A + a, edges[n, a]
            first, unseen = start[row], unseens[row]
            count = np.int64(stop[row] - first)

            # 1. The scores after the slots, their places, and their order. `listed[:i]` are the
            # ranks of next states that have a slot, ascending: runs of default nodes end there.
            for i in range(count):
                k = first + i
                child = succ[edge + observation[k]]
                where, value = rank[next_state[k]], values[child, m]
                j = i
                while j > 0 and listed[j - 1] > where:
                    listed[j] = listed[j - 1]
                    j -= 1
                listed[j] = where
                if reward[k] > 0.0:
                    value = min(reward[k] + value, cap)
                score = direction * value
                # the rank is the default node's: memory nodes and rewards are out of its order
                if child != later + next_state[k] or reward[k] > 0.0:
                    low, high = 0, S
                    while low < high:
                        middle = (low + high) // 2
                        if best[middle] <= score:
                            high = middle
                        else:
                            low = middle + 1
                    where = low
                after[i], place[i] = score, where
                j = i
                while j > 0:
                    other = order[j - 1]
                    if after[other] > score or (after[other] == score and place[other] <= where):
                        break
                    order[j] = other
                    j -= 1
                order[j] = i

            # 2. Take mass away, from the lowest score up, as far as boxes and budget allow.
            # `weight[i]` is what slot i keeps, `result` the score of that.
            left, mass, result, visited = budget[row], 0.0, 0.0, 0.0
            for j in range(count):
                i = order[count - 1 - j]
                k = first + i
                taken = min(p_hat[k] - lower[k], left)
                visited += p_hat[k]
                left -= taken
                mass += taken
                weight[i] = p_hat[k] - taken
                result += weight[i] * after[i]
            if visited == 0.0:
                mass = 1.0  # a row without visits: the whole simplex

            # 3. Give it to the highest scores, slots and default nodes merged: Eq. (2)'s maximiser.
            # States without a slot get `unseen` each up to the place `full`, and the one at that
            # place gets `rest`. The slots at `listed[:skipped]` are behind us.
            full, rest, skipped = 0, 0.0, 0
            for j in range(count + 1):
                if mass <= 0.0:
                    break
                limit = np.int64(place[order[j]]) if j < count else S
                while full < limit and mass > 0.0:  # states without a slot, above slot j
                    run_end = limit
                    if skipped < count and listed[skipped] < limit:
                        run_end = np.int64(listed[skipped])
                    if mass >= unseen * (run_end - full):
                        result += unseen * (total[run_end] - total[full])
                        mass -= unseen * (run_end - full)
                    else:  # the mass ends inside this run
                        run_end = full + int(mass / unseen)
                        result += unseen * (total[run_end] - total[full])
                        rest = mass - unseen * (run_end - full)
                        result += rest * best[run_end]
                        mass = 0.0
                    full = run_end
                    if mass > 0.0 and skipped < count and full == listed[skipped]:
                        full += 1  # its state has a slot, which gets what its own box allows
                        skipped += 1
                if j < count:
                    i = order[j]
                    given = min(upper[first + i] - weight[i], mass)
                    if given > 0.0:
                        weight[i] += given
                        result += given * after[i]
                        mass -= given
            value = gain[row] + direction * result
            if not pushing:
                out[n, m] = min(value, cap)
                continue

            # 4. Push: `weight` to the slots' successors, the rest as differences by place, which
            # are added up below when all nodes are done.
            pushed = out[n, m]
            if value >= cap:
                pushed *= through_cap
                if pushed == 0.0:
                    continue
            for i in range(count):
                k = first + i
                if reward[k] == 0.0 or direction * after[i] < cap:
                    out[succ[edge + observation[k]], m] += pushed * weight[i]
            run_begin = 0
            for j in range(count + 1):
                run_end = min(np.int64(listed[j]), full) if j < count else full
                if run_end > run_begin:
                    by_place[run_begin] += pushed * unseen
                    by_place[run_end] -= pushed * unseen
                run_begin = run_end + 1
                if run_begin > full:
                    break
            if rest > 0.0:
                by_place[full] += pushed * rest
                by_place[full + 1] -= pushed * rest
        if pushing:
            running = 0.0
            for i in range(S):
                running += by_place[i]
                by_place[i] = 0.0
                if running > 0.0:
                    out[later + states[i], m] += running
            by_place[S] = 0.0
