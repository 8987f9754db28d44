"""One optimistic step with a confidence set, Eq. (2): values of nodes, and the derivative.

The best distribution in a box moves mass from the lowest next values to the highest. Monotone in
the next values and, below the cap, convex. Each call handles nodes of one step.

A row's distributions: slots in their boxes `[lower, upper]`, every next state without a slot at
most `unseen`, at most `budget` of mass moved. States without a slot lead to default nodes, whose
values are kept in descending order with running sums: the merge of slots and default nodes jumps
over runs of them, so that a row of `b` slots costs `O(b^2 + b log S)`, not `O(S)`.
"""

import numpy as np

from latentmdp.kernels._cache import kernel


@kernel
def sort_defaults(valuation, begin, t, m):
    """Put the values of the default nodes of step `t`, from node `begin` on, in descending order.

    By insertion into the last order, which nearly holds; ties by state, so that the order depends
    only on the values.
    """
    value, S = valuation.value, valuation.rank.shape[2]
    states, rank = valuation.by_value[t, m], valuation.rank[t, m]
    best, total = valuation.best[t, m], valuation.total[t, m]
    same = 0
    while same < S and best[same] == value[begin + states[same], m]:
        same += 1
    if same == S:
        return  # nothing has changed
    lowest = same
    for i in range(same, S):
        s = states[i]
        new = value[begin + s, m]
        j = i
        while j > 0 and (best[j - 1] < new or (best[j - 1] == new and states[j - 1] > s)):
            best[j], states[j] = best[j - 1], states[j - 1]
            j -= 1
        best[j], states[j] = new, s
        lowest = min(lowest, j)
    running = total[lowest]
    for i in range(lowest, S):
        rank[states[i]] = i
        total[i] = running
        running += best[i]
    total[S] = running


@kernel
def arrange_slots(rows, first, count, edge, succ, m, later, values, rank, best, after, box):
    """Values `after` the slots of a row, their places among the default nodes, and their order.

    `later` is the first default node of the next step, `rank` and `best` are the order of these.
    Fills `order` (slots by descending value), `place` and `listed`.
    """
    reward, observation, next_state, cap = rows.reward, rows.observation, rows.next, rows.cap
    order, place, listed = box.order, box.place, box.listed
    S = len(rank)
    for i in range(count):
        k = first + i
        s = next_state[k]
        child = succ[edge + observation[k]]
        where, new = rank[s], values[child, m]
        j = i
        while j > 0 and listed[j - 1] > where:
            listed[j] = listed[j - 1]
            j -= 1
        listed[j] = where
        if reward[k] > 0.0:
            new = min(reward[k] + new, cap)
        if child != later + s or reward[k] > 0.0:
            low, high = 0, S
            while low < high:
                middle = (low + high) // 2
                if best[middle] <= new:
                    high = middle
                else:
                    low = middle + 1
            where = low
        after[i], place[i] = new, where
        j = i
        while j > 0:
            other = order[j - 1]
            if after[other] > new or (after[other] == new and place[other] <= where):
                break
            order[j] = other
            j -= 1
        order[j] = i


@kernel
def best_distribution(rows, row, count, best, total, after, box):
    """`max over q of q.v` for a row with arranged slots; the maximiser as `weight` and runs.

    Returns the maximum and the number of runs. Eq. (2).
    """
    p_hat, lower, upper = rows.p_hat, rows.lower, rows.upper
    order, place, listed, weight = box.order, box.place, box.listed, box.weight
    run_begin, run_end, run_share = box.run_begin, box.run_end, box.run_share
    first, unseen, S = rows.start[row], rows.unseen[row], len(best)
    # take mass away, from the lowest value up, as far as boxes and budget allow
    left, mass, value, visited = rows.budget[row], 0.0, 0.0, 0.0
    for j in range(count):
        i = order[count - 1 - j]
        k = first + i
        taken = min(p_hat[k] - lower[k], left)
        visited += p_hat[k]
        left -= taken
        mass += taken
        weight[i] = p_hat[k] - taken
        value += weight[i] * after[i]
    if visited == 0.0:
        mass = 1.0  # a row without visits: the whole simplex
    # give it to the highest values, slots and default nodes merged
    runs, here, skipped = 0, 0, 0
    for j in range(count + 1):
        if mass <= 0.0:
            break
        end = place[order[j]] if j < count else S
        while here < end and mass > 0.0:  # states without a slot, above slot j
            stop = min(end, listed[skipped]) if skipped < count else end
            if stop > here and unseen > 0.0:
                run_begin[runs], run_share[runs] = here, unseen
                if mass >= unseen * (stop - here):
                    value += unseen * (total[stop] - total[here])
                    mass -= unseen * (stop - here)
                else:  # the mass ends inside this run
                    stop = here + int(mass / unseen)
                    value += unseen * (total[stop] - total[here])
                    mass -= unseen * (stop - here)
                    run_end[runs] = stop
                    runs += 1
                    value += mass * best[stop]
                    run_begin[runs], run_share[runs] = stop, mass
                    stop += 1
                    mass = 0.0
                run_end[runs] = stop
                runs += 1
            here = stop
            if skipped < count and here == listed[skipped]:
                here += 1
                skipped += 1
        if j < count:
            i = order[j]
            given = min(upper[first + i] - weight[i], mass)
            if given > 0.0:
                weight[i] += given
                value += given * after[i]
                mass -= given
    return value, runs


@kernel
def interval_backup(rows, nodes, begin, end, wanted, policy, action, m0, m1, valuation, out, after,
                    box):  # fmt: skip
    """`out = min(cap, r + max over q of q.v)`, Eq. (2); arguments as in `bonus_backup`."""
    state, edges, succ, possible = nodes.state, nodes.edge, nodes.succ, nodes.possible
    S, A, cap = len(nodes.first), edges.shape[1], rows.cap
    t = nodes.step[begin] + 1
    later, values = nodes.span[t], valuation.value
    for m in range(m0, m1):
        sort_defaults(valuation, later, t, m)
        rank, best, total = valuation.rank[t, m], valuation.best[t, m], valuation.total[t, m]
        for n in range(begin, end):
            if not wanted[n]:
                continue
            if not possible[n, m]:
                out[n, m] = 0.0
                continue
            a = policy[n] if action < 0 else action
            row = (m * S + state[n]) * A + a
            first = rows.start[row]
            count = np.int64(rows.stop[row] - first)
            arrange_slots(
                rows, first, count, edges[n, a], succ, m, later, values, rank, best, after, box
            )  # fmt: skip
            value, _ = best_distribution(rows, row, count, best, total, after, box)
            out[n, m] = min(rows.gain[row] + value, cap)


@kernel
def interval_push(rows, nodes, begin, end, policy, valuation, reach, through_cap, after, box):
    """Add `reach[n]` times the maximising distribution at `n` to the reach of its successors.

    Nothing goes through the cap but `through_cap`, as in `bonus_push`.
    """
    state, edges, succ = nodes.state, nodes.edge, nodes.succ
    observation, reward = rows.observation, rows.reward
    S, A, M, cap = len(nodes.first), edges.shape[1], reach.shape[1], rows.cap
    weights, run_begin, run_end = box.weight, box.run_begin, box.run_end
    run_share, by_place = box.run_share, box.by_place
    t = nodes.step[begin] + 1
    later, values = nodes.span[t], valuation.value
    for m in range(M):
        sort_defaults(valuation, later, t, m)
        rank, best, total = valuation.rank[t, m], valuation.best[t, m], valuation.total[t, m]
        states = valuation.by_value[t, m]
        for n in range(begin, end):
            weight = reach[n, m]
            if weight <= 0.0:
                continue
            a = policy[n]
            row, edge = (m * S + state[n]) * A + a, edges[n, a]
            first = rows.start[row]
            count = np.int64(rows.stop[row] - first)
            arrange_slots(
                rows, first, count, edge, succ, m, later, values, rank, best, after, box
            )  # fmt: skip
            value, runs = best_distribution(rows, row, count, best, total, after, box)
            if rows.gain[row] + value >= cap:
                weight *= through_cap
                if weight == 0.0:
                    continue
            for j in range(runs):
                by_place[run_begin[j]] += weight * run_share[j]
                by_place[run_end[j]] -= weight * run_share[j]
            for i in range(count):
                k = first + i
                if reward[k] == 0.0 or after[i] < cap:
                    reach[succ[edge + observation[k]], m] += weight * weights[i]
        running = 0.0
        for i in range(S):
            running += by_place[i]
            by_place[i] = 0.0
            if running > 0.0:
                reach[later + states[i], m] += running
        by_place[S] = 0.0
