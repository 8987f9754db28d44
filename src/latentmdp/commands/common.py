"""What all commands share: the MODEL argument and its options. How they print is in `_output`.

A command is a function whose parameters are annotated with the types below:

    def size_command(
        model: ModelArgument, hidden_rewards: HiddenRewards = None, horizon: Horizon = None,
        discount: Discount = None, json: AsJson = False,
    ) -> None:
        found = read_model(model, hidden_rewards, horizon, discount)
        if json:
            print_json({"states": found.S})
        else:
            print_table(("what", "how many"), [("states", found.S)])

Bad input is a `ModelError` (or one of Typer's usage errors) and needs no handling in a command:
`cli.run` turns it into one line on standard error and exit code 2.
"""

import os
import textwrap
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from latentmdp.errors import ModelError

MODEL_HELP = "A file (.npz, .json, .csv, .pomdpx, .pomdp) or a spec string such as maze:size=5."
HELP_WIDTH = 78  # characters of a line of help, as Click has them

if TYPE_CHECKING:
    from latentmdp.model.latent_mdp import LatentMDP


# ---------------------------------------------------------------------- parameters


def whole_number(text: Any) -> int:
    """`20`, `1e9`, `1_000` or `2.5e3` as an exact whole number, else a usage error."""
    try:
        number = Decimal(str(text))
        if number.is_finite() and number.adjusted() <= 30 and number == number.to_integral_value():
            return int(number)
    except InvalidOperation:
        pass
    raise typer.BadParameter(f"must be a whole number like 20 or 1e9; it is {str(text)!r}")


def whole_or_infinite(text: Any) -> int:
    """A whole number as above, or `inf`."""
    if str(text).strip().lower() in ("inf", "infinite", "infinity"):
        from latentmdp.model.horizons import WITHOUT_END

        return WITHOUT_END
    try:
        return whole_number(text)
    except typer.BadParameter as error:
        raise typer.BadParameter(str(error).replace("1e9;", "1e9, or inf;")) from None


def some_path(text: Any) -> Path:
    """A path; an empty one (of a variable that is not set, say) is refused."""
    if not str(text):
        raise typer.BadParameter("must be a path; it is empty")
    return Path(text)


def complete_model(incomplete: str) -> list[str]:
    """Shell completion of MODEL: domains and files."""
    from latentmdp.builtin_domains import DOMAINS
    from latentmdp.formats import ENDINGS

    names = [name for name in DOMAINS if name.startswith(incomplete)]
    return names + _files(incomplete, ENDINGS)


def complete_policy(incomplete: str) -> list[str]:
    """Shell completion of POLICY: files."""
    from latentmdp.formats import POLICY_FORMATS

    return _files(incomplete, tuple(POLICY_FORMATS))


def complete_class(incomplete: str) -> list[tuple[str, str]]:
    """Shell completion of --class."""
    from latentmdp.runtime.choices import CLASSES

    return _starting(CLASSES, incomplete)


def complete_algorithm(incomplete: str) -> list[tuple[str, str]]:
    """Shell completion of --algorithm."""
    from latentmdp.runtime.choices import ALGORITHMS

    return _starting(ALGORITHMS, incomplete)


def complete_method(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Shell completion of --method: those of the class that was given before it, or all."""
    from latentmdp.runtime.choices import METHODS

    asked = METHODS.get(str(ctx.params.get("policy_class")))
    methods = asked or METHODS["history"] | METHODS["markov"]
    return _starting(methods, incomplete)


def listed(title: str, choices: dict[str, str]) -> str:
    """Choices below one another, as Click shows them in a help text without filling them anew."""
    width = max(map(len, choices)) + 2
    lines = [f"{title}:"]
    for name, meaning in choices.items():
        first, *more = textwrap.wrap(meaning, HELP_WIDTH - 4 - width)  # indented twice
        lines += [f"  {name:<{width}}{first}", *(" " * (2 + width) + part for part in more)]
    return "\b\n" + "\n".join(lines)


def _starting(choices: dict[str, str], incomplete: str) -> list[tuple[str, str]]:
    return [(name, text) for name, text in choices.items() if name.startswith(incomplete)]


def _files(incomplete: str, endings: Sequence[str]) -> list[str]:
    folder, start = os.path.split(incomplete)
    try:
        entries = sorted(os.scandir(folder or "."), key=lambda entry: entry.name)
    except OSError:
        return []
    return [
        os.path.join(folder, entry.name) + (os.sep if entry.is_dir() else "")
        for entry in entries
        if entry.name.startswith(start)
        and (start or not entry.name.startswith("."))
        and (entry.is_dir() or entry.name.lower().endswith(tuple(endings)))
    ]


ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help=MODEL_HELP,
        show_default=False,
        autocompletion=complete_model,
    ),
]
PolicyArgument = Annotated[
    str,
    typer.Argument(
        metavar="POLICY",
        help="A file (.json, .npz, .policyx, or .csv with the columns step, state, action).",
        show_default=False,
        autocompletion=complete_policy,
    ),
]
HiddenRewards = Annotated[
    bool | None,
    typer.Option(
        "--hidden-rewards/--observed-rewards",
        help="Whether the agent sees rewards in the episode (default: as the model says).",
        show_default=False,
    ),
]
Horizon = Annotated[
    int | None,
    typer.Option(
        "--horizon",
        metavar="H",
        parser=whole_or_infinite,
        help="Steps of an episode, or inf (no last step), in place of the model's own. .csv files "
        "need it, and .pomdpx and .pomdp files whose discount is 1.",
        show_default=False,
    ),
]
Discount = Annotated[
    float | None,
    typer.Option(
        "--discount",
        metavar="D",
        help="The discount, in place of the model's own.",
        show_default=False,
    ),
]
NormalizeRows = Annotated[
    bool,
    typer.Option(
        "--normalize-rows",
        help="Divide distributions of a file that sum to 1 within 0.001 by their sum, and say so.",
    ),
]
Start = Annotated[
    str | None,
    typer.Option(
        "--start",
        metavar="STATE",
        help="The first state, by name or number, in place of the model's own.",
        show_default=False,
    ),
]
UserUnits = Annotated[
    bool,
    typer.Option(
        "--user-units/--model-units",
        help="Of a normalised model: values in the units of the rewards before, or in its own.",
    ),
]
AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON object on one line, as the last line."),
]


# ---------------------------------------------------------------------- models


def read_model(
    source: str,
    hidden_rewards: bool | None = None,
    horizon: int | None = None,
    discount: float | None = None,
    start: str | None = None,
    normalize_rows: bool = False,
) -> "LatentMDP":
    """The model that MODEL and its options name: a domain's spec string, else a file."""
    from latentmdp.builtin_domains import DOMAINS, make
    from latentmdp.formats import ENDINGS, load
    from latentmdp.model.repair import PRINTED

    observe = None if hidden_rewards is None else not hidden_rewards
    ending = Path(source).suffix.lower()
    name = source.partition(":")[0].strip()
    if name in DOMAINS and ending not in ENDINGS:
        model = make(source, observe_rewards=observe is None or observe)
        return _changed(model, horizon, discount, start)
    if ending in ENDINGS or os.sep in source or os.path.exists(source):
        return load(
            source, observe_rewards=observe, horizon=horizon, discount=discount, start=start,
            normalize=PRINTED if normalize_rows else False,
        )  # fmt: skip
    try:
        make(source)
    except ModelError as error:
        raise ModelError(f"MODEL {source!r} is no file and no spec string: {error}") from None
    raise AssertionError("an unknown domain was made")


def _changed(
    model: "LatentMDP", horizon: int | None, discount: float | None, start: str | None
) -> "LatentMDP":
    """The model with another horizon, discount or start; without a limit on totals they break."""
    from latentmdp.model.latent_mdp import replaced
    from latentmdp.tables.outcome_table import starting_at

    if start is not None:
        model = starting_at(model, start)
    changes = {"horizon": horizon, "discount": discount}
    changes = {name: value for name, value in changes.items() if value is not None}
    return replaced(model, **changes) if changes else model
