"""Local search for the argmax of Eq. (5) that Algorithms 2 and 3 ask for.

Sweeps while they help, then checked switches; perturbed weights lead away from local optima.
"""

from latentmdp.kernels.optimism.step import BACK_UP, settle, visit_rows
from latentmdp.kernels.optimism.sweep import TOLERANCE, copy_policy, propose
from latentmdp.kernels.optimism.switches import checked_pass, mark_live
from latentmdp.kernels.optimism.values import evaluate, objective
from latentmdp.runtime.kernel_cache import kernel


@kernel
def adopt_trial(search):
    """The values on trial become the current ones."""
    current, trial = search.current, search.trial
    for n in range(trial.value.shape[0]):
        for m in range(trial.value.shape[1]):
            current.value[n, m] = trial.value[n, m]
    H, M, S = trial.best.shape  # without confidence sets nothing is in order of values
    for t in range(H):
        for m in range(M):
            for i in range(S):
                current.by_value[t, m, i] = trial.by_value[t, m, i]
                current.rank[t, m, i] = trial.rank[t, m, i]
                current.best[t, m, i] = trial.best[t, m, i]
                current.total[t, m, i] = trial.total[t, m, i]
            current.total[t, m, S] = trial.total[t, m, S]


@kernel
def evaluate_policy(search, policy):
    """Exact optimistic value of a policy, whose values are then `current`.

    Before, `current` holds those of the policy `valued`, but for the contexts `stale`, whose rows
    have changed since: if it is the same policy, only these are computed.
    """
    rows, nodes, scratch, span = search.rows, search.nodes, search.scratch, search.nodes.span
    current, values, valued, stale = (
        search.current,
        search.current.value,
        search.valued,
        search.stale,
    )
    every = True
    for m in range(search.M):
        every = every and stale[m]
    for n in range(len(policy)):
        every = every or policy[n] != valued[n]
        valued[n] = policy[n]
    if every:
        stale[:] = False
        return evaluate(search, policy, current)
    for m in range(search.M):
        if not stale[m]:
            continue
        stale[m] = False
        for back in range(search.H):
            t = search.H - 1 - back
            visit_rows(rows, nodes, span[t], span[t + 1], nodes.played, policy, -1, m, m + 1,
                       current, values, BACK_UP, 0.0, scratch)  # fmt: skip
            settle(rows, nodes, t, m, m + 1, current)
    return objective(search, values)


@kernel
def sweep_by_other_weights(search, policy, root, through_cap):
    """Two sweeps under perturbed weights, kept whatever they do to the objective; returns it."""
    for _ in range(2):
        if propose(search, policy, root, through_cap, search.current) >= 0.0:
            copy_policy(search.work.proposal, policy)
    return objective(search, search.current.value)


@kernel
def improve(search, policy, perturbed, root, through_cap, goal, sweeps, passes, every, gain,
            gap_share):  # fmt: skip
    """Improve a policy in place: sweeps while they help, then checked passes until none does.

    Afterwards `current` holds the policy's values. If `perturbed`, it is first swept by the weights
    `root` and `through_cap`. Stops at the value `goal`, after `sweeps` sweeps and passes in
    all, of which at most `passes` are checked (of `every` switch, if so), or when a step gains at
    most `gain` or (unless `every`) at most `gap_share` of what is left to `goal`. Returns the exact
    value.
    """
    value = evaluate_policy(search, policy)
    if perturbed:
        value = sweep_by_other_weights(search, policy, root, through_cap)
    for _ in range(sweeps):
        if value >= goal:
            break
        new = value
        proposed = propose(search, policy, search.root, 0.0, search.trial)
        if proposed > value + TOLERANCE:
            copy_policy(search.work.proposal, policy)
            adopt_trial(search)
            new = proposed
        elif passes > 0 and (proposed >= 0.0 or every):
            passes -= 1
            mark_live(search, policy)
            new = checked_pass(search, policy, value, every)
        done = new <= value + (gain if every else max(gain, gap_share * (goal - value)))
        value = new
        if done:
            break
    copy_policy(policy, search.valued)
    return value
