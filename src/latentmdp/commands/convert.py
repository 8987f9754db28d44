"""`latentmdp convert IN OUT`: a model from one format to another."""

from pathlib import Path
from typing import Annotated

from latentmdp.commands import options as option
from latentmdp.commands.common import complete_model, read_model
from latentmdp.commands.output import print_json, print_text


def convert_command(
    source: Annotated[str, option.argument("IN", option.MODEL_HELP, autocompletion=complete_model)],
    target: Annotated[
        Path, option.argument("OUT", "The file to write (.npz, .json, .csv, .pomdpx, .pomdp).")
    ],
    hidden_rewards: option.HiddenRewards = None,
    horizon: option.Horizon = None,
    discount: option.Discount = None,
    start: option.Start = None,
    normalize_rows: option.NormalizeRows = False,
    json: option.AsJson = False,
) -> None:
    """Write a model to a file; its ending says the format."""
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
        print_text(f"left out, as this format cannot hold it: {', '.join(lost)}")
    if steps is not None:
        if steps > model.horizon:
            print_text(
                f"its episodes have {steps} steps, one more than the model's {model.horizon}: in a "
                ".pomdp file nothing is observed before the first action, so an extra first step "
                "shows the initial state"
            )
        print_text(f"the file does not hold the horizon: give --horizon {steps} (in Python "
                   f"horizon={steps}) when you read it")  # fmt: skip
