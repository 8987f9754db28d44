"""Values, shell completion, checks and models, for all commands.

Bad input is a `ModelError` (or one of Typer's usage errors) and needs no handling in a command:
`cli.run` turns it into one line on standard error and exit code 2.
"""

import math
import os
import textwrap
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from latentmdp.errors import ModelError
from latentmdp.runtime.choices import ALGORITHMS, CLASSES, METHODS

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
    """A path; an empty one (of an unset shell variable, say) is refused."""
    if not str(text):
        raise typer.BadParameter("must be a path; it is empty")
    return Path(text)


def complete_model(incomplete: str) -> list[str]:
    """Shell completion of MODEL: domains and files."""
    from latentmdp.formats import ENDINGS

    return complete_domain(incomplete) + _files(incomplete, ENDINGS)


def complete_domain(incomplete: str) -> list[str]:
    """Shell completion of a built-in domain."""
    from latentmdp.builtin_domains import DOMAINS

    return [name for name in DOMAINS if name.startswith(incomplete)]


def complete_dataset(incomplete: str) -> list[str]:
    """Shell completion of a published problem."""
    from latentmdp.datasets import DATASETS

    return [name for name in DATASETS if name.startswith(incomplete)]


def complete_policy(incomplete: str) -> list[str]:
    """Shell completion of POLICY: files."""
    from latentmdp.formats import POLICY_FORMATS

    return _files(incomplete, tuple(POLICY_FORMATS))


def complete_class(incomplete: str) -> list[tuple[str, str]]:
    """Shell completion of --class."""
    return _starting(CLASSES, incomplete)


def complete_algorithm(incomplete: str) -> list[tuple[str, str]]:
    """Shell completion of --algorithm."""
    return _starting(ALGORITHMS, incomplete)


def complete_method(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Shell completion of --method: those of the class given before it, or all."""
    asked = METHODS.get(str(ctx.params.get("policy_class")))
    return _starting(asked or METHODS["history"] | METHODS["markov"], incomplete)


def listed(title: str, choices: dict[str, str]) -> str:
    """A list of choices for a help text; `\\b` keeps Click from joining its lines."""
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


# ---------------------------------------------------------------------- checks


def check_range(option: str, number: float, least: float, most: float = math.inf) -> None:
    """Refuse the value of an option that is out of range."""
    if not least <= number <= most:
        bounds = f"at least {least}" if most == math.inf else f"from {least} to {most}"
        raise typer.BadParameter(f"{option} must be {bounds}; it is {number}")


def check_target(path: Path | None, option: str, endings: Sequence[str]) -> None:
    """Refuse before the work a file that could not be written after it."""
    from latentmdp.runtime.files import check_writable

    if path is None:
        return
    if path.suffix.lower() not in endings:
        raise ModelError(f"{option} must end in one of {', '.join(endings)}; it is {str(path)!r}")
    check_writable(path)


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
    """The model with another horizon, discount or first state."""
    from latentmdp.model.latent_mdp import replaced
    from latentmdp.tables.outcome_table import starting_at

    if start is not None:
        model = starting_at(model, start)
    changes = {"horizon": horizon, "discount": discount}
    changes = {name: value for name, value in changes.items() if value is not None}
    return replaced(model, **changes) if changes else model
