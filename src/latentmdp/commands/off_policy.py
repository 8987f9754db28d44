"""`latentmdp off-policy LOG MODEL POLICY`: what past episodes say about another policy."""

from typing import Annotated, Any

import typer

from latentmdp.commands import log_options as log_option
from latentmdp.commands.common import AsJson, ModelArgument, PolicyArgument, read_model
from latentmdp.commands.output import print_json, print_text, working


def off_policy_command(
    log: Annotated[
        str,
        typer.Argument(
            metavar="LOG", help="Past episodes: .csv (also .gz), .parquet, .xlsx or minari:ID."
        ),
    ],
    model: ModelArgument,
    policy: PolicyArgument,
    behaviour: Annotated[
        str | None,
        typer.Option(
            "--behaviour", metavar="COLUMN or POLICY", show_default=False,
            help="Probability of the action taken, or the policy that made LOG (else estimated).",
        ),
    ] = None,
    method: Annotated[
        str,
        typer.Option("--method", metavar="NAME", help="How to estimate; all are listed below."),
    ] = "dr",
    level: Annotated[
        float, typer.Option("--level", help="How often the interval is to hold the value.")
    ] = 0.95,
    context: log_option.Context = "context",
    episode: log_option.Episode = "episode",
    state: log_option.State = "state",
    action: log_option.Action = "action",
    reward: log_option.Reward = "reward",
    step: log_option.Step = None,
    next_state: log_option.NextState = None,
    terminated: log_option.Terminated = None,
    truncated: log_option.Truncated = None,
    on_bad: log_option.OnBad = "raise",
    duplicates: log_option.Duplicates = "refuse",
    strip: log_option.Strip = False,
    casefold: log_option.Casefold = False,
    date_format: log_option.DateFormat = None,
    holdout: Annotated[
        float,
        typer.Option(
            "--holdout", metavar="SHARE", help="Ask only what `fit --holdout SHARE` held back."
        ),
    ] = 0.0,
    seed: Annotated[int, typer.Option("--seed", help="Of the bootstrap.")] = 0,
    json: AsJson = False,
) -> None:  # fmt: skip
    """The value of a policy by episodes that another one made, with an interval."""
    from latentmdp.fitting.off_policy.estimate import off_policy
    from latentmdp.formats import load_policy

    found = read_model(model)
    graph = load_policy(policy, found)
    made_by: Any = behaviour
    if behaviour is not None and behaviour.endswith((".json", ".npz")):
        made_by = load_policy(behaviour, found)
    with working("reading the log"):
        worth = off_policy(
            log, graph, made_by, method, level, model=found, context=context, episode=episode,
            state=state, action=action, reward=reward, step=step, next_state=next_state,
            terminated=terminated, truncated=truncated, on_bad=on_bad,
            duplicates=duplicates, strip=strip, casefold=casefold, date_format=date_format,
            holdout=holdout, seed=seed,
        )  # fmt: skip
    if json:
        print_json({
            "value": worth.value, "lower": worth.lower, "upper": worth.upper,
            "level": worth.level, "method": worth.method, "episodes": worth.episodes,
            "effective_episodes": worth.effective_episodes, "warning": worth.warning,
            "behaviour": worth.behaviour,
        })  # fmt: skip
    else:
        print_text(str(worth))
