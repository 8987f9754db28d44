"""Options and arguments that several commands share; each is declared here and nowhere else.

A command annotates its parameters with them and gives the default:

    def size_command(model: option.Model, horizon: option.Horizon = None) -> None:

Options of one command alone are declared in its file, by the same functions.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from latentmdp.commands.common import (
    complete_algorithm,
    complete_class,
    complete_model,
    complete_policy,
    some_path,
    whole_number,
    whole_or_infinite,
)


def new(names: str, help: str, **more: Any) -> Any:
    """An option from its flags and, in capitals, its value: `new("--episodes -k K", "...")`."""
    words = names.split()
    flags = [word for word in words if word.startswith("-")]
    value = " ".join(word for word in words if not word.startswith("-"))
    return typer.Option(*flags, metavar=value or None, help=help, **more)


def whole(names: str, help: str, **more: Any) -> Any:
    """An option that is a whole number."""
    return new(names, help, parser=whole_number, **more)


def path(names: str, help: str, **more: Any) -> Any:
    """An option that is a path."""
    return new(names, help, parser=some_path, **more)


def argument(name: str, help: str, **more: Any) -> Any:
    """An argument by its name in capitals."""
    return typer.Argument(metavar=name, help=help, show_default=False, **more)


# ---------------------------------------------------------------------- models and policies

MODEL_HELP = "A file (.npz, .json, .csv, .pomdpx, .pomdp) or a spec string such as maze:size=5."
Model = Annotated[str, argument("MODEL", MODEL_HELP, autocompletion=complete_model)]
OptionalModel = Annotated[str | None, argument("MODEL", MODEL_HELP, autocompletion=complete_model)]
Policy = Annotated[
    str,
    argument(
        "POLICY", "A file (.json, .npz, .policyx, or .csv with the columns step, state, action).",
        autocompletion=complete_policy,
    ),
]  # fmt: skip
HiddenRewards = Annotated[
    bool | None,
    new(
        "--hidden-rewards/--observed-rewards",
        "Whether the agent sees the rewards during the episode (default: as the model says).",
    ),
]
Horizon = Annotated[
    int | None,
    new(
        "--horizon H",
        "Number of steps of an episode, or inf; replaces the model's own. Required for .csv files, "
        "and for .pomdpx and .pomdp files whose discount is 1.",
        parser=whole_or_infinite,
    ),
]
Discount = Annotated[float | None, new("--discount D", "Replaces the model's own discount.")]
Start = Annotated[
    str | None,
    new("--start STATE", "The first state, by name or number; replaces the model's own."),
]
NormalizeRows = Annotated[
    bool,
    new(
        "--normalize-rows",
        "Divide the distributions of a file by their sums, if these are within 0.001 of 1, and "
        "print a warning.",
    ),
]
UserUnits = Annotated[
    bool,
    new(
        "--user-units/--model-units",
        "For a normalised model: print values in the units of the original rewards, or in the "
        "model's own.",
    ),
]

# ---------------------------------------------------------------------- planning and learning

CLASS_HELP = (
    "Policy class: history (with memory; the default of plan) or markov (depends on step and state "
    "only; the default of learn)."
)
PolicyClass = Annotated[str, new("--class CLASS", CLASS_HELP, autocompletion=complete_class)]
TimeLimit = Annotated[float, new("--time-limit T", "Stop planning after T seconds.")]
Algorithm = Annotated[
    str,
    new(
        "--algorithm -a NAME", "The learner; the choices are listed below.",
        autocompletion=complete_algorithm,
    ),
]  # fmt: skip
Episodes = Annotated[int, whole("--episodes -k K", "Number of episodes of each run, such as 1e9.")]
BonusScale = Annotated[
    float,
    new(
        "--bonus-scale C",
        "Multiplies the exploration bonus. 1 is the paper's constant; in practice 0.01 for "
        "bernstein and 0.001 for mvp work better (docs/how_to_learn.md).",
    ),
]
Seed = Annotated[int, whole("--seed N", "Seed of the random numbers; the first of several runs.")]
Jobs = Annotated[
    int | None, whole("--jobs N", "Number of worker processes (default: one per core).")
]

# ---------------------------------------------------------------------- logs of episodes

Context = Annotated[str, new("--context COLUMN", "Column with the hidden type of the episode.")]
Episode = Annotated[str, new("--episode COLUMN", "Column with the episode of the row.")]
State = Annotated[str, new("--state COLUMN", "Column with the state.")]
Action = Annotated[str, new("--action COLUMN", "Column with the action taken.")]
Reward = Annotated[str, new("--reward COLUMN", "Column with the reward.")]
Step = Annotated[
    str | None,
    new("--step COLUMN", "Column that orders the rows (default: their order in the file)."),
]
NextState = Annotated[
    str | None,
    new("--next-state COLUMN", "Column with the next state (default: that of the next row)."),
]
Terminated = Annotated[
    str | None, new("--terminated COLUMN", "Column that is true where an episode really ended.")
]
Reading = Annotated[
    str | None,
    new("--reading COLUMN", "Column with what was read besides the next state: a noisy test."),
]
Truncated = Annotated[
    str | None, new("--truncated COLUMN", "Column that is true where an episode was cut off.")
]
OnBad = Annotated[
    str,
    new(
        "--on-bad WHAT",
        "Doubtful rows: raise (an error), cut (use each episode up to its first such row), or skip "
        "(leave the episode out).",
    ),
]
Duplicates = Annotated[str, new("--duplicates WHAT", "Identical rows: refuse, drop or keep them.")]
Strip = Annotated[bool, new("--strip", "Ignore blanks around names.")]
Casefold = Annotated[bool, new("--casefold", "Ignore upper and lower case in names.")]
DateFormat = Annotated[
    str | None, new("--date-format FORMAT", "Format of dates in the step column: %d/%m/%Y.")
]
Holdout = Annotated[
    float,
    new(
        "--holdout SHARE",
        "Share of the episodes, such as 0.5, that `fit` does not use and policies are judged by.",
    ),
]

# ---------------------------------------------------------------------- files and output

Run = Annotated[
    Path, argument("RUN", "A folder written by `latentmdp learn --out`.", parser=some_path)
]
Title = Annotated[str | None, new("--title TEXT", "Heading of the page.")]
AsJson = Annotated[bool, new("--json", "Print one JSON object on one line, as the last line.")]
