"""`latentmdp plan MODEL`: the best policy with a proven bound; `--compare`: all methods."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from latentmdp.commands import options as option
from latentmdp.commands.common import check_target, complete_method, read_model
from latentmdp.commands.output import (
    Progress,
    ShownUnits,
    in_units,
    print_json,
    print_table,
    print_text,
)
from latentmdp.errors import ModelError

if TYPE_CHECKING:
    from latentmdp.model.latent_mdp import LatentMDP
    from latentmdp.planning.plan import Plan
    from latentmdp.planning.search_result import Progress as ShowBounds
    from latentmdp.policy.graph import PolicyGraph


def plan_command(
    model: option.Model,
    policy_class: option.PolicyClass = "history",
    gap: Annotated[
        str | None,
        option.new(
            "--gap G",
            "Stop when the bounds are this close, relative to the upper one (0.05 means 5%); "
            "'none': when they are equal.",
            show_default="0.01, with --compare 0.0001",
        ),
    ] = None,
    time_limit: option.TimeLimit = 60.0,
    work_limit: Annotated[
        int | None,
        option.whole("--work-limit W", "Stop after W units of work: the plan is reproducible."),
    ] = None,
    memory_limit: Annotated[
        int | None,
        option.whole(
            "--memory-limit BYTES",
            "Memory of search and policy together (default: a quarter of the machine's memory).",
        ),
    ] = None,
    method: Annotated[
        str,
        option.new(
            "--method NAME", "The search method; the choices are listed below.",
            autocompletion=complete_method,
        ),
    ] = "auto",
    minimize: Annotated[
        bool, option.new("--minimize", "Rewards are costs: find the smallest total.")
    ] = False,
    compare: Annotated[
        bool,
        option.new(
            "--compare",
            "Compare all methods, and bound the value of memory and of knowing the context.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        option.path("--out POLICY", "Write the policy: .json, .npz, or .csv (Markov policies)."),
    ] = None,
    seed: option.Seed = 0,
    max_nodes: Annotated[
        int | None,
        option.whole(
            "--max-nodes N",
            "With --horizon inf: find a controller of at most N nodes, and its loss of value.",
        ),
    ] = None,
    hidden_rewards: option.HiddenRewards = None,
    horizon: option.Horizon = None,
    discount: option.Discount = None,
    start: option.Start = None,
    normalize_rows: option.NormalizeRows = False,
    user_units: option.UserUnits = True,
    json: option.AsJson = False,
) -> None:  # fmt: skip
    """Plan in a known model: a policy, its exact value, and an upper bound for its class."""
    from latentmdp.planning.plan import plan

    _check_out(out, policy_class)
    found = read_model(model, hidden_rewards, horizon, discount, start, normalize_rows)
    found, units = in_units(found, user_units)
    if minimize:
        found = found.negated()
    options: dict[str, Any] = {
        "gap": _parse_gap(gap, "0.0001" if compare else "0.01"), "time_limit": time_limit,
        "work_limit": work_limit, "memory_limit": memory_limit, "seed": seed,
    }  # fmt: skip
    sign = -1.0 if minimize else 1.0
    if compare:
        if out is not None:
            raise ModelError(
                "--compare makes several policies and --out needs one: leave one of them out"
            )
        _compare(found, options, sign, json, units)
        if not json:
            units.say()
        return
    with Progress("planning", json) as line:
        progress = _shown_on(line, sign)
        result = plan(
            found, policy_class, method=method, progress=progress, max_nodes=max_nodes, **options
        )
    if out is not None:
        write_policy(result.policy, found, out)
    if json:
        print_json(_facts(result, sign) | units.facts)
        return
    low, high = _in_sign(result, sign)
    print_text(f"policy   {policy_class}, {_size(result.policy)}")
    print_text(f"value    {sign * result.lower:.10g}")
    print_text(f"optimum  between {low:.10g} and {high:.10g} (gap {result.gap:.3%})")
    if result.unrestricted is not None:
        print_text(
            f"loss     {result.loss:.6g} of {sign * result.unrestricted:.10g}, the value without "
            f"--max-nodes ({result.loss / max(abs(result.unrestricted), 1e-300):.3%})"
        )
    units.say()
    print_text(f"status   {result.status}: {EXPLAINED[result.status]}")
    print_text(
        f"effort   {result.seconds:.2f} s, {result.nodes} nodes, {result.work} units of work, "
        f"{result.method}"
    )
    if out is not None:
        print_text(f"written  {out}")


EXPLAINED = {
    "optimal": "no policy of the class is better",
    "gap": "the gap asked for is reached (--gap)",
    "time": "the limit of time or work is reached (--time-limit, --work-limit)",
    "memory": "the limit of memory is reached (--memory-limit)",
    "interrupted": "interrupted; the bounds hold",
    "stalled": "this method cannot improve the bounds further; they hold",
}


def _facts(result: "Plan", sign: float) -> dict[str, Any]:
    low, high = _in_sign(result, sign)
    return {
        "lower": low, "upper": high, "gap": result.gap, "status": result.status,
        "seconds": result.seconds, "nodes": result.nodes, "method": result.method,
        "class": result.policy_class, "work": result.work, "value": sign * result.lower,
    } | (
        {}
        if result.unrestricted is None
        else {"loss": result.loss, "policy_nodes": result.policy.N}
    )  # fmt: skip


def _in_sign(result: "Plan", sign: float) -> tuple[float, float]:
    """Bounds on the optimum in the user's sign; for costs the policy's value is the upper one."""
    low, high = sorted((sign * result.lower, sign * result.upper))
    return low, high


def _size(policy: "PolicyGraph") -> str:
    if policy.is_markov:
        steps = "every step" if policy.stationary else f"{policy.H} steps"
        return f"{steps} x {policy.S} states"
    return f"{policy.N} nodes"


def _parse_gap(given: str | None, default: str) -> float | None:
    text = default if given is None else given
    if text.strip().lower() == "none":
        return None
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"--gap must be a number or 'none'; it is {text!r}") from None


# ---------------------------------------------------------------------- files


def _check_out(out: Path | None, policy_class: str) -> None:
    """Refuse before the planning a file that could not be written after it."""
    from latentmdp.formats import POLICY_ENDINGS

    if out is not None and out.suffix.lower() == ".csv" and policy_class != "markov":
        raise ModelError("a .csv holds Markov policies only: add --class markov, or use .json")
    check_target(out, "--out", POLICY_ENDINGS)


def write_policy(policy: "PolicyGraph", model: "LatentMDP", path: Path) -> None:
    """Save the policy; a `.csv` also names states and actions where the model does."""
    if path.suffix.lower() != ".csv" or not (model.state_names or model.action_names):
        policy.save(path)
        return
    import pandas as pd  # loads slowly

    from latentmdp.runtime.files import write_atomically

    table = pd.DataFrame(policy.table).rename_axis("step").reset_index()
    table = table.melt("step", var_name="state", value_name="action")
    table = table.sort_values(["step", "state"])
    for column, names in (("state", model.state_names), ("action", model.action_names)):
        if names:
            table[f"{column}_name"] = [names[i] for i in table[column]]
    table = table.drop(columns="step") if policy.stationary else table
    write_atomically(path, lambda file: table.to_csv(file, index=False))


# ---------------------------------------------------------------------- progress


def _shown_on(line: Progress, sign: float) -> "ShowBounds":
    """Shows both bounds."""

    def show(seconds: float, work: int, lower: float, upper: float) -> None:
        low, high = sorted((sign * lower, sign * upper))
        line.details(f"{low:.8g} <= optimum <= {high:.8g}")

    return show


# ---------------------------------------------------------------------- comparison


def _compare(
    model: "LatentMDP", options: dict[str, Any], sign: float, json: bool, units: ShownUnits
) -> None:
    from latentmdp.commands.comparison import compare_methods

    with Progress("planning", json) as line:
        table = compare_methods(model, progress=_shown_on(line, sign), **options)
    if json:
        print_json(
            {
                "methods": [row.facts(sign) for row in table.rows],
                "value_of_memory": table.value_of_memory,
                "value_of_information": table.value_of_information,
            }
            | units.facts
        )
        return
    headers = ("method", "class", "value", "gap", "seconds", "status")
    print_table(
        headers,
        [
            (r.name, r.policy_class, sign * r.value, r.shown_gap, round(r.seconds, 3), r.status)
            for r in table.rows
        ],
    )
    print()
    best = max(abs(r.value) for r in table.rows if r.policy_class == "history")
    for name, (low, high), meaning in (
        ("value of memory", table.value_of_memory, "history minus Markov"),
        ("value of information", table.value_of_information, "knowing the context minus history"),
    ):
        shares = "" if not best else f": {low / best:.3%} to {high / best:.3%}"
        print_text(f"{name:21} between {low:.6f} and {high:.6f}  ({meaning}{shares})")
