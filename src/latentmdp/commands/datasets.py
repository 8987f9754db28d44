"""`latentmdp datasets [NAME]`: published problems, published values and our bounds."""

from typing import Annotated

from latentmdp.commands import options as option
from latentmdp.commands.common import complete_dataset
from latentmdp.commands.output import print_json, print_table, print_text


def datasets_command(
    name: Annotated[
        str | None,
        option.argument("NAME", "One problem, in full.", autocompletion=complete_dataset),
    ] = None,
    json: option.AsJson = False,
) -> None:
    """List published problems: their source, published values, our bounds."""
    from latentmdp.datasets import DATASETS, dataset, facts

    chosen = list(DATASETS.values()) if name is None else [dataset(name)]
    if json:
        print_json({"datasets": [facts(found) for found in chosen]})
        return
    if name is None:
        included = {True: "yes", False: "no"}
        rows = [
            (x.name, x.licence, included[x.included], x.published[0].value, *x.bracket)
            for x in chosen
        ]
        print_table(("name", "licence", "included", "published", "our lower", "our upper"), rows)
        print_text(
            "Details: latentmdp datasets NAME. In Python: lm.datasets.load(NAME), with the path of "
            "the file if it is not included."
        )
        return
    (found,) = chosen
    lines = [("title", found.title), ("source", found.source), ("licence", found.licence)]
    lines += [("published", f"{x.value:.8g}: {x.what} ({x.provenance})") for x in found.published]
    low, high = found.bracket
    lines += [("our bounds", f"{low:.8g} to {high:.8g}"), ("by", found.command)]
    lines += [("get it", found.obtain)]
    lines += [("file", f"{file}, SHA-256 {digest}") for file, digest in found.files.items()]
    for what, value in lines:
        print_text(f"{what:12} {value}")
