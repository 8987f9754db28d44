"""`latentmdp evaluate MODEL POLICY`: value, variance and values by context, exactly."""

from typing import Annotated, Any

import typer

from latentmdp.commands.common import (
    AsJson,
    Discount,
    HiddenRewards,
    Horizon,
    ModelArgument,
    NormalizeRows,
    PolicyArgument,
    Start,
    UserUnits,
    read_model,
)
from latentmdp.commands.output import in_units, print_json, print_table, print_text

MOST_LINES = 40


def evaluate_command(
    model: ModelArgument,
    policy: PolicyArgument,
    distribution: Annotated[
        bool, typer.Option("--distribution", help="Also the distribution of the total reward.")
    ] = False,
    hidden_rewards: HiddenRewards = None,
    horizon: Horizon = None,
    discount: Discount = None,
    start: Start = None,
    normalize_rows: NormalizeRows = False,
    user_units: UserUnits = True,
    json: AsJson = False,
) -> None:
    """Value and variance of a policy in a model, exactly."""
    from latentmdp.evaluation.evaluate import evaluate, return_distribution
    from latentmdp.formats import load_policy

    found = read_model(model, hidden_rewards, horizon, discount, start, normalize_rows)
    found, units = in_units(found, user_units)
    graph = load_policy(policy, found)
    result = evaluate(found, graph)
    facts: dict[str, Any] = {"value": result.value, "variance": result.variance}
    facts["contexts"] = result.contexts.tolist()
    if distribution:
        totals, probabilities = return_distribution(found, graph)
        facts["distribution"] = {
            "totals": totals.tolist(),
            "probabilities": probabilities.tolist(),
        }
    if json:
        print_json(facts | units.facts)
        return
    print_text(f"value     {result.value:.10g}")
    print_text(f"variance  {result.variance:.10g}")
    units.say()
    print()
    names = found.context_names or [str(m) for m in range(found.M)]
    columns = (names, found.w.tolist(), facts["contexts"], result.context_variances.tolist())
    rows = list(zip(*columns, strict=True))
    print_table(("context", "weight", "value", "variance"), rows[:MOST_LINES])
    _print_rest(len(rows), "contexts")
    if distribution:
        print()
        pairs = list(zip(*facts["distribution"].values(), strict=True))
        print_table(("total reward", "probability"), pairs[:MOST_LINES])
        _print_rest(len(pairs), "totals (all with --json)")


def _print_rest(count: int, what: str) -> None:
    if count > MOST_LINES:
        print(f"... {count - MOST_LINES} more {what}")
