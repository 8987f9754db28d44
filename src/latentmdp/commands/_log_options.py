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
    typer.Option("--on-bad", metavar="WHAT", help="Doubtful rows: raise, or skip their episodes."),
]
