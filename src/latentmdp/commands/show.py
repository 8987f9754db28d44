"""`latentmdp show MODEL`: what the model is, where its contexts differ, and a picture."""

import sys
from pathlib import Path
from typing import Annotated, Any

from latentmdp.commands import options as option
from latentmdp.commands.common import read_model
from latentmdp.commands.output import in_units, print_json, print_table, print_text
from latentmdp.model.units import USER

MOST_CONTEXTS = 20  # lines of the table


def show_command(
    model: option.Model,
    picture: Annotated[
        Path | None,
        option.path("--picture FILE", "Draw the model into this file (.png, .svg, .pdf)."),
    ] = None,
    out: Annotated[Path | None, option.path("--out FILE", "Now --picture.", hidden=True)] = None,
    hidden_rewards: option.HiddenRewards = None,
    horizon: option.Horizon = None,
    discount: option.Discount = None,
    start: option.Start = None,
    normalize_rows: option.NormalizeRows = False,
    user_units: option.UserUnits = True,
    json: option.AsJson = False,
) -> None:
    """Describe a model: sizes, totals, where its contexts differ, a picture."""
    if out is not None:
        print("latentmdp: show --out is now called --picture", file=sys.stderr)
        picture = picture or out
    found = read_model(model, hidden_rewards, horizon, discount, start, normalize_rows)
    found, units = in_units(found, user_units)
    description = found.describe()
    if picture is not None:
        from latentmdp.drawing import save_picture

        save_picture(found, picture)
    if json:
        more = units.facts | ({"out": str(picture)} if picture is not None else {})
        print_json(description.to_dict() | more)
        return
    print_text(str(description))
    if units.name == USER:  # for the model's own units the description says it
        print_text(f"the model is in {units.of_model}")
        units.say("totals")
    print()
    print_table(("context", "weight", "least total", "largest total"), _lines(found, description))
    if found.M > MOST_CONTEXTS:
        print(f"... {found.M - MOST_CONTEXTS} more contexts")
    if picture is not None:
        print_text(f"picture: {picture}")


def _lines(model: Any, description: Any) -> list[tuple[str, float, float, float]]:
    names = model.context_names or [str(m) for m in range(model.M)]
    columns = (names, model.w.tolist(), description.smallest_totals, description.largest_totals)
    return list(zip(*columns, strict=True))[:MOST_CONTEXTS]
