"""Results of the public functions as bits, to compare two versions of the code.

`python benchmarks/recorded_results.py write FILE` records them; with `compare FILE` they are
computed again, and every value that differs is listed. Limits are on work, never on time, so that
equal code gives equal bits.
"""

import hashlib
import json
import math
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import latentmdp as lm

DOMAINS = {
    "maze": "maze:size=4,goals=4,horizon=10,slip=0.2,seed=6",
    "hard": "hard:contexts=3,states=11,actions=2,eps=0.2,reward=1",
    "garnet": "garnet:contexts=3,states=6,actions=3,horizon=8,seed=2",
    "riverswim": "riverswim:states=5,contexts=3,horizon=12,seed=1",
    "troubleshoot": "troubleshoot:faults=3,tests=2,horizon=7",
    "once": "troubleshoot:faults=3,tests=2,horizon=7,once=1",
    "mastermind": "mastermind:colours=2,balls=2,guesses=3",
    "bandit": "bandit:arms=3,contexts=3,horizon=8,seed=3",
    "deterministic": "deterministic:states=6,actions=2,horizon=6,seed=0",
}
LEARNT = ("maze", "hard", "garnet", "troubleshoot")
Results = dict[str, Any]


def bits(value: Any) -> Any:
    """A value as JSON that is equal exactly where the value is."""
    if value is None or isinstance(value, (bool, str, int)):
        return value
    if isinstance(value, (float, np.floating)):
        return float(value).hex()
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, (list, tuple)):
        return [bits(x) for x in value]
    if isinstance(value, dict):
        return {str(k): bits(v) for k, v in value.items()}
    if isinstance(value, pd.DataFrame):
        return {str(name): bits(value[name].to_numpy()) for name in value}
    array = np.ascontiguousarray(value)
    if array.dtype == object:
        return [bits(x) for x in array.tolist()]
    content = np.ascontiguousarray(array + 0.0 if array.dtype.kind == "f" else array).tobytes()
    return f"{array.dtype} {array.shape} {hashlib.sha256(content).hexdigest()[:16]}"


def policy_bits(policy: Any) -> Any:
    names = ("step", "state", "action", "indptr", "symbol", "next", "node", "root", "default")
    return {name: bits(getattr(policy, name)) for name in names}


def plan_bits(plan: Any) -> Results:
    names = ("lower", "upper", "status", "method", "nodes", "work")
    return {name: bits(getattr(plan, name)) for name in names} | {
        "policy": policy_bits(plan.policy)
    }


def evaluation_bits(evaluation: Any) -> Results:
    names = ("value", "variance", "alpha", "contexts", "context_variances")
    return {name: bits(getattr(evaluation, name)) for name in names}


def run_bits(run: Any) -> Results:
    table = run.table.drop(columns=[c for c in run.table if "seconds" in c])
    names = ("regret", "regret_bounds", "updates", "optimal", "final_value")
    return {name: bits(getattr(run, name)) for name in names} | {"table": bits(table)}


def by_step(spec: str, terminal: bool = False) -> Any:
    """A domain whose rewards fade step by step, so that it depends on the step."""
    model = lm.make(spec)
    H, rng = int(model.H), np.random.default_rng(5)
    P = np.broadcast_to(model.P, (H, *model.P.shape))
    fade = np.linspace(1.0, 0.5, H).reshape(-1, *[1] * model.R.ndim)
    options = {"terminal": rng.uniform(0.0, 0.2, (model.M, model.S))} if terminal else {}
    return lm.LatentMDP.from_arrays(
        P, model.R * fade, model.w, model.nu, H, max_return=None, **options
    )


def plans() -> Results:
    found: Results = {}
    for name, spec in DOMAINS.items():
        model = lm.make(spec)
        for kind in ("history", "markov"):
            plan = lm.plan(model, kind, gap=1e-6, time_limit=None, work_limit=300_000)
            found[f"plan {name} {kind}"] = plan_bits(plan)
            found[f"evaluate {name} {kind}"] = evaluation_bits(lm.evaluate(model, plan))
        hidden = lm.make(spec, observe_rewards=False)
        found[f"plan {name} hidden"] = plan_bits(
            lm.plan(hidden, gap=1e-6, time_limit=None, work_limit=300_000)
        )
    for method in ("layers", "grid", "exact"):
        model = lm.make("maze:size=5,goals=4,horizon=14,seed=0")
        found[f"plan maze by {method}"] = plan_bits(
            lm.plan(model, method=method, gap=1e-3, time_limit=None, work_limit=400_000)
        )
    large = lm.make("garnet:contexts=5,states=20,actions=4,branching=3,horizon=20,seed=1")
    for kind in ("history", "markov"):
        plan = lm.plan(large, kind, gap=1e-4, time_limit=None, work_limit=1_000_000)
        found[f"plan large garnet {kind}"] = plan_bits(plan)
    for name in ("garnet", "bandit", "riverswim"):
        endless = lm.make(DOMAINS[name]).replace(discount=0.9, horizon=math.inf, max_return=None)
        for kind in ("history", "markov"):
            plan = lm.plan(endless, kind, gap=1e-3, time_limit=None, work_limit=200_000)
            found[f"plan endless {name} {kind}"] = plan_bits(plan)
            found[f"evaluate endless {name} {kind}"] = evaluation_bits(lm.evaluate(endless, plan))
        plan = lm.plan(
            endless, max_nodes=2 * endless.S, gap=1e-2, time_limit=None, work_limit=100_000
        )
        found[f"plan endless {name} of few nodes"] = plan_bits(plan)
    return found


def step_dependent() -> Results:
    found: Results = {}
    for name in ("garnet", "bandit", "maze"):
        for terminal in (False, True):
            model = by_step(DOMAINS[name], terminal)
            for kind in ("history", "markov"):
                plan = lm.plan(model, kind, gap=1e-6, time_limit=None, work_limit=300_000)
                value = lm.evaluate(model, plan)
                found[f"by step {name} {kind}{' terminal' * terminal}"] = {
                    "lower": bits(plan.lower), "upper": bits(plan.upper), "status": plan.status,
                    "value": bits(value.value), "variance": bits(value.variance),
                    "contexts": bits(value.contexts),
                    "optimal": bits(lm.context_optimal(model)[0]),
                    "totals": bits((model.min_return, model.max_return)),
                }  # fmt: skip
            found[f"by step {name} rollout{' terminal' * terminal}"] = bits(
                lm.rollout(model, lm.plan(model, "markov", time_limit=None, work_limit=10_000), 20)
            )
    return found


def learning() -> Results:
    found: Results = {}
    for name in LEARNT:
        model = lm.make(DOMAINS[name]).normalized()
        for algorithm in ("mvp", "bernstein", "lucrl", "ucrl", "psrl", "greedy"):
            run = lm.learn(model, algorithm, 20_000, bonus_scale=0.1, seed=3)
            found[f"learn {name} {algorithm}"] = run_bits(run)
        for algorithm in ("mvp", "bernstein"):
            run = lm.learn(model, algorithm, 5_000, "history", bonus_scale=0.1, seed=4)
            found[f"learn {name} {algorithm} history"] = run_bits(run)
        run = lm.learn(model, "mvp", 2_000, simulator="episodes", seed=5, audit=True)
        found[f"learn {name} by episodes"] = run_bits(run)
        found[f"audit {name}"] = str(lm.audit(run))
    run = lm.learn(lm.make(DOMAINS["maze"]), "mvp", 10**8)
    found["learn maze 1e8"] = run_bits(run)
    run = lm.learn(lm.make(DOMAINS["hard"]), "bernstein", 10**8, "history", audit=True)
    found["learn hard 1e8 history"] = run_bits(run)
    found["audit hard history"] = str(lm.audit(run))
    study = lm.sweep(
        [DOMAINS["hard"], DOMAINS["bandit"]], ["mvp", "lucrl"], seeds=2, episodes=10_000, jobs=1
    )
    table = study.table()
    found["study"] = bits(table.drop(columns=[c for c in table if "seconds" in c or c == "id"]))
    return found


def oracles() -> Results:
    found: Results = {}
    rng = np.random.default_rng(7)
    for name in ("garnet", "hard", "bandit"):
        model = lm.make(DOMAINS[name]).normalized()
        visits = np.zeros((model.M, model.S, model.A, model.S), dtype=np.int64)
        for index in np.ndindex(model.M, model.S, model.A):
            visits[index] = rng.multinomial(int(rng.integers(0, 400)), model.P[index])
        for kind in ("history", "markov"):
            for algorithm in ("mvp", "bernstein"):
                plan = lm.optimistic_plan(model, visits, algorithm, kind, bonus_scale=0.1)
                found[f"optimistic {name} {algorithm} {kind}"] = {
                    "bounds": bits((plan.lower, plan.upper)), "policy": policy_bits(plan.policy),
                }  # fmt: skip
            plan = lm.pessimistic_plan(model, visits, kind)
            found[f"pessimistic {name} {kind}"] = {
                "bounds": bits((plan.lower, plan.upper)), "policy": policy_bits(plan.policy),
            }  # fmt: skip
    for name in ("hard", "bandit", "deterministic"):
        for kind in ("history", "markov"):
            most = lm.max_variance(lm.make(DOMAINS[name]), kind)
            found[f"variance {name} {kind}"] = bits((most.lower, most.upper))
    game = lm.play_lower_bound(2, 11, 2, 10_000, secrets=4)
    found["lower bound"] = str(game)
    return found


def logs() -> Results:
    found: Results = {}
    for name in ("garnet", "troubleshoot", "once", "riverswim"):
        model = lm.make(DOMAINS[name])
        doer = lm.plan(model, "markov", time_limit=None, work_limit=20_000)
        log = lm.rollout(model, doer, 400, seed=1)
        other = lm.plan(model, "markov", method="ascent", time_limit=None, work_limit=100)
        random = lm.rollout(model, other, 400, seed=2)
        random["episode"] += 400
        log = pd.concat([log, random], ignore_index=True).drop(columns="belief", errors="ignore")
        fit = lm.fit(log, horizon=int(model.H))
        judged = fit.evaluate(lm.plan(fit.model, "markov", time_limit=None, work_limit=5_000))
        estimate = lm.off_policy(log, doer, model=model)
        found[f"fit {name}"] = {
            "model": fit.model.digest, "summary": str(fit.summary()),
            "worth": bits((judged.value, judged.lower, judged.upper)),
            "sample": [sample.digest for sample in fit.sample(2, 0)],
            "off policy": bits((estimate.value, estimate.lower, estimate.upper)),
            "log": bits((fit.log_value.value, fit.log_value.lower, fit.log_value.upper)),
        }  # fmt: skip
    return found


def files() -> Results:
    found: Results = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, spec in DOMAINS.items():
            model = lm.make(spec)
            found[f"model {name}"] = [model.digest, repr(model), str(model.describe())]
            for ending in ("npz", "json", "csv", "pomdp", "pomdpx"):
                path = Path(folder) / f"{name}.{ending}"
                try:
                    lm.save(model, path)
                    again = lm.load(path, horizon=model.H)
                except lm.ModelError as error:
                    found[f"file {name} {ending}"] = str(error).replace(folder, "")
                    continue
                found[f"file {name} {ending}"] = [
                    again.digest, hashlib.sha256(path.read_bytes()).hexdigest()[:16]
                    if ending != "npz" else "",
                ]  # fmt: skip
    return found


PARTS: dict[str, Callable[[], Results]] = {
    "plans": plans, "step_dependent": step_dependent, "learning": learning, "oracles": oracles,
    "logs": logs, "files": files,
}  # fmt: skip


def differences(old: Any, new: Any, at: str = "") -> list[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        names = sorted({*old, *new})
        return [x for n in names for x in differences(old.get(n), new.get(n), f"{at} / {n}")]
    if old == new:
        return []
    if isinstance(old, str) and isinstance(new, str) and "0x" in old[:4] and "0x" in new[:4]:
        a, b = float.fromhex(old), float.fromhex(new)
        return [f"{at}: {a!r} -> {b!r} ({b - a:+.3g})"]
    return [f"{at}: {str(old)[:300]} -> {str(new)[:300]}"]


def main() -> int:
    how, file, *wanted = sys.argv[1:]
    results: Results = {}
    for name in wanted or PARTS:
        results[name] = PARTS[name]()
        print(f"{name}: {len(results[name])} results", file=sys.stderr, flush=True)
    if how == "write":
        Path(file).write_text(json.dumps(results, indent=1), encoding="utf-8")
        return 0
    recorded = json.loads(Path(file).read_text(encoding="utf-8"))
    found = [x for name in results for x in differences(recorded[name], results[name], name)]
    print("\n".join(found) or "all equal")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
