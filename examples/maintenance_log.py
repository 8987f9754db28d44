"""A made-up but honest maintenance log: machines whose fault is only found at the end.

    python examples/maintenance_log.py examples/maintenance_log.csv

A machine works for up to 12 weeks until its planned service. Each week somebody looks at its
condition and runs it, greases it, tightens it, or has it overhauled. What was wrong with it is
written down when it is opened: at the overhaul, after a breakdown, or at the service. Mechanics
here act by habit, with some variety; they do not know the fault. Profits are in thousands, rounded
and a little noisy. Everything below is invented, and this file is all there is behind the log: so
one can see what a fit of it finds, and what it cannot find.
"""

import csv
import random
import sys

FAULTS = {"bearing": 0.5, "mount": 0.3, "seal": 0.2}
CONDITIONS = ("smooth", "noisy", "rough")
WEEKS, JOBS = 12, 300
HABIT = {  # run, grease, tighten, overhaul
    "smooth": (0.90, 0.05, 0.05, 0.00),
    "noisy": (0.40, 0.32, 0.20, 0.08),
    "rough": (0.20, 0.25, 0.20, 0.35),
}
ACTIONS = ("run", "grease", "tighten", "overhaul")
INCOME = {"smooth": 1.0, "noisy": 0.8, "rough": 0.4}
COST = {"run": 0.0, "grease": 0.3, "tighten": 0.4, "overhaul": 4.0}
BREAKDOWN = 12.0
WORSE = {"bearing": 0.30, "mount": 0.25, "seal": 0.15}  # chance to get worse in a week
CURE = {"bearing": "grease", "mount": "tighten"}  # a seal needs the overhaul
CURED, BREAKS = 0.75, 0.35  # chance that the cure works; that a rough machine breaks


def habit(week: int, condition: str, draw: random.Random) -> str:
    """What the mechanics of the log do."""
    return draw.choices(ACTIONS, HABIT[condition])[0]


def work(fault: str, draw: random.Random, choose=habit) -> list[tuple[int, str, str, float, bool]]:
    """One machine: `(week, condition, action, profit, whether that was the end)`."""
    rows, condition = [], 0 if draw.random() < 0.6 else 1
    for week in range(WEEKS):
        name = CONDITIONS[condition]
        action = choose(week, name, draw)
        profit = INCOME[name] - COST[action] + draw.gauss(0.0, 0.05)
        over = action == "overhaul"
        if over:
            profit -= INCOME[name]  # it stands still
        elif action == CURE.get(fault) and draw.random() < CURED:
            condition = max(condition - 1, 0)
        elif name == "rough" and draw.random() < BREAKS:
            profit, over = profit - BREAKDOWN, True
        elif draw.random() < WORSE[fault]:
            condition = min(condition + 1, 2)
        rows.append((week, name, action, round(profit, 2), over))
        if over:
            break
    return rows


def main() -> None:
    """Write the log to the file that the command names, or to maintenance_log.csv."""
    draw = random.Random(20)
    path = sys.argv[1] if len(sys.argv) > 1 else "maintenance_log.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("job", "week", "condition", "action", "profit", "stopped", "fault"))
        for job in range(1, JOBS + 1):
            fault = draw.choices(list(FAULTS), list(FAULTS.values()))[0]
            for week, condition, action, profit, over in work(fault, draw):
                writer.writerow((job, week, condition, action, profit, over, fault))
    print(f"{path}: {JOBS} jobs")


if __name__ == "__main__":
    main()
