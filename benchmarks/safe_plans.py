"""Does a policy made from a log do worse than what was done, and is its promise true?

`python benchmarks/safe_plans.py [--others] [--seconds 10] [LOGS [KIND ...]]` (default: 20 of all
kinds). Each log is of another true model; the first ones, on which the objective was chosen, are
left out. Printed for each way of choosing, policies with memory: what the doctors (or whoever
acted) earn, what the policy earns in the true model, what it promised, how often it earns less than
the doctors, how often it was recommended (`FitPlan.supported`), how often it earns less although
it was, and how often its 95% interval (and its lower end) is right.

`--others` compares planning on posterior draws, penalised for disagreement. `disagreement c`: a
step costs c standard deviations over draws of what follows it. `draws`: of the best policies of the
mean and of 8 draws, the one with the largest mean less one standard deviation over 50 draws.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

import numpy as np

import latentmdp as lm
from latentmdp.fitting.deciding.objectives import FitPlan
from latentmdp.fitting.deciding.safe import with_costs
from latentmdp.fitting.estimation.draws import draw_models
from latentmdp.planning.baselines import context_values, row_values

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
from clinic import Clinic, clinic, value_of

SMALL, LARGE = (
    "garnet:states=5,actions=3,contexts=3,horizon=6",
    ("garnet:states=30,actions=4,contexts=2,horizon=15"),
)
COLUMNS = ("log's own", "policy", "promise", "below", "advised", "wrongly", "covers", "lower ok")
MEAN_LOGS = 10  # `mean` is planned for the first of them
FIRST = 1000  # seed


def of_domain(spec: str, seed: int, careful: bool) -> Clinic:
    """A domain in which people choose at random, or mostly what is good on average."""
    model = lm.make(f"{spec},seed={seed}")
    chance = np.full((model.H, model.M, model.S, model.A), 1.0 / model.A)
    if careful:
        later, _ = context_values(model)
        for t in range(model.H):
            q = np.einsum("m,msa->sa", model.w, row_values(model, later[t + 1]))
            weight = np.exp(30.0 * (q - q.max(axis=1, keepdims=True)))
            chance[t] = weight / weight.sum(axis=1, keepdims=True)
    return Clinic(model, chance, value_of(model, chance))


def odd_habits(seed: int) -> Clinic:
    """Doctors with a favourite action for each state and diagnosis that is not better."""
    place = clinic(2, seed=seed)
    M, S, A = place.model.sizes
    habit = np.random.default_rng(seed).dirichlet(np.full(A, 0.5), (M, S))
    chance = np.broadcast_to(habit, (place.model.H, M, S, A))
    return Clinic(place.model, chance, value_of(place.model, chance))


KINDS: dict[str, tuple[Callable[[int], Clinic], int]] = {  # a true model by seed, episodes
    "74 states, thin": (lambda seed: clinic(2, seed=seed), 300),
    "74 states, thick": (lambda seed: clinic(2, seed=seed), 10_000),
    "74, never slip": (lambda seed: clinic(2, slips=0.1, seed=seed), 1_000),
    "74, not informed": (lambda seed: clinic(2, informed=False, seed=seed), 300),
    "74, odd habits": (odd_habits, 1_000),
    "218 states": (lambda seed: clinic(3, seed=seed), 5_000),
    "218, not informed": (lambda seed: clinic(3, informed=False, seed=seed), 3_000),
    "650 states": (lambda seed: clinic(4, seed=seed), 5_000),
    "5 states, thin": (lambda seed: of_domain(SMALL, seed, False), 40),
    "5 states, thick": (lambda seed: of_domain(SMALL, seed, False), 2_000),
    "30 states": (lambda seed: of_domain(LARGE, seed, True), 500),
}


def policies(
    fit: lm.Fit, objectives: Sequence[str], others: bool, seconds: float
) -> dict[str, tuple[lm.PolicyGraph, object]]:
    """The policy of each way of choosing, with its plan where the package offers it."""
    found: dict[str, tuple[lm.PolicyGraph, object]] = {}
    for objective in objectives:
        plan = fit.plan(objective, time_limit=seconds, draws=200)
        found[objective] = plan.policy, plan
    if not others:
        return found
    for penalty in (0.5, 1.0, 2.0):
        model = penalised(fit, penalty)
        policy = lm.plan(model, time_limit=seconds).policy
        found[f"disagreement {penalty:g}"] = policy.for_model(fit.model), None
    tried = [found["mean"][0]]
    for model in draw_models(fit.estimate, 8, 2):
        tried.append(lm.plan(model, time_limit=seconds / 8).policy.for_model(fit.model))
    values = np.array(
        [[lm.evaluate(m, p).value for p in tried] for m in draw_models(fit.estimate, 50, 1)]
    )
    found["draws"] = tried[int((values.mean(axis=0) - values.std(axis=0)).argmax())], None
    return found


def penalised(fit: lm.Fit, penalty: float) -> lm.LatentMDP:
    """The fitted model in which a step costs how much draws disagree about what follows."""
    model = fit.model
    later, _ = context_values(model)
    after = later[1:].mean(axis=0)
    rows = np.array([row_values(draw, after) for draw in draw_models(fit.estimate, 30, 3)])
    return with_costs(model, penalty * rows.std(axis=0).reshape(-1))


def show(title: str, rows: dict[str, list[tuple[float, ...]]], file: TextIO) -> None:
    """The means over logs."""
    print(f"\n{title}\n{'':16} " + " ".join(f"{c:>9}" for c in COLUMNS), file=file)
    for name, found in rows.items():
        mean = np.mean(found, axis=0)
        print(f"{name:16} " + " ".join(f"{x:9.3f}" for x in mean), file=file, flush=True)


def main() -> None:
    """Print a table for each kind of log."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--others", action="store_true")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each plan")
    parser.add_argument("logs", nargs="?", type=int, default=20)
    parser.add_argument("kinds", nargs="*")
    asked = parser.parse_args()
    logs, others = asked.logs, asked.others
    print(f"{logs} logs per kind; memory; at most {asked.seconds:g} s for each plan")
    for kind in asked.kinds or KINDS:
        make, episodes = KINDS[kind]
        rows: dict[str, list[tuple[float, ...]]] = {}
        begun = time.perf_counter()
        for i in range(logs):
            place = make(FIRST + i)
            log = place.log(episodes, FIRST + i)
            fit = lm.fit(log, prior=0.5, known=place.known(), horizon=place.model.H)
            objectives = ("safe", "mean") if i < MEAN_LOGS or others else ("safe",)
            for name, (policy, plan) in policies(fit, objectives, others, asked.seconds).items():
                true = lm.evaluate(place.model, policy).value
                row = [place.value, true, np.nan, float(true < place.value)] + 4 * [np.nan]
                if isinstance(plan, FitPlan):
                    worth, wrong = plan.worth, float(plan.supported and true < place.value)
                    row[2] = worth.value
                    row[4:] = (float(plan.supported), wrong,
                               float(worth.lower <= true <= worth.upper),
                               float(worth.lower <= true))  # fmt: skip
                rows.setdefault(name, []).append(tuple(row))
            if i == logs - 1 or i % 10 == 9:
                seconds = (time.perf_counter() - begun) / (i + 1)
                title = f"{kind}, {episodes:,} episodes ({i + 1} logs, {seconds:.1f} s each)"
                show(title, rows, sys.stdout if i == logs - 1 else sys.stderr)


if __name__ == "__main__":
    main()
