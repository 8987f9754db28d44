"""`latentmdp fit LOG`: a model from a table of past episodes; `--plan`: and what to do."""

import shlex
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from latentmdp.commands import log_options as log_option
from latentmdp.commands.common import AsJson, some_path, whole_number
from latentmdp.commands.output import print_json, print_table, print_text, working
from latentmdp.errors import MixtureWarning, ModelError, OffPolicyWarning, check_share

if TYPE_CHECKING:
    from latentmdp.fitting import Fit
    from latentmdp.fitting.deciding.decision import Decision
    from latentmdp.fitting.off_policy.estimate import OffPolicyEstimate


def _target(option: str, metavar: str, words: str) -> Any:
    return typer.Option(option, metavar=metavar, parser=some_path, show_default=False, help=words)


def fit_command(
    log: Annotated[
        list[str],
        typer.Argument(
            metavar="LOG", show_default=False,
            help="Tables of episodes: .csv (also .gz, ...), .parquet, .xlsx, or minari:ID.",
        ),
    ],
    context: log_option.Context = "context",
    episode: log_option.Episode = "episode",
    state: log_option.State = "state",
    action: log_option.Action = "action",
    reward: log_option.Reward = "reward",
    step: log_option.Step = None,
    next_state: log_option.NextState = None,
    terminated: log_option.Terminated = None,
    truncated: log_option.Truncated = None,
    horizon: Annotated[
        int | None,
        typer.Option(
            "--horizon", metavar="H", parser=whole_number, show_default=False,
            help="Steps of an episode (default: of the longest).",
        ),
    ] = None,
    prior: Annotated[
        float,
        typer.Option(
            "--prior", metavar="X",
            help="Visits of each row that go as all contexts together did; 0: none.",
        ),
    ] = 0.5,
    unseen: Annotated[
        str,
        typer.Option(
            "--unseen", metavar="WHAT",
            help="What an action never seen does: self, uniform, refuse or unavailable.",
        ),
    ] = "self",
    on_bad: log_option.OnBad = "raise",
    duplicates: log_option.Duplicates = "refuse",
    strip: log_option.Strip = False,
    casefold: log_option.Casefold = False,
    date_format: log_option.DateFormat = None,
    hidden_rewards: Annotated[
        bool | None,
        typer.Option(
            "--hidden-rewards/--observed-rewards", show_default=False,
            help="Whether the agent sees rewards (default: yes, unless they are noisy).",
        ),
    ] = None,
    discount: Annotated[
        float, typer.Option("--discount", metavar="D", help="Of rewards, for each step later.")
    ] = 1.0,
    contexts: Annotated[
        int | None,
        typer.Option(
            "--contexts", metavar="N", parser=whole_number, show_default=False,
            help="How many hidden types, where some or all episodes have no label: guesses them.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        _target("--out", "MODEL", "Write the model: .npz or .json."),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Also say what to do, with and without memory.")
    ] = False,
    objective: Annotated[
        str,
        typer.Option(
            "--objective", metavar="WHAT",
            help="Of --plan: safe, mean, quantile:Q or pessimistic.",
        ),
    ] = "safe",
    min_visits: Annotated[
        int | None,
        typer.Option(
            "--min-visits", metavar="N", parser=whole_number, show_default=False,
            help="Of safe: deviate only to actions seen so often (default: chosen and said).",
        ),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(
            "--delta", metavar="D", show_default=False,
            help="Of the objective pessimistic: how likely its promise may fail (default: 0.1).",
        ),
    ] = None,
    reward_range: Annotated[
        tuple[float, float] | None,
        typer.Option(
            "--reward-range", metavar="LOW HIGH", show_default=False,
            help="Of pessimistic: all rewards lie between these; without it nothing is certified.",
        ),
    ] = None,
    rewards: Annotated[
        str,
        typer.Option(
            "--rewards", metavar="WHAT",
            help="Of pessimistic: noisy, or fixed: one (context, state, action, next state) always "
            "pays the same.",
        ),
    ] = "noisy",
    total_range: Annotated[
        tuple[float, float] | None,
        typer.Option(
            "--total-range", metavar="LOW HIGH", show_default=False,
            help="Between which the total reward of every episode lies (default: found if only "
            "ends pay).",
        ),
    ] = None,
    time_limit: Annotated[
        float, typer.Option("--time-limit", metavar="T", help="Seconds of planning.")
    ] = 60.0,
    holdout: Annotated[
        float,
        typer.Option(
            "--holdout", metavar="SHARE",
            help="Of --plan: keep this share of the episodes (0.5, say) to judge by.",
        ),
    ] = 0.0,
    policy: Annotated[
        Path | None,
        _target("--policy", "POLICY", "The policy with memory: .json or .npz (implies --plan)."),
    ] = None,
    report: Annotated[
        Path | None,
        _target("--report", "PAGE", "One page for colleagues: .html (implies --plan)."),
    ] = None,
    json: AsJson = False,
) -> None:  # fmt: skip
    """Fit a model to a log of episodes whose hidden type became known afterwards."""
    from latentmdp.fitting import fit
    from latentmdp.formats import save, save_policy

    if plan or policy is not None or report is not None:
        from latentmdp.fitting.deciding.objectives import parse_objective

        plan = True
        parse_objective(objective)
    elif holdout:
        raise ModelError("--holdout judges policies: it needs --plan, --policy or --report")
    if objective != "safe" and min_visits is not None:
        raise ModelError("--min-visits needs --objective safe")
    if objective != "pessimistic" and (delta is not None or reward_range is not None):
        raise ModelError("--delta and --reward-range need --objective pessimistic")
    delta = 0.1 if delta is None else delta
    check_share("--delta", delta)
    _check_targets((out, "--out", (".npz", ".json")), (policy, "--policy", (".npz", ".json")),
                   (report, "--report", (".html", ".htm")))  # fmt: skip
    decision = None
    with working("reading the log") as say:
        table: Any = log[0] if len(log) == 1 else log
        columns: dict[str, Any] = {
            "episode": episode,
            "step": step,
            "state": state,
            "action": action,
            "reward": reward,
            "next_state": next_state,
            "context": context,
            "terminated": terminated,
            "truncated": truncated,
            "on_bad": on_bad,
            "duplicates": duplicates,
            "strip": strip,
            "casefold": casefold,
            "date_format": date_format,
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MixtureWarning)  # the summary says it
            found = fit(
                table, **columns, horizon=horizon, prior=prior, unseen=unseen, contexts=contexts,
                holdout=holdout,
                observe_rewards=None if hidden_rewards is None else not hidden_rewards,
                discount=discount, rewards=rewards, total_range=total_range,
            )  # fmt: skip
        if out is not None:
            save(found.model, out)
        if plan:
            from latentmdp.fitting.deciding.decision import decide

            decision = decide(
                found,
                objective,
                time_limit=time_limit,
                progress=say,
                min_visits=min_visits,
                delta=delta,
                reward_range=reward_range,
            )
            if holdout:
                say("asking the episodes held out")
                decision = replace(
                    decision,
                    direct=_asked_directly(table, decision, found, columns, holdout),
                )
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
            ({} if decision is None else {"decision": decision.to_dict()})
            | {
                "rows": found.rows, "episodes": found.episodes, "M": found.model.M,
                "S": found.model.S, "A": found.model.A, "H": found.model.H, "out": out,
                "summary": summary.to_dict(),
            }
        )  # fmt: skip
        return
    if decision is not None:
        print_text(decision.memory.verdict)
        if decision.memory.warning:
            print_text(f"WARNING {decision.memory.warning}")
    print_text(str(summary))
    if out is not None:
        print_text(f"\nmodel   {out}: {found.model!r}")
    if decision is not None:
        _print_decision(found, decision)
        for path, what in ((policy, "policy"), (report, "page")):
            if path is not None:
                print_text(f"{what:7} {path}")


def _asked_directly(
    log: Any, decision: "Decision", found: "Fit", columns: Any, holdout: float
) -> "OffPolicyEstimate":
    """What the episodes held out say about the policy with memory, without a model."""
    from latentmdp.fitting.off_policy.estimate import off_policy

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OffPolicyWarning)  # the answer has the sentence
        return off_policy(
            log, decision.memory.policy, model=found.model, holdout=holdout, **columns
        )  # fmt: skip


def _check_targets(*targets: tuple[Path | None, str, tuple[str, ...]]) -> None:
    """Refuse before the work what could not be written after it."""
    from latentmdp.runtime.files import check_writable

    for path, option, endings in targets:
        if path is not None:
            if path.suffix.lower() not in endings:
                raise ModelError(
                    f"{option} must end in {' or '.join(endings)}; it is {str(path)!r}"
                )
            check_writable(path)


def _print_decision(found: "Fit", decision: "Decision") -> None:
    from latentmdp.fitting.deciding.decision import table_lines

    print()
    headers = ("what an episode earns", "value", f"{decision.level:.0%} interval")
    rows = [
        (name, f"{x.value:.4g}", f"{x.lower:.4g} to {x.upper:.4g}")
        for name, x in (*decision.rows, *decision.differences)
    ]
    print_table(headers, rows)
    for sentence in (
        decision.promise, decision.how_judged, decision.how_filled, decision.how_cut,
        decision.how_direct,
    ):  # fmt: skip
        if sentence:
            print_text(sentence)
    if decision.memory.worth.assumed_steps > 0.01:
        print_text(
            f"the policy with memory spends {decision.memory.worth.assumed_steps:.2g} steps of an "
            "episode where the log does not say what follows: the value assumes something there, "
            "the interval allows anything"
        )
    print()
    print_table(
        ("state", "do, without memory (steps, from 1)"), table_lines(found, decision.markov.policy)
    )
