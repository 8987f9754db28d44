"""`latentmdp lower-bound`: a learner against the secrets of the paper's hard instances."""

from pathlib import Path
from typing import Annotated, Any

import typer

from latentmdp.commands.common import AsJson, complete_algorithm, whole_number
from latentmdp.commands.compile_ahead import compiling_ahead
from latentmdp.commands.output import print_json, print_text, working
from latentmdp.errors import ModelError

WHOLE: dict[str, Any] = {"metavar": "N", "parser": whole_number}


def lower_bound_command(
    contexts: Annotated[int, typer.Option("--contexts", "-m", help="Contexts M.", **WHOLE)] = 2,
    states: Annotated[int, typer.Option("--states", "-s", help="States S, from 6.", **WHOLE)] = 11,
    actions: Annotated[int, typer.Option("--actions", help="Actions A, at least 2.", **WHOLE)] = 2,
    episodes: Annotated[
        int,
        typer.Option(
            "--episodes", "-k", metavar="K", parser=whole_number, help="Of each run; 1e6 is fine."
        ),
    ] = 10**6,
    algorithm: Annotated[
        str,
        typer.Option(
            "--algorithm", "-a", metavar="NAME", autocompletion=complete_algorithm,
            help="The learner; all of them are listed below.",
        ),
    ] = "mvp",
    policy_class: Annotated[
        str,
        typer.Option(
            "--class", metavar="CLASS", help="history; the bound does not hold for markov."
        ),
    ] = "history",
    variance: Annotated[
        float, typer.Option("--variance", help="Var* of the family, at most 0.25.")
    ] = 0.25,
    secrets: Annotated[
        int,
        typer.Option(
            "--secrets", help="Play against all secrets, or so many drawn at random.", **WHOLE
        ),
    ] = 16,
    runs: Annotated[int, typer.Option("--runs", help="Runs per secret.", **WHOLE)] = 1,
    seed: Annotated[int, typer.Option("--seed", help="The first seed.", **WHOLE)] = 0,
    bonus_scale: Annotated[
        float, typer.Option("--bonus-scale", help="Multiplies the bonus; the paper is 1.")
    ] = 1.0,
    figure: Annotated[
        Path | None,
        typer.Option(
            "--figure", metavar="FILE", show_default=False,
            help="Also vary K, M, S, A one at a time and draw regret beside the bounds.",
        ),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", help="Processes.", **WHOLE)] = 2,
    json: AsJson = False,
) -> None:  # fmt: skip
    """Play a learner against secrets of the hard family: measured regret beside the lower bound."""
    from latentmdp.theory.lower_bound import Rules, neighbours, play_many
    from latentmdp.theory.lower_bound import figure as draw

    if jobs < 1:
        raise typer.BadParameter(f"--jobs must be at least 1; it is {jobs}")
    if not 0.0 < variance <= 0.25:
        raise typer.BadParameter(f"--variance must be above 0 and at most 0.25; it is {variance}")
    rules = Rules(
        contexts, states, actions, episodes, algorithm, policy_class, variance, None, secrets, runs,
        0.1, bonus_scale, seed,
    )  # fmt: skip
    varied = neighbours(rules) if figure is not None else {}
    if figure is not None:
        check_figure(figure)
    with working("playing against the secrets") as say:
        if jobs > 1:
            with compiling_ahead(algorithm, policy_class):
                pass  # else every process would compile the same
        games = play_many(
            [rules, *(r for many in varied.values() for r in many)], jobs=jobs, say=say
        )
    game, others = games[0], iter(games[1:])
    facts = game.to_dict()
    if not json:
        print_text(str(game))
    if figure is not None:
        drawn = {name: [next(others) for _ in many] for name, many in varied.items()}
        draw(drawn, figure)
        facts["figure"] = str(figure)
        facts["varied"] = {name: [g.to_dict() for g in many] for name, many in drawn.items()}
        if not json:
            print_text(f"figure written to {figure}: {drawn['K'][0].n_secrets} secrets per size")
    if json:
        print_json(facts)


def check_figure(path: Path) -> None:
    """Refuse before an hour of work what Matplotlib would refuse after it."""
    from latentmdp.runtime.files import check_writable

    if path.suffix not in (".svg", ".png", ".pdf"):
        raise ModelError(f"the figure must end in .svg, .png or .pdf; it is {path.name}")
    check_writable(path)
