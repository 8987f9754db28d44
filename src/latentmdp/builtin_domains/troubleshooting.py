"""`troubleshoot`: a broken machine with one hidden fault."""

from typing import Any

import numpy as np

from latentmdp.builtin_domains.spec import MAX_SEED, Domain, Key, generator, require_size
from latentmdp.errors import ModelError
from latentmdp.model.horizons import MAX_HORIZON
from latentmdp.model.latent_mdp import LatentMDP

PARTS = ("pump", "valve", "fan", "sensor", "belt", "fuse", "bearing", "filter", "relay", "seal")
_DOWNTIME = 0.4
"""Cost of a step with the machine standing still; a running machine costs 0."""
MOST_ONCE = 16  # faults with `once=1`: there is a state for every set of parts


def build(
    faults: int,
    tests: int,
    horizon: int,
    seed: int,
    once: bool | None,
    readings: bool | None = None,
    observe_rewards: bool = True,
) -> LatentMDP:
    """A machine stands still because one part is broken; test it, replace parts, get it running.

    Good for: the everyday case of context in hindsight, since the fault is known after the
    repair. A test costs little and gives a noisy reading, low or high, visible as the next state
    until the next action: only a policy with memory can add readings up. Replacing the right
    part starts the machine for good (`running`); a wrong part costs its price and the machine is
    `still broken`. A step costs 0.4 for standing still plus 0 to 0.1 for a test or 0.4 to 0.6 for a
    part, and pays (1 - cost)/horizon; a running machine costs nothing. So each step pays at most
    1/horizon and totals are at most 1, less what was spent. Costs are the same in all contexts:
    rewards reveal nothing. With `once=1` a part that was replaced cannot be replaced again: states
    say which were, and those actions are unavailable. With `readings=1` the machine is only broken
    or running, and a test's result is a reading of its own (nothing, low, high) besides the state.
    """
    M, S, A = faults, 2 * tests + 3, tests + faults
    if readings:
        S = 2
        if once:
            raise ModelError("troubleshoot: readings=1 and once=1 do not go together")
    if once:
        if faults > MOST_ONCE:
            raise ModelError(
                f"troubleshoot: faults must be at most {MOST_ONCE} with once=1, which needs a "
                f"state for every set of parts; it is {faults}"
            )
        S = (2**faults - 1) * (2 * tests + 1) + 1
    require_size("troubleshoot", M * S * A * 2)
    rng = generator("troubleshoot", seed)
    weight = rng.uniform(0.5, 1.5, size=M)
    high = _readings(faults, tests, rng)  # (faults, tests) probability of a high reading
    test_cost = rng.uniform(0.0, 0.1, size=tests)
    part_cost = rng.uniform(0.4, 0.6, size=faults)
    parts = [part_name(i) for i in range(faults)]
    shared: dict[str, Any] = {
        "w": weight / weight.sum(),
        "horizon": horizon,
        "n_actions": A,
        "observe_rewards": observe_rewards,
        "action_names": (
            *(f"test {i + 1}" for i in range(tests)), *(f"replace {p}" for p in parts)
        ),
        "context_names": tuple(f"{part} broken" for part in parts),
    }  # fmt: skip
    if readings:
        return _with_readings(high, _DOWNTIME + np.concatenate([test_cost, part_cost]), shared)
    if once:
        return _once(high, _DOWNTIME + np.concatenate([test_cost, part_cost]), parts, shared)

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
    return LatentMDP.from_rows(
        context,
        state,
        action,
        next_state,
        prob,
        (1.0 - cost[state, action]) / horizon,
        nu=nu,
        state_names=("broken", *_reading_names(tests), "still broken", "running"),
        **shared,
    )


def _with_readings(high: np.ndarray, cost: np.ndarray, shared: Any) -> LatentMDP:
    """The machine that is broken (state 0) or running (1); tests show low (1) or high (2)."""
    M, tests = high.shape
    A = tests + M
    m, a = (grid.ravel() for grid in np.indices((M, A)))
    is_test = a < tests
    p_high = np.where(is_test, high[m, np.minimum(a, tests - 1)], 0.0)
    repaired = a - tests == m
    tested = np.flatnonzero(is_test)
    state = np.repeat([0, 0, 1], [len(m), len(tested), len(m)])
    action = np.concatenate([a, a[tested], a])
    paid = 1.0 - np.where(state == 1, 0.0, cost[action])
    return LatentMDP.from_rows(
        np.concatenate([m, m[tested], m]),
        state,
        action,
        np.concatenate([repaired, np.zeros(len(tested)), np.ones(len(m))]),
        np.concatenate([1.0 - p_high, p_high[tested], np.ones(len(m))]),
        paid / shared["horizon"],
        nu=[1.0, 0.0],
        reading=np.concatenate([is_test, np.full(len(tested), 2), np.zeros(len(m))]),
        n_readings=3,
        state_names=("broken", "running"),
        reading_names=("nothing", "low", "high"),
        **shared,
    )


def _once(high: np.ndarray, cost: np.ndarray, parts: list[str], shared: Any) -> LatentMDP:
    """The machine whose states say which parts were replaced, as a set of bits, and what was seen.

    State `u * looks + look` for each set `u` but that of all parts; `running` is the last. Look 0
    is what a replacement leaves behind (or the beginning), `1 + 2k` and `2 + 2k` are test `k`'s.
    """
    M, tests = high.shape
    looks, full = 2 * tests + 1, 2**M - 1
    running, A = full * looks, tests + M
    m, u, look, a = (grid.ravel() for grid in np.indices((M, full, looks, A)))
    part = np.maximum(a - tests, 0)
    keep = (a < tests) | (u >> part & 1 == 0)
    m, u, look, a, part = (x[keep] for x in (m, u, look, a, part))
    state, is_test = u * looks + look, a < tests
    after = u | np.where(is_test, 0, 1 << part)
    repaired = ~is_test & ((part == m) | (after == full))  # the latter only where none can be
    p_high = high[m, np.minimum(a, tests - 1)]
    low_state = np.where(is_test, u * looks + 1 + 2 * a, np.where(repaired, running, after * looks))
    tested = np.flatnonzero(is_test)
    end_m, end_a = (grid.ravel() for grid in np.indices((M, A)))
    context = np.concatenate([m, m[tested], end_m])
    from_state = np.concatenate([state, state[tested], np.full(end_m.size, running)])
    action = np.concatenate([a, a[tested], end_a])
    next_state = np.concatenate([low_state, low_state[tested] + 1, np.full(end_m.size, running)])
    prob = np.concatenate([np.where(is_test, 1 - p_high, 1.0), p_high[tested], np.ones(end_m.size)])
    paid = 1.0 - np.where(from_state == running, 0.0, cost[action])
    nu = np.zeros((M, running + 1))
    nu[:, 0] = 1.0
    return LatentMDP.from_rows(
        context,
        from_state,
        action,
        next_state,
        prob,
        paid / shared["horizon"],
        nu=nu,
        state_names=(*_names_once(tests, parts), "running"),
        **shared,
    )


def _names_once(tests: int, parts: list[str]) -> list[str]:
    names = []
    for u in range(2 ** len(parts) - 1):
        new = ", ".join(part for i, part in enumerate(parts) if u >> i & 1)
        first = "still broken" if u else "broken"
        names += [look + f" (new: {new})" * (u > 0) for look in (first, *_reading_names(tests))]
    return names


def _reading_names(tests: int) -> list[str]:
    return [f"test {i + 1} {level}" for i in range(tests) for level in ("low", "high")]


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
        Key("once", bool, None, 0, 1, "a replaced part cannot be replaced again", "0"),
        Key("readings", bool, None, 0, 1, "tests show readings besides the state", "0"),
    ),
    build,
)
