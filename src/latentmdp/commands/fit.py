"""`latentmdp fit LOG`: a model from a table of past episodes; `--plan`: and what to do."""

from pathlib import Path
from typing import Annotated, Any

import typer

from latentmdp.commands._common import AsJson, some_path, whole_number
from latentmdp.commands._output import print_json, print_text, working
from latentmdp.errors import ModelError


def _column(role: str, words: str, default: str = "") -> Any:
    return typer.Option(f"--{role}", metavar="COLUMN", help=words, show_default=default or False)


def fit_command(
    log: Annotated[
        list[str],
        typer.Argument(
            metavar="LOG...", show_default=False,
            help="Tables of episodes: .csv, .csv.gz, .parquet, or minari:ID.",
        ),
    ],
    context: Annotated[
        str, _column("context", "What the episode's hidden type was.", "context")
    ] = "context",
    episode: Annotated[
        str, _column("episode", "Which episode a row is of.", "episode")
    ] = "episode",
    state: Annotated[str, _column("state", "The state.", "state")] = "state",
    action: Annotated[str, _column("action", "The action taken.", "action")] = "action",
    reward: Annotated[str, _column("reward", "What was paid.", "reward")] = "reward",
    step: Annotated[str | None, _column("step", "Order of rows (default: as they stand).")] = None,
    next_state: Annotated[
        str | None, _column("next-state", "The state after (default: the next row's).")
    ] = None,
    terminated: Annotated[
        str | None, _column("terminated", "True where an episode ended for good.")
    ] = None,
    truncated: Annotated[
        str | None, _column("truncated", "True where it was only cut off.")
    ] = None,
    horizon: Annotated[
        int | None,
        typer.Option(
            "--horizon", metavar="H", parser=whole_number, show_default=False,
            help="Steps of an episode (default: of the longest).",
        ),
    ] = None,
    prior: Annotated[
        float, typer.Option("--prior", metavar="X", help="Of each possible next state.")
    ] = 0.0,
    unseen: Annotated[
        str,
        typer.Option(
            "--unseen", metavar="WHAT",
            help="What an action never seen does: self, uniform, refuse or unavailable.",
        ),
    ] = "self",
    on_bad: Annotated[
        str,
        typer.Option(
            "--on-bad", metavar="WHAT", help="Doubtful rows: raise, or skip their episodes."
        ),
    ] = "raise",
    hidden_rewards: Annotated[
        bool | None,
        typer.Option(
            "--hidden-rewards/--observed-rewards", show_default=False,
            help="Whether the agent sees rewards (default: yes, unless they are noisy).",
        ),
    ] = None,
    discount: Annotated[float, typer.Option("--discount", metavar="D")] = 1.0,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="MODEL", parser=some_path, show_default=False,
            help="Write the model: .npz or .json.",
        ),
    ] = None,
    json: AsJson = False,
) -> None:  # fmt: skip
    """Fit a model to a log of episodes whose hidden type became known afterwards."""
    from latentmdp.fitting import fit
    from latentmdp.formats import save
    from latentmdp.formats.files import check_writable

    if out is not None:
        if out.suffix.lower() not in (".npz", ".json"):
            raise ModelError(f"--out must end in .npz or .json; it is {str(out)!r}")
        check_writable(out)
    with working("reading the log") as say:
        found = fit(
            log[0] if len(log) == 1 else log, episode, step, state, action, reward, next_state,
            context, horizon, prior, unseen, on_bad, terminated=terminated, truncated=truncated,
            observe_rewards=None if hidden_rewards is None else not hidden_rewards,
            discount=discount,
        )  # fmt: skip
        if out is not None:
            save(found.model, out)
        say("looking where data are thin")
        summary = found.summary()
    if json:
        print_json(
            {
                "rows": found.rows, "episodes": found.episodes, "M": found.model.M,
                "S": found.model.S, "A": found.model.A, "H": found.model.H, "out": out,
                "summary": summary.to_dict(),
            }
        )  # fmt: skip
        return
    print_text(str(summary))
    if out is not None:
        print_text(f"\nmodel   {out}: {found.model!r}")
