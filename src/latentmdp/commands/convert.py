"""`latentmdp convert IN OUT`: a model from one format to another."""

from pathlib import Path
from typing import Annotated

import typer

from latentmdp.commands.common import (
    MODEL_HELP,
    AsJson,
    Discount,
    HiddenRewards,
    Horizon,
    NormalizeRows,
    Start,
    complete_model,
    read_model,
)
from latentmdp.commands.output import print_json, print_text


def convert_command(
    source: Annotated[
        str,
        typer.Argument(
            metavar="IN",
            help=MODEL_HELP,
            show_default=False,
            autocompletion=complete_model,
        ),
    ],
    target: Annotated[
        Path,
        typer.Argument(
            metavar="OUT",
            help="The file to write (.npz, .json, .csv, .pomdpx, .pomdp).",
            show_default=False,
        ),
    ],
    hidden_rewards: HiddenRewards = None,
    horizon: Horizon = None,
    discount: Discount = None,
    start: Start = None,
    normalize_rows: NormalizeRows = False,
    json: AsJson = False,
) -> None:
    """Write a model to a file, in the format of its ending."""
    from latentmdp.formats import horizon_to_give, not_held, save

    model = read_model(source, hidden_rewards, horizon, discount, start, normalize_rows)
    save(model, target)
    lost, steps = not_held(model, target), horizon_to_give(model, target)
    if json:
        facts = {"out": target, "M": model.M, "S": model.S, "A": model.A, "lost": lost}
        print_json(facts | {"horizon_to_give": steps})
        return
    print_text(f"{target}: {model!r}")
    if lost:
        print_text(f"not in this format, left out: {', '.join(lost)}")
    if steps is not None:
        if steps > model.horizon:
            print_text(
                f"its episodes have {steps} steps, one more than the model's {model.horizon}: the "
                "first one shows which of several first states it is, since nothing is seen before "
                "the first action in a .pomdp file"
            )
        print_text(f"the file does not hold the horizon: give it when it is read, --horizon {steps}"
                   f" (in Python horizon={steps})")  # fmt: skip
