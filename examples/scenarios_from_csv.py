"""You have a table of scenario models (say, from forecasts) and need one policy that works for all.

Reads a CSV in the format of published multi-model problems, finds the best Markov policy with a
certificate, says whether remembering the past or knowing the scenario would pay, and writes the
policy as a table that a planner can read without Python.

Run: python examples/scenarios_from_csv.py
"""

import tempfile
from pathlib import Path

import latentmdp as lm


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    # Stand-in for your file: one row per scenario, state, action and next state.
    lm.save(lm.make("riverswim:states=6,contexts=8,horizon=20"), folder / "scenarios.csv")

    # Rewards are not seen while the policy runs: say so, it decides the answer.
    model = lm.load(folder / "scenarios.csv", observe_rewards=False, horizon=20)
    print(model.describe(), "\n")

    markov = lm.plan(model, policy_class="markov", gap=0.001, time_limit=20)
    memory = lm.plan(model, policy_class="history", gap=0.001, time_limit=20)
    values, _ = lm.context_optimal(model)
    known = float((model.w[:, None] * model.nu * values[0]).sum())
    print(f"one table for all scenarios   {markov.lower:.4f}, at most {markov.upper:.4f} possible")
    print(f"a policy that remembers       {memory.lower:.4f}, at most {memory.upper:.4f} possible")
    print(f"knowing the scenario          {known:.4f}")

    worst = lm.evaluate(model, markov.policy).contexts.min()
    print(f"the table in its worst scenario earns {worst:.4f}")
    lm.save_policy(markov.policy, folder / "policy.csv")
    print(f"the table: {folder / 'policy.csv'}")
    print("\n".join((folder / "policy.csv").read_text().splitlines()[:4]))


if __name__ == "__main__":
    main()
