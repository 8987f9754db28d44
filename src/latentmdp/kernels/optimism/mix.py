"""A sweep for two optimistic models at once: the step between a policy and an argmax near it.

The tie rule wants a policy that is an argmax of the primary model and good for the secondary one.
Sweeps on `weight * primary + secondary` with a growing weight lead there from the secondary's best.
"""

from latentmdp.kernels.optimism.step import BACK_UP, settle, visit_rows
from latentmdp.kernels.optimism.sweep import TOLERANCE, adopt_trial, fill_reach
from latentmdp.kernels.optimism.values import objective
from latentmdp.runtime.kernel_cache import kernel


@kernel
def mixed_sweep(primary, secondary, policy, weight):
    """One sweep on `weight * primary + secondary`; rewrites the policy.

    `current` of both searches holds its values, `trial` then those of the result. An action is
    skipped where even a known context could not make it win. Returns the number of switches.
    """
    fill_reach(primary, policy, primary.root, 0.0)
    fill_reach(secondary, policy, secondary.root, 0.0)
    one, two = primary.work, secondary.work
    span, played, top, target = primary.nodes.span, primary.nodes.played, one.top, one.proposal
    A, M = primary.A, primary.M
    target[:] = policy
    switches, changed_later = 0, False
    for back in range(primary.H):
        t = primary.H - 1 - back
        begin, end = span[t], span[t + 1]
        before = switches
        for a in range(-1, A):  # -1: the incumbent actions, again if a later one was switched
            some = a < 0
            for n in range(begin, end):
                want = played[n] and a < 0
                if a >= 0 and played[n] and policy[n] != a:
                    bound, s = 0.0, primary.nodes.state[n]
                    for m in range(M):
                        bound += (
                            weight * one.reach[n, m] * primary.known_action[t, s, a, m]
                            + two.reach[n, m] * secondary.known_action[t, s, a, m]
                        )
                    want = bound > top[n] + TOLERANCE * (1.0 + top[n])
                    some = some or want
                one.wanted[n] = want
            if not some:
                continue
            if a >= 0 or changed_later:
                visit_rows(
                    primary.rows, primary.nodes, begin, end, one.wanted, policy, a, 0, M,
                    primary.trial, one.backed_up, BACK_UP, 0.0, primary.scratch,
                )  # fmt: skip
                visit_rows(
                    secondary.rows, secondary.nodes, begin, end, one.wanted, policy, a, 0, M,
                    secondary.trial, two.backed_up, BACK_UP, 0.0, secondary.scratch,
                )  # fmt: skip
            else:
                for n in range(begin, end):
                    for m in range(M):
                        one.backed_up[n, m] = primary.current.value[n, m]
                        two.backed_up[n, m] = secondary.current.value[n, m]
            for n in range(begin, end):
                if not one.wanted[n]:
                    continue
                value = 0.0
                for m in range(M):
                    value += (
                        weight * one.reach[n, m] * one.backed_up[n, m]
                        + two.reach[n, m] * two.backed_up[n, m]
                    )
                if a < 0 or value > top[n] + TOLERANCE * (1.0 + top[n]):
                    top[n] = value
                    target[n] = policy[n] if a < 0 else a
                    for m in range(M):
                        primary.trial.value[n, m] = one.backed_up[n, m]
                        secondary.trial.value[n, m] = two.backed_up[n, m]
        for n in range(begin, end):
            if target[n] != policy[n]:
                switches += 1
        settle(primary.rows, primary.nodes, t, 0, M, primary.trial)
        settle(secondary.rows, secondary.nodes, t, 0, M, secondary.trial)
        changed_later = changed_later or switches > before
    policy[:] = target
    return switches


@kernel
def mix(primary, secondary, policy, weights, enough):
    """Sweeps by growing weights until the policy's primary value, which is returned, is `enough`.

    Two sweeps a weight, unless the first one changes nothing. The two searches have the same graph;
    `current` of both holds the policy's values.
    """
    value = objective(primary, primary.current.value)
    for weight in weights:
        for _ in range(2):
            if mixed_sweep(primary, secondary, policy, weight) == 0:
                break
            adopt_trial(primary)
            adopt_trial(secondary)
        value = objective(primary, primary.current.value)
        if value >= enough:
            break
    return value
