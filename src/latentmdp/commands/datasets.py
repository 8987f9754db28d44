"""`latentmdp datasets [NAME]`: published problems, what others got and what we get."""

from typing import Annotated

import typer

from latentmdp.commands.common import AsJson
from latentmdp.commands.output import print_json, print_table, print_text


def complete_dataset(incomplete: str) -> list[str]:
    """Shell completion of NAME."""
    from latentmdp.datasets import DATASETS

    return [name for name in DATASETS if name.startswith(incomplete)]


def datasets_command(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="One problem, in full.",
            show_default=False,
            autocompletion=complete_dataset,
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """List benchmark problems: where they come from, values of others, our brackets."""
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
            "In full: latentmdp datasets NAME. In Python: lm.datasets.load(NAME), with the path of "
            "the file where it is not included."
        )
        return
    (found,) = chosen
    lines = [("title", found.title), ("source", found.source), ("licence", found.licence)]
    lines += [("published", f"{x.value:.8g}: {x.what} ({x.provenance})") for x in found.published]
    low, high = found.bracket
    lines += [("our bracket", f"{low:.8g} to {high:.8g}"), ("by", found.command)]
    lines += [("get it", found.obtain)]
    lines += [("file", f"{file}, SHA-256 {digest}") for file, digest in found.files.items()]
    for what, value in lines:
        print_text(f"{what:12} {value}")
