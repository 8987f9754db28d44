"""Published problems that are at hand: what others got, and what a plan of today gives.

Run: python benchmarks/published.py [FOLDER] [--time-limit SECONDS] [--out PAGE.md]

FOLDER holds the files, or folders with them (default: ../shared/data beside the project).
"""

import argparse
from pathlib import Path

import latentmdp as lm
from latentmdp import datasets

INTRODUCTION = (
    "Made by `python benchmarks/published.py FOLDER --out docs/published.md`; seconds are those of "
    "one run on a shared machine. `latentmdp datasets NAME` says where a problem comes from, under "
    "which licence, and how to get it; none of them comes with this package."
)


def row(found: datasets.Dataset, folder: Path, seconds: float) -> list[str]:
    """One line of the table: the problem, the published value, our bounds of today."""
    published = found.published[0]
    cells = [found.name, f"{published.value:.8g}", f"{published.what}"]
    if found.name == "riverswim-test":
        return [*cells, *trained(folder, seconds)]
    model = datasets.load(found.name, folder)
    plan = lm.plan(model, time_limit=seconds, **found.plan)
    return [*cells, f"{plan.lower:.8g}", f"{plan.upper:.8g}", plan.status, f"{plan.seconds:.1f}"]


def trained(folder: Path, seconds: float) -> list[str]:
    """What the policy for the training models earns in the test models."""
    options = datasets.DATASETS["riverswim-train"].plan
    plan = lm.plan(datasets.load("riverswim-train", folder), time_limit=seconds, **options)
    value = lm.evaluate(datasets.load("riverswim-test", folder), plan).value
    return [f"{value:.8g}", f"{value:.8g}", "evaluated", f"{plan.seconds:.1f}"]


def page(folder: Path, seconds: float) -> str:
    """The table in Markdown, and what is not at hand."""
    headers = ["problem", "published", "what it is", "our lower", "our upper", "status", "seconds"]
    lines = ["# Published problems", "", INTRODUCTION, ""]
    lines += [_line(headers), _line(["---"] * len(headers))]
    missing = []
    for found in datasets.DATASETS.values():
        try:
            lines.append(_line(row(found, folder, seconds)))
        except lm.ModelError as error:
            missing.append(f"- {found.name}: {error}")
    if missing:
        lines += ["", "Not at hand:", "", *missing]
    return "\n".join(lines) + "\n"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print the page, or write it to a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser.add_argument("folder", nargs="?", type=Path, default=beside)
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds for each plan")
    parser.add_argument("--out", type=Path, help="write the page to this file")
    asked = parser.parse_args()
    text = page(asked.folder, asked.time_limit)
    if asked.out is None:
        print(text, end="")
    else:
        asked.out.write_text(text, encoding="utf-8")
        print(f"written: {asked.out}")


if __name__ == "__main__":
    main()
