"""`latentmdp fit LOG`: a model from a table of past episodes; `--plan`: policies too."""

import shlex
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from latentmdp.commands import options as option
from latentmdp.commands.common import check_target
from latentmdp.commands.output import Progress, print_json, print_table, print_text
from latentmdp.errors import MixtureWarning, ModelError, OffPolicyWarning, check_share

if TYPE_CHECKING:
    from latentmdp.fitting import Fit
    from latentmdp.fitting.deciding.decision import Decision
    from latentmdp.fitting.off_policy.estimate import OffPolicyEstimate


def fit_command(
    log: Annotated[
        list[str],
        option.argument(
            "LOG", "Tables of episodes: .csv (also .gz, ...), .parquet, .xlsx, or minari:ID."
        ),
    ],
    context: option.Context = "context",
    episode: option.Episode = "episode",
    state: option.State = "state",
    action: option.Action = "action",
    reward: option.Reward = "reward",
    step: option.Step = None,
    next_state: option.NextState = None,
    terminated: option.Terminated = None,
    truncated: option.Truncated = None,
    reading: option.Reading = None,
    horizon: Annotated[
        int | None,
        option.whole("--horizon H", "Steps of an episode (default: those of the longest)."),
    ] = None,
    prior: Annotated[
        float,
        option.new(
            "--prior X",
            "Weight, in visits of a row, of the estimate that all contexts share; 0: none.",
        ),
    ] = 0.5,
    unseen: Annotated[
        str,
        option.new(
            "--unseen WHAT",
            "Effect of an action that was never seen: self, uniform, refuse or unavailable.",
        ),
    ] = "self",
    on_bad: option.OnBad = "raise",
    duplicates: option.Duplicates = "refuse",
    strip: option.Strip = False,
    casefold: option.Casefold = False,
    date_format: option.DateFormat = None,
    hidden_rewards: Annotated[
        bool | None,
        option.new(
            "--hidden-rewards/--observed-rewards",
            "Whether the agent sees the rewards (default: yes, unless they are noisy).",
        ),
    ] = None,
    discount: Annotated[float, option.new("--discount D", "Discount of rewards per step.")] = 1.0,
    contexts: Annotated[
        int | None,
        option.whole(
            "--contexts N",
            "Number of hidden types, if some or all episodes have no label: estimates the labels.",
        ),
    ] = None,
    out: Annotated[
        Path | None, option.path("--out MODEL", "Write the model: .npz or .json.")
    ] = None,
    plan: Annotated[
        bool, option.new("--plan", "Also compute policies, with and without memory.")
    ] = False,
    objective: Annotated[
        str, option.new("--objective WHAT", "For --plan: safe, mean, quantile:Q or pessimistic.")
    ] = "safe",
    min_visits: Annotated[
        int | None,
        option.whole(
            "--min-visits N",
            "For safe: leave the logged behaviour only for actions seen at least N times "
            "(default: chosen, and printed).",
        ),
    ] = None,
    delta: Annotated[
        float | None,
        option.new(
            "--delta D",
            "For pessimistic: allowed probability that its bound is wrong (default: 0.1).",
        ),
    ] = None,
    reward_range: Annotated[
        tuple[float, float] | None,
        option.new(
            "--reward-range LOW HIGH",
            "For pessimistic: all rewards lie in this range; without it no bound is certified.",
        ),
    ] = None,
    rewards: Annotated[
        str,
        option.new(
            "--rewards WHAT",
            "For pessimistic: noisy, or fixed, if the reward depends only on context, state, "
            "action and next state.",
        ),
    ] = "noisy",
    total_range: Annotated[
        tuple[float, float] | None,
        option.new(
            "--total-range LOW HIGH",
            "Range of the total reward of an episode (default: estimated if only the end of an "
            "episode pays).",
        ),
    ] = None,
    time_limit: option.TimeLimit = 60.0,
    holdout: option.Holdout = 0.0,
    policy: Annotated[
        Path | None,
        option.path("--policy POLICY", "Write the policy with memory: .json or .npz."),
    ] = None,
    report: Annotated[
        Path | None, option.path("--report PAGE", "Write one page for colleagues: .html.")
    ] = None,
    json: option.AsJson = False,
) -> None:
    """Fit a model to a log of episodes whose hidden type became known afterwards.

    --policy and --report imply --plan.
    """
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
    check_target(out, "--out", (".npz", ".json"))
    check_target(policy, "--policy", (".npz", ".json"))
    check_target(report, "--report", (".html", ".htm"))
    decision = None
    with Progress("reading the log") as say:
        table: Any = log[0] if len(log) == 1 else log
        columns: dict[str, Any] = {
            "episode": episode, "step": step, "state": state, "action": action, "reward": reward,
            "next_state": next_state, "context": context, "terminated": terminated,
            "truncated": truncated, "on_bad": on_bad, "duplicates": duplicates, "strip": strip,
            "casefold": casefold, "date_format": date_format,
        }  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MixtureWarning)  # the summary has it
            found = fit(
                table, **columns, horizon=horizon, prior=prior, unseen=unseen, contexts=contexts,
                reading=reading, holdout=holdout,
                observe_rewards=None if hidden_rewards is None else not hidden_rewards,
                discount=discount, rewards=rewards, total_range=total_range,
            )  # fmt: skip
        if out is not None:
            save(found.model, out)
        if plan:
            from latentmdp.fitting.deciding.decision import decide

            decision = decide(
                found, objective, time_limit=time_limit, progress=say, min_visits=min_visits,
                delta=delta, reward_range=reward_range,
            )  # fmt: skip
            if holdout and found.model.readings == 1:
                say("estimating the value from the episodes held out")
                decision = replace(
                    decision,
                    direct=_direct_estimate(table, decision, found, columns, holdout),
                )
            if policy is not None:
                save_policy(decision.memory.policy, policy)
        say("looking for states with few data")
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


def _direct_estimate(
    log: Any, decision: "Decision", found: "Fit", columns: Any, holdout: float
) -> "OffPolicyEstimate":
    """The value of the policy with memory by the episodes held out, without a model."""
    from latentmdp.fitting.off_policy.estimate import off_policy

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OffPolicyWarning)  # the estimate has it
        return off_policy(
            log, decision.memory.policy, model=found.model, holdout=holdout, **columns
        )  # fmt: skip


def _print_decision(found: "Fit", decision: "Decision") -> None:
    from latentmdp.fitting.deciding.decision import table_lines

    print()
    headers = ("total reward of an episode", "value", f"{decision.level:.0%} interval")
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
            "episode where the log has no data: the value rests on an assumption there, the "
            "interval allows anything"
        )
    print()
    print_table(
        ("state", "action without memory (steps, from 1)"),
        table_lines(found, decision.markov.policy),
    )
