"""`latentmdp plan MODEL`: the best policy with a certificate; `--compare`: all methods at once."""

import csv
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from latentmdp.commands.common import (
    AsJson,
    Discount,
    HiddenRewards,
    Horizon,
    ModelArgument,
    NormalizeRows,
    Start,
    UserUnits,
    complete_class,
    complete_method,
    read_model,
    whole_number,
)
from latentmdp.commands.output import ShownUnits, in_units, print_json, print_table, print_text
from latentmdp.errors import ModelError

if TYPE_CHECKING:
    from latentmdp.model.latent_mdp import LatentMDP
    from latentmdp.planning.plan import Plan
    from latentmdp.planning.search_result import Progress
    from latentmdp.policy.graph import PolicyGraph


def plan_command(
    model: ModelArgument,
    policy_class: Annotated[
        str,
        typer.Option(
            "--class", metavar="CLASS", autocompletion=complete_class,
            help="history (with memory; the default here) or markov (of step and state alone; the "
            "default of learn).",
        ),
    ] = "history",
    gap: Annotated[
        str | None,
        typer.Option(
            "--gap", metavar="G", show_default="0.01, with --compare 0.0001",
            help="Stop when the bounds are this close, relative to the upper one (0.05 means 5%); "
            "'none': when they meet.",
        ),
    ] = None,
    time_limit: Annotated[
        float,
        typer.Option("--time-limit", metavar="T", help="Stop after so many seconds, all included."),
    ] = 60.0,
    work_limit: Annotated[
        int | None,
        typer.Option(
            "--work-limit", metavar="W", parser=whole_number, show_default=False,
            help="Stop after so many units of work; equal limits give equal plans.",
        ),
    ] = None,
    memory_limit: Annotated[
        int | None,
        typer.Option(
            "--memory-limit", metavar="BYTES", parser=whole_number, show_default=False,
            help="Of search and policy together (default: a quarter of the machine's memory).",
        ),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            "--method", metavar="NAME", autocompletion=complete_method,
            help="How to search; all ways are listed below.",
        ),
    ] = "auto",
    minimize: Annotated[
        bool, typer.Option("--minimize", help="Rewards are costs: the least total is the best.")
    ] = False,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare", help="Compare all methods; what memory and knowing the context are worth."
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="POLICY", show_default=False,
            help="Write the policy: .json, .npz, or .csv for a Markov policy.",
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            "--seed", metavar="N", parser=whole_number, help="Of random restarts of the search."
        ),
    ] = 0,
    max_nodes: Annotated[
        int | None,
        typer.Option(
            "--max-nodes", metavar="N", parser=whole_number, show_default=False,
            help="With --horizon inf: a controller of at most N nodes, and what that costs.",
        ),
    ] = None,
    hidden_rewards: HiddenRewards = None,
    horizon: Horizon = None,
    discount: Discount = None,
    start: Start = None,
    normalize_rows: NormalizeRows = False,
    user_units: UserUnits = True,
    json: AsJson = False,
) -> None:  # fmt: skip
    """Plan in a known model: a policy, its exact value, and a bound on its whole class."""
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
            raise ModelError("--compare makes many policies; --out needs one (leave one out)")
        _compare(found, options, sign, json, units)
        if not json:
            units.say()
        return
    with _progress_line(sign, quiet=json) as progress:
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
    "gap": "as close as asked (--gap)",
    "time": "out of time or work (--time-limit, --work-limit)",
    "memory": "out of memory (--memory-limit)",
    "interrupted": "stopped by hand; the bounds hold",
    "stalled": "this method has done all that it does; the bounds hold",
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
    """Bounds on the optimum in the user's sign: for costs the policy's value is the upper one."""
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
    """Refuse before an hour of planning what would be refused after it."""
    from latentmdp.formats import POLICY_ENDINGS
    from latentmdp.runtime.files import check_writable

    if out is None:
        return
    ending = out.suffix.lower()
    if ending not in POLICY_ENDINGS:
        endings = ", ".join(POLICY_ENDINGS)
        raise ModelError(f"--out must end in one of {endings}; it is {str(out)!r}")
    if ending == ".csv" and policy_class != "markov":
        raise ModelError("a .csv holds Markov policies only: add --class markov, or use .json")
    check_writable(out)


def write_policy(policy: "PolicyGraph", model: "LatentMDP", path: Path) -> None:
    """Save the policy; a `.csv` also names states and actions where the model does."""
    names = model.state_names or model.action_names
    if path.suffix.lower() != ".csv" or not names:
        policy.save(path)
        return
    from latentmdp.runtime.files import write_atomically, writer_of

    columns = ["step"] * (not policy.stationary) + ["state", "action"]
    columns += ["state_name"] if model.state_names else []
    columns += ["action_name"] if model.action_names else []
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for t, actions in enumerate(policy.table.tolist()):
        for s, a in enumerate(actions):
            row = [t] * (not policy.stationary) + [s, a]
            row += [model.state_names[s]] if model.state_names else []
            row += [model.action_names[a]] if model.action_names else []
            writer.writerow(row)
    write_atomically(path, writer_of(text.getvalue().encode("utf-8")))


# ---------------------------------------------------------------------- progress


@contextmanager
def _progress_line(sign: float, quiet: bool) -> "Iterator[Progress | None]":
    """One line with both bounds on standard error, on a terminal only."""
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    with Console(stderr=True).status("planning") as line:

        def show(seconds: float, work: int, lower: float, upper: float) -> None:
            low, high = sorted((sign * lower, sign * upper))
            line.update(f"{seconds:6.1f} s   {low:.8g} <= optimum <= {high:.8g}")

        yield show


# ---------------------------------------------------------------------- comparison


def _compare(
    model: "LatentMDP", options: dict[str, Any], sign: float, json: bool, units: ShownUnits
) -> None:
    from latentmdp.commands.comparison import compare_methods

    with _progress_line(sign, quiet=json) as progress:
        table = compare_methods(model, progress=progress, **options)
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
