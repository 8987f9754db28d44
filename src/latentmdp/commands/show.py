"""`latentmdp show MODEL`: what the model is, where its contexts differ, and a picture."""

from pathlib import Path
from typing import Annotated, Any

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
    read_model,
)
from latentmdp.commands.output import in_units, print_json, print_table, print_text
from latentmdp.model.units import USER

MOST_CONTEXTS = 20  # lines of the table


def show_command(
    model: ModelArgument,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="PICTURE", help="Draw the model into this file (.png, .svg, .pdf)."
        ),
    ] = None,
    hidden_rewards: HiddenRewards = None,
    horizon: Horizon = None,
    discount: Discount = None,
    start: Start = None,
    normalize_rows: NormalizeRows = False,
    user_units: UserUnits = True,
    json: AsJson = False,
) -> None:
    """Sizes, totals, where the contexts differ, a picture."""
    found = read_model(model, hidden_rewards, horizon, discount, start, normalize_rows)
    found, units = in_units(found, user_units)
    description = found.describe()
    if out is not None:
        from latentmdp.drawing import save_picture

        save_picture(found, out)
    if json:
        more = units.facts | ({"out": str(out)} if out is not None else {})
        print_json(description.to_dict() | more)
        return
    print_text(str(description))
    if units.name == USER:  # the description says it of the model's own
        print_text(f"the model is in {units.of_model}")
        units.say("totals")
    print()
    print_table(("context", "weight", "least total", "largest total"), _lines(found, description))
    if found.M > MOST_CONTEXTS:
        print(f"... {found.M - MOST_CONTEXTS} more contexts")
    if out is not None:
        print_text(f"picture: {out}")


def _lines(model: Any, description: Any) -> list[tuple[str, float, float, float]]:
    names = model.context_names or [str(m) for m in range(model.M)]
    columns = (names, model.w.tolist(), description.smallest_totals, description.largest_totals)
    return list(zip(*columns, strict=True))[:MOST_CONTEXTS]
