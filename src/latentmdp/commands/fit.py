"""`latentmdp fit LOG`: a model from a table of past episodes; `--plan`: and what to do."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from latentmdp.commands._common import AsJson, some_path, whole_number
from latentmdp.commands._output import print_json, print_table, print_text, working
from latentmdp.errors import ModelError

if TYPE_CHECKING:
    from latentmdp.fitting import Fit
    from latentmdp.fitting.decision import Decision


def _column(role: str, words: str, default: str = "") -> Any:
    return typer.Option(f"--{role}", metavar="COLUMN", help=words, show_default=default or False)


def fit_command(
    log: Annotated[
        list[str],
        typer.Argument(
            metavar="LOG...", show_default=False,
            help="Tables of episodes: .csv, .csv.gz, .parquet, or minari:ID.",
        ),
    ],
    context: Annotated[
        str, _column("context", "What the episode's hidden type was.", "context")
    ] = "context",
    episode: Annotated[
        str, _column("episode", "Which episode a row is of.", "episode")
    ] = "episode",
    state: Annotated[str, _column("state", "The state.", "state")] = "state",
    action: Annotated[str, _column("action", "The action taken.", "action")] = "action",
    reward: Annotated[str, _column("reward", "What was paid.", "reward")] = "reward",
    step: Annotated[str | None, _column("step", "Order of rows (default: as they stand).")] = None,
    next_state: Annotated[
        str | None, _column("next-state", "The state after (default: the next row's).")
    ] = None,
    terminated: Annotated[
        str | None, _column("terminated", "True where an episode ended for good.")
    ] = None,
    truncated: Annotated[
        str | None, _column("truncated", "True where it was only cut off.")
    ] = None,
    horizon: Annotated[
        int | None,
        typer.Option(
            "--horizon", metavar="H", parser=whole_number, show_default=False,
            help="Steps of an episode (default: of the longest).",
        ),
    ] = None,
    prior: Annotated[
        float, typer.Option("--prior", metavar="X", help="Of each possible next state.")
    ] = 0.0,
    unseen: Annotated[
        str,
        typer.Option(
            "--unseen", metavar="WHAT",
            help="What an action never seen does: self, uniform, refuse or unavailable.",
        ),
    ] = "self",
    on_bad: Annotated[
        str,
        typer.Option(
            "--on-bad", metavar="WHAT", help="Doubtful rows: raise, or skip their episodes."
        ),
    ] = "raise",
    hidden_rewards: Annotated[
        bool | None,
        typer.Option(
            "--hidden-rewards/--observed-rewards", show_default=False,
            help="Whether the agent sees rewards (default: yes, unless they are noisy).",
        ),
    ] = None,
    discount: Annotated[float, typer.Option("--discount", metavar="D")] = 1.0,
    contexts: Annotated[
        int | None,
        typer.Option(
            "--contexts", metavar="N", parser=whole_number, show_default=False,
            help="How many hidden types, where some or all episodes have no label: guesses them.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="MODEL", parser=some_path, show_default=False,
            help="Write the model: .npz or .json.",
        ),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Also say what to do, with and without memory.")
    ] = False,
    objective: Annotated[
        str,
        typer.Option(
            "--objective", metavar="WHAT", help="Of --plan: mean, quantile:Q or pessimistic."
        ),
    ] = "mean",
    time_limit: Annotated[
        float, typer.Option("--time-limit", metavar="T", help="Seconds of planning.")
    ] = 60.0,
    policy: Annotated[
        Path | None,
        typer.Option(
            "--policy", metavar="POLICY", parser=some_path, show_default=False,
            help="Write the policy with memory: .json or .npz (implies --plan).",
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report", metavar="PAGE", parser=some_path, show_default=False,
            help="Write one page for colleagues: .html (implies --plan).",
        ),
    ] = None,
    json: AsJson = False,
) -> None:  # fmt: skip
    """Fit a model to a log of episodes whose hidden type became known afterwards."""
    from latentmdp.fitting import fit
    from latentmdp.formats import save, save_policy

    if plan or policy is not None or report is not None:
        from latentmdp.fitting.objectives import parse_objective

        plan = True
        parse_objective(objective)
    _check_targets((out, "--out", (".npz", ".json")), (policy, "--policy", (".npz", ".json")),
                   (report, "--report", (".html", ".htm")))  # fmt: skip
    decision = None
    with working("reading the log") as say:
        found = fit(
            log[0] if len(log) == 1 else log, episode, step, state, action, reward, next_state,
            context, horizon, prior, unseen, on_bad, None, contexts, terminated=terminated,
            truncated=truncated,
            observe_rewards=None if hidden_rewards is None else not hidden_rewards,
            discount=discount,
        )  # fmt: skip
        if out is not None:
            save(found.model, out)
        if plan:
            from latentmdp.fitting.decision import decide

            decision = decide(found, objective, time_limit=time_limit, progress=say)
            if policy is not None:
                save_policy(decision.memory.policy, policy)
        say("looking where data are thin")
        summary = found.summary(None if decision is None else decision.memory.policy)
        if report is not None and decision is not None:
            from latentmdp.report.fit_page import write_fit_page

            say("writing the page")
            command = shlex.join(["latentmdp", *sys.argv[1:]])
            write_fit_page(report, found, summary, decision, command=command)
    if json:
        print_json(
            {
                "rows": found.rows, "episodes": found.episodes, "M": found.model.M,
                "S": found.model.S, "A": found.model.A, "H": found.model.H, "out": out,
                "summary": summary.to_dict(),
            }
            | ({} if decision is None else {"decision": decision.to_dict()})
        )  # fmt: skip
        return
    print_text(str(summary))
    if out is not None:
        print_text(f"\nmodel   {out}: {found.model!r}")
    if decision is not None:
        _print_decision(found, decision)
        for path, what in ((policy, "policy"), (report, "page")):
            if path is not None:
                print_text(f"{what:7} {path}")


def _check_targets(*targets: tuple[Path | None, str, tuple[str, ...]]) -> None:
    """Refuse before the work what could not be written after it."""
    from latentmdp.formats.files import check_writable

    for path, option, endings in targets:
        if path is not None:
            if path.suffix.lower() not in endings:
                raise ModelError(
                    f"{option} must end in {' or '.join(endings)}; it is {str(path)!r}"
                )
            check_writable(path)


def _print_decision(found: "Fit", decision: "Decision") -> None:
    from latentmdp.fitting.decision import table_lines

    print()
    headers = ("what an episode earns", "value", f"{decision.level:.0%} interval")
    rows = [
        (name, f"{x.value:.4g}", f"{x.lower:.4g} to {x.upper:.4g}")
        for name, x in (*decision.rows, *decision.differences)
    ]
    print_table(headers, rows)
    if decision.memory.worth.assumed_steps > 0.01:
        print_text(
            f"the policy with memory spends {decision.memory.worth.assumed_steps:.2g} steps of an "
            "episode where the log has never been: that is assumed, not seen"
        )
    print()
    print_table(
        ("state", "do, without memory (steps, from 1)"), table_lines(found, decision.markov.policy)
    )
