"""Optimistic planning: against the exact solver, speed of a warm re-plan, tie rules.

Run: python benchmarks/optimism.py exact [models [seed]]  # fast solver against the exact one
     python benchmarks/optimism.py speed            # seconds of a warm re-plan, one row changed
     python benchmarks/optimism.py ties [episodes]  # average value of a learner by tie rule
     python benchmarks/optimism.py perturbations    # answers of a learner below V*
"""

import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

import latentmdp as lm
from latentmdp.model.counts import Counts
from latentmdp.optimism.confidence import BonusConstants, rule_named
from latentmdp.optimism.given import Given
from latentmdp.optimism.model import ConfidenceModel
from latentmdp.optimism.optimistic_plan import make_planner, optimistic_plan
from latentmdp.optimism.settings import SEARCH, Effort

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from optimism_exact import exact_history, exact_markov
from optimism_twin import random_counts, small_model

VISITS = (20, 20, 100, 100, 1000, 10**4, 10**5, 5, 1, 0)
SHAPES = ((2, 2), (3, 2), (2, 3), (3, 3))  # states, horizon


def exact(models: int, seed: int = 0) -> None:
    """How often the fast solver finds the exact optimum; certificates are asserted."""
    rng = np.random.default_rng(seed)
    short: dict[tuple[str, str], list[float]] = {}
    above: dict[tuple[str, str], list[float]] = {}
    for i in range(models):
        S, H = SHAPES[rng.integers(len(SHAPES))]
        S = 2 if i % 4 == 3 else S  # rewards on transitions: many observations to choose for
        M, observe = int(rng.integers(2, 4)), bool(rng.integers(2))
        model = small_model(rng, M, S, 2, H, i % 4 == 3, observe)
        visits, scale = random_counts(rng, model, VISITS), float(rng.choice([1, 0.1, 0.03, 0.01]))
        constants = BonusConstants(M, S, 2, H, 1000, 0.1, scale)
        counts = Counts.from_visits(visits)
        for algorithm in ("mvp", "bernstein"):
            found = ConfidenceModel.of(Given.of(model), counts, rule_named(algorithm), constants)
            for name in ("markov", "history"):
                best = exact_history(found) if name == "history" else exact_markov(found)[0]
                plan = optimistic_plan(model, visits, algorithm, name, 1000, 0.1, scale, seed=i)
                assert plan.lower <= best + 1e-9, "a value above the optimum"
                assert plan.upper >= best - 1e-9, "a bound below the optimum"
                short.setdefault((algorithm, name), []).append(max(best - plan.lower, 0.0))
                above.setdefault((algorithm, name), []).append(max(plan.upper - best, 0.0))
                if name == "markov":
                    search = plan.planner.searches[0]
                    for label, effort in LESS.items():
                        search.policy[:] = 0
                        value = search.polish(effort)
                        key = algorithm, f"markov, {label}"
                        short.setdefault(key, []).append(max(best - value, 0.0))
    print("| solver | class | equal | mean shortfall | worst |\n|---|---|---|---|---|")
    for (algorithm, name), gaps in sorted(short.items()):
        gap = np.array(gaps)
        print(
            f"| {algorithm} | {name} | {np.mean(gap < 1e-9):.2%} | {gap.mean():.2e} | "
            f"{gap.max():.4f} |"
        )
    print("\n| solver | class | bound = optimum | mean gap |\n|---|---|---|---|")
    for (algorithm, name), gaps in sorted(above.items()):
        gap = np.array(gaps)
        print(f"| {algorithm} | {name} | {np.mean(gap < 1e-9):.2%} | {gap.mean():.2e} |")


LESS = {
    "sweeps alone": Effort(400, 100, 0, False, 1e-12, 0, 0),
    "checked switches": Effort(400, 100, 20, True, 1e-12, 0, 0),
}


def speed() -> None:
    """Best and median processor time of warm re-plans, 1,000 visits a row, one row changed."""
    print("| model | class | solver | scale | nodes | best ms | median ms |")
    print("|---|---|---|---|---|---|---|")
    cases = [
        ("maze:size=5,goals=4,horizon=20", "markov"),
        ("hard:contexts=5,states=20", "markov"),
        ("maze:size=5,goals=4,horizon=20", "history"),
        ("maze:size=6,goals=6,horizon=20", "history"),
    ]
    for spec, name in cases:
        model = lm.make(spec)
        known = Given.of(model)
        for algorithm in ("mvp", "bernstein"):
            for scale in (1.0, 0.01):
                counts = Counts.for_model(model)
                visits = random_counts(np.random.default_rng(0), model, (1000,))
                counts.n_next[:] = visits.reshape(counts.rows, -1)[counts.slot_row, counts.next]
                counts.n[:] = 1000
                counts.snapshot_all()
                constants = BonusConstants(known.M, known.S, known.A, known.H, 10**9, 0.1, scale)
                stream = np.random.default_rng(0)
                planner = make_planner(known, rule_named(algorithm), constants, name, stream)
                found = planner.replan(counts)
                rng, seconds = np.random.default_rng(1), []
                for _ in range(40):
                    row = int(rng.integers(counts.rows))
                    counts.n[row] += 1
                    counts.n_next[counts.indptr[row]] += 1
                    counts.snapshot(row)
                    for one in {planner, getattr(planner, "markov", planner)}:
                        one.visits_at_search = 0  # search again
                    start = time.process_time()
                    found = planner.replan(counts, np.array([row]))
                    seconds.append(time.process_time() - start)
                nodes = getattr(found, "nodes", known.H * known.S)
                print(
                    f"| {spec} | {name} | {algorithm} | {scale} | {nodes} | "
                    f"{min(seconds) * 1e3:.2f} | {np.median(seconds) * 1e3:.2f} |"
                )


def ties(episodes: int) -> None:
    """Average value relative to the best policy found, by tie rule, at the paper's constants."""
    specs = [
        "maze:size=4,goals=3,horizon=15",
        "garnet:states=10,actions=3,contexts=3,horizon=8",
        "hard:contexts=5,states=20",
        "riverswim",
        "troubleshoot",
        "bandit",
        "deterministic",
    ]
    rules = ("incumbent", "secondary")
    print(f"| model | rewards | {' | '.join(rules)} |\n|---|---|{'---|' * len(rules)}")
    for spec in specs:
        for factor in (1.0, 0.6):
            model = lm.make(spec)
            model = lm.LatentMDP.from_arrays(
                model.P, model.R * factor, model.w, model.nu, model.H,
                observe_rewards=model.observe_rewards,
            )  # fmt: skip
            best, row = 0.0, []
            for rule in rules:
                runs = [
                    lm.learn(model, "mvp", episodes, seed=seed, optimal=(0.0, 1.0), ties=rule)
                    for seed in range(10, 13)
                ]
                best = max(best, *(run.table["value"].max() for run in runs))
                totals = [(run.table["value"] * run.table["length"]).sum() for run in runs]
                row.append(np.mean(totals) / episodes)
            cells = " | ".join(f"{value / best:.4f}" for value in row)
            print(f"| {spec} | x {factor} | {cells} |", flush=True)


KICKED = "garnet:contexts=2,states=6,actions=5,branching=2,horizon=8,seed={}"
PERTURBATIONS = {  # effort, and the share of the gap that one must gain to count
    "2 by weights": (Effort(10**18, 10, 1, False, 1e-9, 2, 0), SEARCH.perturb_gain),
    "4 by weights, 8 random": (Effort(10**18, 10, 1, False, 1e-9, 4, 8), SEARCH.perturb_gain),
    "these, any gain counts": (Effort(10**18, 10, 1, False, 1e-9, 4, 8), 0.0),
    "these, rest at most 7": (Effort(10**18, 10, 1, False, 1e-9, 4, 8, 7), SEARCH.perturb_gain),
}


def perturbations() -> None:
    """Updates of `bernstein` whose answer is below `V*`: the search missed the optimum there."""
    print("| perturbations | below V* | updates | mean shortfall | worst | median regrets | s |")
    print("|---|---|---|---|---|---|---|")
    found = []
    for seed in range(1, 5):
        model = lm.make(KICKED.format(seed))
        found.append((model, lm.plan(model, policy_class="markov", time_limit=5)))
    for name, (effort, gain) in PERTURBATIONS.items():
        short, updates, regrets, start = [], 0, [], time.process_time()
        settings = replace(SEARCH, efforts=(effort,), perturb_gain=gain)
        for model, best in found:
            runs = [
                lm.learn(model, "bernstein", 10**8, seed=seed, optimal=best, settings=settings)
                for seed in range(10)
            ]
            for run in runs:
                short.extend(best.lower - run.table["optimistic_value"])
            updates += sum(run.updates for run in runs)
            regrets.append(f"{np.median([run.regret for run in runs]):,.0f}")
        seconds = time.process_time() - start
        below = np.array([x for x in short if x > 1e-9])
        print(
            f"| {name} | {len(below)} | {updates} | {below.mean() if len(below) else 0:.4f} | "
            f"{below.max(initial=0):.4f} | {', '.join(regrets)} | {seconds:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    what, *more = sys.argv[1:] or ["speed"]
    if what == "exact":
        exact(*([int(number) for number in more] or [5200]))
    elif what == "perturbations":
        perturbations()
    elif what == "ties":
        ties(int(float(more[0])) if more else 10**6)
    else:
        speed()
