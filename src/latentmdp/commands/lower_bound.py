"""`latentmdp lower-bound`: a learner on the paper's hard instances."""

import os
from pathlib import Path
from typing import Annotated

import typer

from latentmdp.commands import options as option
from latentmdp.commands.common import check_range, check_target
from latentmdp.commands.compile_ahead import compiling_ahead
from latentmdp.commands.output import Progress, print_json, print_text

FIGURES = (".svg", ".png", ".pdf")


def lower_bound_command(
    contexts: Annotated[int, option.whole("--contexts -m N", "Number of contexts M.")] = 2,
    states: Annotated[int, option.whole("--states -s N", "Number of states S, at least 6.")] = 11,
    actions: Annotated[int, option.whole("--actions N", "Number of actions A, at least 2.")] = 2,
    episodes: option.Episodes = 10**6,
    algorithm: option.Algorithm = "mvp",
    policy_class: option.PolicyClass = "history",
    variance: Annotated[
        float, option.new("--variance V", "Var* of the instances, at most 0.25.")
    ] = 0.25,
    secrets: Annotated[
        int, option.whole("--secrets N", "Number of secrets, drawn at random if there are more.")
    ] = 16,
    runs: Annotated[int, option.whole("--runs N", "Runs for each secret.")] = 1,
    seed: option.Seed = 0,
    bonus_scale: option.BonusScale = 1.0,
    figure: Annotated[
        Path | None,
        option.path(
            "--figure FILE",
            "Also vary K, M, S and A one at a time, and draw the regret beside the bounds.",
        ),
    ] = None,
    jobs: option.Jobs = None,
    json: option.AsJson = False,
) -> None:
    """Run a learner on the paper's hard instances: measured regret beside the lower bound.

    The bound holds for the history class only.
    """
    from latentmdp.theory.lower_bound import Rules, neighbours, play_many
    from latentmdp.theory.lower_bound import figure as draw

    jobs = os.cpu_count() or 1 if jobs is None else jobs
    check_range("--jobs", jobs, 1)
    if not 0.0 < variance <= 0.25:
        raise typer.BadParameter(f"--variance must be above 0 and at most 0.25; it is {variance}")
    rules = Rules(
        contexts, states, actions, episodes, algorithm, policy_class, variance, None, secrets, runs,
        0.1, bonus_scale, seed,
    )  # fmt: skip
    varied = neighbours(rules) if figure is not None else {}
    check_target(figure, "--figure", FIGURES)
    with Progress("running the learner on the hard instances") as say:
        if jobs > 1:
            with compiling_ahead(algorithm, policy_class):
                pass  # otherwise every process would compile the same kernels
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
