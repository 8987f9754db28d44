"""Depth-first branch and bound for the largest `V^pi` of a Markov policy, forward in time.

Decisions are taken step by step, at each step state by state. Given the decisions so far, the
mass `mass[t, s, j] = discount^t P(state s at step t, context j)` is known exactly up to the current
step; what the decided states send on collects in `mass[t + 1]`. The bound of a partial policy is

    reward so far + sum_{undecided s} U_t(s, mass[t, s]) + sum_{s'} U_{t+1}(s', mass[t+1, s'])

with the belief-grid bound `U` of `markov_grid`: as if the policy could remember from here on.
What it did before is forgotten: mass that meets in a state is added up, which is what makes the
bound one for Markov policies.

All of the search's state lies in the arrays of `DecisionStack`, so that it can pause and go on.
"""

from typing import NamedTuple

from latentmdp.csr import Floats, Ints
from latentmdp.kernels.planning.markov_grid import bound_at
from latentmdp.kernels.planning.markov_sweep import MarkovView
from latentmdp.kernels.structs import Bools, Indices
from latentmdp.runtime.kernel_cache import kernel


class DecisionStack(NamedTuple):
    """Where the search stands; contexts in group order, `B` = the most choices of a state."""

    place: Ints  # (3,) step, position in the step, 1 if the place is new
    mass: Floats  # (H + 1, S, M)
    later: Floats  # (H + 1, S) U of mass
    state: Indices  # (H, S) the reachable states of a step, heaviest first
    n_states: Indices  # (H,) their number
    undecided: Floats  # (H, S + 1) sum of U over the states from each position on
    earned: Floats  # (H + 1, S + 1) reward before each decision
    choice: Indices  # (H, S, B) actions, best bound first
    bound: Floats  # (H, S, B)
    tried: Indices  # (H, S) how many of them were tried
    width: Indices  # (H, S) how many there are
    log_ptr: Indices  # (H, S + 1) into the log below: what a decision overwrote in mass[t + 1]
    log_state: Indices  # (L,)
    log_later: Floats  # (L,)
    log_mass: Floats  # (L, M)
    policy: Indices  # (H, S)


class SearchScratch(NamedTuple):
    """Buffers."""

    arriving: Floats  # (S, M)
    touched: Indices  # (S,)
    marked: Bools  # (S,) all False between uses
    part: Floats  # (K,) for finding cells
    jump: Ints  # (K,)


class BoundedModel(NamedTuple):
    """The model and the belief-grid bound `U`; contexts in group order."""

    rows: MarkovView
    context: Indices  # (M,) their numbers in the model
    group_ptr: Indices  # (G + 1,)
    N: int  # resolution of the grid
    rank: Ints  # (K, N + 2)
    table: Floats  # (G, H, S, V)


@kernel
def list_states(mass, later, state, key):
    """The states that `mass (S, M)` reaches, heaviest first, into `state`; their number.

    `key (S + 1,)` ends as the sums of `later (S,)` over the states from each position on.
    """
    S, M = mass.shape
    n = 0
    for s in range(S):
        total = 0.0
        for j in range(M):
            total += mass[s, j]
        if total > 0.0:
            i = n
            while i > 0 and key[i - 1] < total:
                key[i] = key[i - 1]
                state[i] = state[i - 1]
                i -= 1
            key[i] = total
            state[i] = s
            n += 1
    key[n] = 0.0
    for i in range(n - 1, -1, -1):
        key[i] = key[i + 1] + later[state[i]]
    return n


@kernel
def send_mass(
    mass, t, context, row_reward, indptr, following, prob, discount, last_reward, A, stride, s, a,
    arriving, touched, marked,
):  # fmt: skip
    """What state `s` of step `t` sends on with action `a`, on top of what is there already.

    Fills `arriving (S, M)` for the states in `touched`; returns `(their number, reward)`. The
    reward of the last step includes what comes after it.
    """
    S, M = mass.shape[1], mass.shape[2]
    last = t == mass.shape[0] - 2
    n, reward = 0, 0.0
    for j in range(M):
        p = mass[t, s, j]
        if p > 0.0:
            row = (context[j] * S + s) * A + a
            reward += p * (last_reward[row] if last else row_reward[t * stride + row])
            row += t * stride
            for i in range(indptr[row], indptr[row + 1]):
                y = following[i]
                if not marked[y]:
                    marked[y] = True
                    touched[n] = y
                    n += 1
                    for h in range(M):
                        arriving[y, h] = mass[t + 1, y, h]
                arriving[y, j] += p * prob[i] * discount
    for i in range(n):
        marked[touched[i]] = False
    return n, reward


@kernel
def search_policies(model, stack, scratch, threshold, slack, best_policy, max_nodes):
    """Go on with the search for policies worth more than `threshold + slack`.

    Returns `(finished, nodes, threshold)`; the threshold rises to the value of the best policy
    found, which is then in `best_policy`. When finished, no policy is worth more than the
    threshold plus slack.
    """
    mass, later, state, n_states = stack.mass, stack.later, stack.state, stack.n_states
    undecided, earned, policy = stack.undecided, stack.earned, stack.policy
    choice, bound, tried, width = stack.choice, stack.bound, stack.tried, stack.width
    log_ptr, log_state = stack.log_ptr, stack.log_state
    log_later, log_mass = stack.log_later, stack.log_mass
    arriving, touched, marked = scratch.arriving, scratch.touched, scratch.marked
    part, jump = scratch.part, scratch.jump
    rows, context, group_ptr = model.rows, model.context, model.group_ptr
    N, rank, table = model.N, model.rank, model.table
    row_reward, indptr, following, prob = rows.row_reward, rows.indptr, rows.next, rows.prob
    choice_ptr, actions, discount, A = rows.choice_ptr, rows.choice, rows.discount, rows.A
    last_reward, stride = rows.last_reward, rows.stride
    H, S, M = policy.shape[0], policy.shape[1], mass.shape[2]
    nodes = 0
    t, i, new = stack.place[0], stack.place[1], stack.place[2]
    while nodes < max_nodes:
        if new == 1:
            nodes, new = nodes + 1, 0
            if i == 0:
                n_states[t] = list_states(mass[t], later[t], state[t], undecided[t])
                log_ptr[t, 0] = 0 if t == 0 else log_ptr[t - 1, n_states[t - 1]]
                for y in range(S):
                    later[t + 1, y] = 0.0
                    for j in range(M):
                        mass[t + 1, y, j] = 0.0
            # Bound every action of this state, best first.
            s = state[t, i]
            base = earned[t, i] + undecided[t, i + 1]
            for y in range(S):
                base += later[t + 1, y]
            tried[t, i], width[t, i] = 0, 0
            place = t * rows.places + s
            for c in range(choice_ptr[place], choice_ptr[place + 1]):
                n, reward = send_mass(
                    mass, t, context, row_reward, indptr, following, prob, discount, last_reward,
                    A, stride, s, actions[c], arriving, touched, marked,
                )  # fmt: skip
                total = base + reward
                if t < H - 1:
                    for e in range(n):
                        y = touched[e]
                        total -= later[t + 1, y]
                        total += bound_at(arriving, y, group_ptr, N, rank, table, t + 1, part, jump)
                q = width[t, i]
                while q > 0 and bound[t, i, q - 1] < total:
                    bound[t, i, q] = bound[t, i, q - 1]
                    choice[t, i, q] = choice[t, i, q - 1]
                    q -= 1
                bound[t, i, q] = total
                choice[t, i, q] = actions[c]
                width[t, i] += 1
            if t == H - 1:
                width[t, i] = 1  # in the last step the best action is exact
        q = tried[t, i]
        if q < width[t, i] and bound[t, i, q] > threshold + slack:
            # Decide; remember what that overwrites.
            tried[t, i] += 1
            s, a = state[t, i], choice[t, i, q]
            n, reward = send_mass(
                mass, t, context, row_reward, indptr, following, prob, discount, last_reward,
                A, stride, s, a, arriving, touched, marked,
            )  # fmt: skip
            policy[t, s] = a
            earned[t, i + 1] = earned[t, i] + reward
            at = log_ptr[t, i]
            if t < H - 1:
                for e in range(n):
                    y = touched[e]
                    log_state[at] = y
                    log_later[at] = later[t + 1, y]
                    for j in range(M):
                        log_mass[at, j] = mass[t + 1, y, j]
                        mass[t + 1, y, j] = arriving[y, j]
                    later[t + 1, y] = bound_at(
                        arriving, y, group_ptr, N, rank, table, t + 1, part, jump
                    )
                    at += 1
            log_ptr[t, i + 1] = at
            if i + 1 < n_states[t]:
                i, new = i + 1, 1
                continue
            if t < H - 1:
                earned[t + 1, 0] = earned[t, i + 1]
                t, i, new = t + 1, 0, 1
                continue
            if earned[t, i + 1] > threshold:
                threshold = earned[t, i + 1]
                for h in range(H):
                    for y in range(S):
                        best_policy[h, y] = policy[h, y]
        else:
            if i > 0:
                i -= 1
            elif t > 0:
                t -= 1
                i = n_states[t] - 1
            else:
                stack.place[0], stack.place[1], stack.place[2] = t, i, new
                return True, nodes, threshold
        # Undo the decision at (t, i).
        for e in range(log_ptr[t, i], log_ptr[t, i + 1]):
            y = log_state[e]
            later[t + 1, y] = log_later[e]
            for j in range(M):
                mass[t + 1, y, j] = log_mass[e, j]
    stack.place[0], stack.place[1], stack.place[2] = t, i, new
    return False, nodes, threshold
