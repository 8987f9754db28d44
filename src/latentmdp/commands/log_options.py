"""Options of the commands that read a log: its columns, doubtful rows, episodes held out."""

from typing import Annotated, Any

import typer


def _column(role: str, words: str, default: str = "") -> Any:
    return typer.Option(f"--{role}", metavar="COLUMN", help=words, show_default=default or False)


Context = Annotated[str, _column("context", "What the episode's hidden type was.", "context")]
Episode = Annotated[str, _column("episode", "Which episode a row is of.", "episode")]
State = Annotated[str, _column("state", "The state.", "state")]
Action = Annotated[str, _column("action", "The action taken.", "action")]
Reward = Annotated[str, _column("reward", "What was paid.", "reward")]
Step = Annotated[str | None, _column("step", "Order of rows (default: as they stand).")]
NextState = Annotated[
    str | None, _column("next-state", "The state after (default: the next row's).")
]
Terminated = Annotated[str | None, _column("terminated", "True where an episode ended for good.")]
Truncated = Annotated[str | None, _column("truncated", "True where it was only cut off.")]
OnBad = Annotated[
    str,
    typer.Option(
        "--on-bad", metavar="WHAT",
        help="Doubtful rows: raise, cut (use episodes up to them), or skip their episodes.",
    ),
]  # fmt: skip
Duplicates = Annotated[
    str, typer.Option("--duplicates", metavar="WHAT", help="Copies of rows: refuse, drop or keep.")
]
Strip = Annotated[bool, typer.Option("--strip", help="Blanks around names do not count.")]
Casefold = Annotated[
    bool, typer.Option("--casefold", help="Upper and lower case in names do not differ.")
]
DateFormat = Annotated[
    str | None,
    typer.Option(
        "--date-format", metavar="FORMAT", show_default=False,
        help="How dates in the step column are written, as %d/%m/%Y.",
    ),
]  # fmt: skip
