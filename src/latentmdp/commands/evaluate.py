"""`latentmdp evaluate MODEL POLICY`: exact value and variance, also by context."""

from typing import Annotated, Any

from latentmdp.commands import options as option
from latentmdp.commands.common import read_model
from latentmdp.commands.output import in_units, print_json, print_table, print_text

MOST_LINES = 40


def evaluate_command(
    model: option.Model,
    policy: option.Policy,
    distribution: Annotated[
        bool, option.new("--distribution", "Also print the distribution of the total reward.")
    ] = False,
    hidden_rewards: option.HiddenRewards = None,
    horizon: option.Horizon = None,
    discount: option.Discount = None,
    start: option.Start = None,
    normalize_rows: option.NormalizeRows = False,
    user_units: option.UserUnits = True,
    json: option.AsJson = False,
) -> None:
    """Compute the exact value and variance of a policy in a model."""
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
