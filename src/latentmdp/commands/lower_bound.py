"""`latentmdp lower-bound`: a learner against the secrets of the paper's hard instances."""

from pathlib import Path
from typing import Annotated, Any

import typer

from latentmdp.commands._common import AsJson, print_json, print_text, whole_number


def lower_bound_command(
    contexts: Annotated[int, typer.Option("--contexts", "-m", help="Contexts M.")] = 2,
    states: Annotated[int, typer.Option("--states", "-s", help="States S, at least 6.")] = 11,
    actions: Annotated[int, typer.Option("--actions", help="Actions A, at least 2.")] = 2,
    episodes: Annotated[
        int, typer.Option("--episodes", "-k", metavar="K", parser=whole_number, help="Like 1e6.")
    ] = 10**6,
    algorithm: Annotated[
        str, typer.Option("--algorithm", "-a", help="mvp, bernstein, ...")
    ] = "mvp",
    policy_class: Annotated[
        str, typer.Option("--class", help="The bound is for history; markov is refused.")
    ] = "history",
    variance: Annotated[
        float, typer.Option("--variance", help="Var* of the family, at most 0.25.")
    ] = 0.25,
    secrets: Annotated[
        int, typer.Option("--secrets", help="All secrets if they are at most this many.")
    ] = 16,
    runs: Annotated[int, typer.Option("--runs", help="Runs per secret.")] = 1,
    seed: Annotated[int, typer.Option("--seed", help="The first seed.")] = 0,
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
    json: AsJson = False,
) -> None:  # fmt: skip
    """Play a learner against secrets of the hard family: measured regret beside the lower bound."""
    from latentmdp.theory.lower_bound import figure as draw
    from latentmdp.theory.lower_bound import play_lower_bound

    base: dict[str, Any] = {
        "contexts": contexts, "states": states, "actions": actions, "episodes": episodes,
        "algorithm": algorithm, "policy_class": policy_class, "variance": variance,
        "secrets": secrets, "runs": runs, "seed": seed, "bonus_scale": bonus_scale,
    }  # fmt: skip
    game = play_lower_bound(**base)
    facts = game.to_dict()
    if not json:
        print_text(str(game))
    if figure is not None:
        varied = {
            "K": [{"episodes": max(episodes // 10**i, 1000)} for i in (2, 1, 0)],
            "M": [{"contexts": m} for m in (1, 2, 4, 6)],
            "S": [{"states": s} for s in (8, 11, 19, 35)],
            "A": [{"actions": a} for a in (2, 4, 8)],
        }
        games = {
            name: [play_lower_bound(**{**base, **change}) for change in changes]
            for name, changes in varied.items()
        }
        draw(games, figure)
        facts["figure"] = str(figure)
        if not json:
            print_text(f"figure written to {figure}")
    if json:
        print_json(facts)
