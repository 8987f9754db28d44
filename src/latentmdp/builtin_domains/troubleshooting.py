"""`troubleshoot`: a broken machine with one hidden fault."""

import numpy as np

from latentmdp.builtin_domains.spec import MAX_SEED, Domain, Key, generator, require_size
from latentmdp.model import MAX_HORIZON, LatentMDP

PARTS = ("pump", "valve", "fan", "sensor", "belt", "fuse", "bearing", "filter", "relay", "seal")
_DOWNTIME = 0.4
"""Cost of a step with the machine standing still; a running machine costs 0."""


def build(
    faults: int, tests: int, horizon: int, seed: int, observe_rewards: bool = True
) -> LatentMDP:
    """A machine stands still because one part is broken; test it, replace parts, get it running.

    Good for: the everyday case of context in hindsight, since the fault is known after the
    repair. A test costs little and gives a noisy reading, low or high, visible as the next state
    until the next action: only a policy with memory can add readings up. Replacing the right
    part starts the machine for good (`running`); a wrong part costs its price and the machine is
    `still broken`. A step costs 0.4 for standing still plus 0 to 0.1 for a test or 0.4 to 0.6 for a
    part, and pays (1 - cost)/horizon; a running machine costs nothing. So each step pays at most
    1/horizon and totals are at most 1, less what was spent. Costs are the same in all contexts:
    rewards reveal nothing.
    """
    M, S, A = faults, 2 * tests + 3, tests + faults
    require_size("troubleshoot", M * S * A * 2)
    rng = generator("troubleshoot", seed)
    weight = rng.uniform(0.5, 1.5, size=M)
    high = _readings(faults, tests, rng)  # (faults, tests) probability of a high reading
    test_cost = rng.uniform(0.0, 0.1, size=tests)
    part_cost = rng.uniform(0.4, 0.6, size=faults)

    broken, still, running = 0, 2 * tests + 1, 2 * tests + 2  # test k: states 1 + 2k, 2 + 2k
    cost = np.zeros((S, A))
    cost[:running] = _DOWNTIME + np.concatenate([test_cost, part_cost])

    idle = np.arange(running)  # every state but `running`
    m, s, k = (
        grid.ravel() for grid in np.meshgrid(np.arange(M), idle, np.arange(tests), indexing="ij")
    )
    mf, sf, f = (
        grid.ravel() for grid in np.meshgrid(np.arange(M), idle, np.arange(faults), indexing="ij")
    )
    mr, ar = (grid.ravel() for grid in np.meshgrid(np.arange(M), np.arange(A), indexing="ij"))
    context = np.concatenate([m, m, mf, mr])
    state = np.concatenate([s, s, sf, np.full(mr.size, running)])
    action = np.concatenate([k, k, tests + f, ar])
    next_state = np.concatenate(
        [1 + 2 * k, 2 + 2 * k, np.where(f == mf, running, still), np.full(mr.size, running)]
    )
    prob = np.concatenate([1 - high[m, k], high[m, k], np.ones(mf.size + mr.size)])

    nu = np.zeros((M, S))
    nu[:, broken] = 1.0
    parts = [part_name(i) for i in range(faults)]
    readings = [f"test {i + 1} {level}" for i in range(tests) for level in ("low", "high")]
    return LatentMDP.from_rows(
        context,
        state,
        action,
        next_state,
        prob,
        (1.0 - cost[state, action]) / horizon,
        weight / weight.sum(),
        nu,
        horizon,
        n_actions=A,
        observe_rewards=observe_rewards,
        state_names=("broken", *readings, "still broken", "running"),
        action_names=(*(f"test {i + 1}" for i in range(tests)), *(f"replace {p}" for p in parts)),
        context_names=tuple(f"{part} broken" for part in parts),
    )


def part_name(index: int) -> str:
    """A name for each part: ten real ones, then numbered."""
    return PARTS[index] if index < len(PARTS) else f"part {index + 1}"


def _readings(faults: int, tests: int, rng: np.random.Generator) -> np.ndarray:
    """P(high reading), (faults, tests): each fault shows in its own set of tests, while sets last.

    A test reads high with probability 0.75 to 0.95 under the faults it responds to and 0.05 to
    0.25 under the others.
    """
    patterns = 2 ** min(tests, 40)
    if faults <= patterns <= 2**20:
        code = rng.permutation(patterns)[:faults]
    else:
        code = rng.integers(patterns, size=faults)
    responds = (code[:, None] >> np.arange(tests) % 40) & 1 == 1
    wrong = rng.uniform(0.05, 0.25, size=(faults, tests))
    return np.where(responds, 1.0 - wrong, wrong)


DOMAIN = Domain(
    "troubleshoot",
    (
        Key("faults", int, 4, 1, 10_000, "parts, one of which is broken: the contexts"),
        Key("tests", int, 3, 1, 10_000, "tests that can be run"),
        Key("horizon", int, 12, 1, MAX_HORIZON, "steps of an episode"),
        Key("seed", int, 0, 0, MAX_SEED, "draws readings, costs and how common faults are"),
    ),
    build,
)
