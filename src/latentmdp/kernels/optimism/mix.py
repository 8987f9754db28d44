"""A sweep for two optimistic models at once: the step between a policy and an argmax near it.

The tie rule wants a policy that is an argmax of the primary model and good for the secondary one.
Sweeps on `weight * primary + secondary` with a growing weight lead there from the secondary's best.
"""

from latentmdp.kernels.optimism.improve import adopt_trial
from latentmdp.kernels.optimism.sweep import copy_policy, fill_reach, sweep
from latentmdp.kernels.optimism.values import objective
from latentmdp.runtime.kernel_cache import kernel


@kernel
def mixed_sweep(primary, secondary, policy, weight):
    """One sweep on `weight * primary + secondary`; rewrites the policy.

    `current` of both searches holds its values, `trial` then those of the result. Returns the
    number of switches.
    """
    target = primary.work.proposal
    fill_reach(primary, policy, primary.root, 0.0)
    fill_reach(secondary, policy, secondary.root, 0.0)
    copy_policy(policy, target)
    switches = sweep(primary, policy, target, primary.trial, weight, secondary)
    copy_policy(target, policy)
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
