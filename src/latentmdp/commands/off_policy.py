"""`latentmdp off-policy LOG MODEL POLICY`: the value of a policy from episodes of another."""

from typing import Annotated, Any

from latentmdp.commands import options as option
from latentmdp.commands.common import read_model
from latentmdp.commands.output import Progress, print_json, print_text


def off_policy_command(
    log: Annotated[
        str,
        option.argument("LOG", "Past episodes: .csv (also .gz), .parquet, .xlsx or minari:ID."),
    ],
    model: option.Model,
    policy: option.Policy,
    behaviour: Annotated[
        str | None,
        option.new(
            "--behaviour COLUMN or POLICY",
            "The column with the probability of the action taken, or the policy that made LOG "
            "(default: estimated from LOG).",
        ),
    ] = None,
    method: Annotated[
        str, option.new("--method NAME", "The estimator; the choices are listed below.")
    ] = "dr",
    level: Annotated[float, option.new("--level P", "Confidence level of the interval.")] = 0.95,
    context: option.Context = "context",
    episode: option.Episode = "episode",
    state: option.State = "state",
    action: option.Action = "action",
    reward: option.Reward = "reward",
    step: option.Step = None,
    next_state: option.NextState = None,
    terminated: option.Terminated = None,
    truncated: option.Truncated = None,
    on_bad: option.OnBad = "raise",
    duplicates: option.Duplicates = "refuse",
    strip: option.Strip = False,
    casefold: option.Casefold = False,
    date_format: option.DateFormat = None,
    holdout: option.Holdout = 0.0,
    seed: option.Seed = 0,
    json: option.AsJson = False,
) -> None:
    """Estimate the value of a policy from episodes that another policy made."""
    from latentmdp.fitting.off_policy.estimate import off_policy
    from latentmdp.formats import load_policy

    found = read_model(model)
    graph = load_policy(policy, found)
    made_by: Any = behaviour
    if behaviour is not None and behaviour.endswith((".json", ".npz")):
        made_by = load_policy(behaviour, found)
    with Progress("reading the log"):
        estimate = off_policy(
            log, graph, made_by, method, level, model=found, context=context, episode=episode,
            state=state, action=action, reward=reward, step=step, next_state=next_state,
            terminated=terminated, truncated=truncated, on_bad=on_bad,
            duplicates=duplicates, strip=strip, casefold=casefold, date_format=date_format,
            holdout=holdout, seed=seed,
        )  # fmt: skip
    if json:
        print_json({
            "value": estimate.value, "lower": estimate.lower, "upper": estimate.upper,
            "level": estimate.level, "method": estimate.method, "episodes": estimate.episodes,
            "effective_episodes": estimate.effective_episodes, "warning": estimate.warning,
            "behaviour": estimate.behaviour,
        })  # fmt: skip
    else:
        print_text(str(estimate))
