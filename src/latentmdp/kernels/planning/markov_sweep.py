"""Sweeps over Markov policies for a larger `V^pi`: reach weights forward, best actions backward.

`policy (H, S)`; `reach (H, M, S)` = P(context, state at the step) x discount^step; `value
(H + 1, M, S)`, at `H` what comes after the last step; `start (M, S)` = w nu. A sweep costs one
backup per row and step.
"""

from typing import NamedTuple

from latentmdp.csr import Floats
from latentmdp.kernels.structs import Indices
from latentmdp.runtime.kernel_cache import kernel


class MarkovView(NamedTuple):
    """A model as Markov policies see it: rows without symbols.

    Row `(t, m, s, a)` is number `t * stride + (m * S + s) * A + a`, and `(t, s)` is place
    `t * places + s`; both `stride` and `places` are 0 where rows are the same at every step. The
    actions worth trying at a place are `choice[choice_ptr[place]:choice_ptr[place + 1]]`: of those
    that do the same in every context, one.
    """

    H: int
    M: int
    S: int
    A: int
    stride: int
    places: int
    discount: float
    w: Floats  # (M,)
    start: Floats  # (M, S) w nu
    terminal: Floats  # (M, S) received after the last step
    row_reward: Floats  # (rows,)
    last_reward: Floats  # (M*S*A,) of the last step, with what comes after it
    indptr: Indices  # (rows + 1,)
    next: Indices  # (outcomes,)
    prob: Floats  # (outcomes,)
    choice_ptr: Indices  # (T*S + 1,) T = 1 where rows are the same at every step, else H
    choice: Indices  # (C,) ascending at each place
    moves: Indices  # (C,) choices that lead to the same states in every context have one number
    first_choice: Indices  # (moves,) the first choice of each number

    @property
    def steps(self) -> int:
        """How many steps have rows of their own."""
        return (len(self.choice_ptr) - 1) // self.S

    @property
    def backups(self) -> int:
        """Row backups of one sweep, the unit of work."""
        return self.H * self.M * len(self.choice) // self.steps


@kernel
def push_forward(view, policy, start, first, reach):
    """Fill `reach` under `policy`; its first step is step `first` of the model."""
    indptr, following, prob = view.indptr, view.next, view.prob
    H, M, S = reach.shape
    for m in range(M):
        for s in range(S):
            reach[0, m, s] = start[m, s]
    for t in range(H - 1):
        for m in range(M):
            for s in range(S):
                reach[t + 1, m, s] = 0.0
            for s in range(S):
                p = reach[t, m, s] * view.discount
                if p > 0.0:
                    row = (first + t) * view.stride + (m * S + s) * view.A + policy[t, s]
                    for i in range(indptr[row], indptr[row + 1]):
                        reach[t + 1, m, following[i]] += p * prob[i]


@kernel
def row_value(row, row_reward, indptr, following, prob, discount, value, t, m):
    """`r + discount p . value[t, m]` of one row."""
    expected = 0.0
    for i in range(indptr[row], indptr[row + 1]):
        expected += prob[i] * value[t, m, following[i]]
    return row_reward[row] + discount * expected


@kernel
def pull_back(view, policy, reach, first, q, value):
    """Choose actions backward for the weights `reach`; fill `value`; the number of switches.

    The first step of `policy` is step `first` of the model; `value[H]` is what comes after it.

    Where nothing arrives any action is as good: there the weights are `w`, so that other policies
    find good values when they come by. The current action wins ties. `q (M, 2)` is scratch.
    """
    row_reward, indptr, following, prob = view.row_reward, view.indptr, view.next, view.prob
    w, choice_ptr, choice = view.w, view.choice_ptr, view.choice
    A, discount = view.A, view.discount
    H, M, S = reach.shape
    switches = 0
    for t in range(H - 1, -1, -1):
        base = (first + t) * view.stride
        for s in range(S):
            place = (first + t) * view.places + s
            arriving = 0.0
            for m in range(M):
                arriving += reach[t, m, s]
            old = policy[t, s]
            action, best = old, 0.0
            for m in range(M):
                row = base + (m * S + s) * A + old
                q[m, 0] = row_value(
                    row, row_reward, indptr, following, prob, discount, value, t + 1, m
                )
                best += q[m, 0] * (reach[t, m, s] if arriving > 0.0 else w[m])
            for c in range(choice_ptr[place], choice_ptr[place + 1]):
                a = choice[c]
                if a == old:
                    continue
                total = 0.0
                for m in range(M):
                    row = base + (m * S + s) * A + a
                    q[m, 1] = row_value(
                        row, row_reward, indptr, following, prob, discount, value, t + 1, m
                    )
                    total += q[m, 1] * (reach[t, m, s] if arriving > 0.0 else w[m])
                if total > best + 1e-13 * abs(best):
                    best, action = total, a
                    for m in range(M):
                        q[m, 0] = q[m, 1]
            for m in range(M):
                value[t, m, s] = q[m, 0]
            if action != old:
                policy[t, s] = action
                switches += 1
    return switches


@kernel
def root_value(start, value):
    """`sum w nu value[0]`."""
    total = 0.0
    for m in range(start.shape[0]):
        for s in range(start.shape[1]):
            if start[m, s] > 0.0:
                total += start[m, s] * value[0, m, s]
    return total


@kernel
def climb_sweeps(view, policy, start, max_sweeps, last, q, reach, value):
    """Coordinate ascent from `policy`, in place: `(value, sweeps, whether it is done)`.

    Each sweep is forward, then backward; going backward, a step's reach weights depend only on
    earlier steps, which have not changed yet, so that no sweep lowers the value. Done when one
    does not raise it above `last`, the value before; pauses after `max_sweeps`.
    """
    sweeps, done = 0, False
    while sweeps < max_sweeps and not done:
        push_forward(view, policy, start, 0, reach)
        switches = pull_back(view, policy, reach, 0, q, value)
        sweeps += 1
        total = root_value(start, value)
        done = switches == 0 or total <= last + 1e-13 * abs(last)
        last = total
    return last, sweeps, done


@kernel
def table_value(view, policy, first, value):
    """The value of a table of actions, from step `first` of the model on; fills `value`."""
    row_reward, indptr, following, prob = view.row_reward, view.indptr, view.next, view.prob
    H, S = policy.shape
    for t in range(H - 1, -1, -1):
        for m in range(view.M):
            for s in range(S):
                row = (first + t) * view.stride + (m * S + s) * view.A + policy[t, s]
                value[t, m, s] = row_value(
                    row, row_reward, indptr, following, prob, view.discount, value, t + 1, m
                )
    return root_value(view.start, value)
