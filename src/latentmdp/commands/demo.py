"""`latentmdp demo`: a maze with hidden goals, planned, learned, audited, shown."""

import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import typer

from latentmdp.commands._common import (
    AsJson,
    print_json,
    print_table,
    print_text,
    whole_number,
    working,
)

SPEC = "maze:size=5,goals=4,horizon=20,seed=0"
ALGORITHMS = ("mvp", "bernstein", "lucrl")


def demo_command(
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where pictures, runs and report go.")
    ] = Path("demo"),
    episodes: Annotated[
        int,
        typer.Option("--episodes", metavar="K", parser=whole_number, help="Episodes per learner."),
    ] = 10**8,
    json: AsJson = False,
) -> None:
    """Show what this is: a maze with hidden goals, planned, learned, audited, and a report."""
    import latentmdp as lm
    from latentmdp.drawing import save_picture
    from latentmdp.report import write_report

    started = time.perf_counter()
    out.mkdir(parents=True, exist_ok=True)
    model = lm.make(SPEC)
    say = (lambda text: None) if json else print_text
    say(f"A maze with {model.M} hidden goals ({SPEC})\n")
    say(str(model.describe()))

    with working("planning, with and without memory"):
        memory = lm.plan(model, gap=1e-4, time_limit=5.0)
        markov = lm.plan(model, policy_class="markov", gap=1e-4, time_limit=5.0)
        values, _ = lm.context_optimal(model)
    known = float((model.w[:, None] * model.nu * values[0]).sum())
    save_picture(model, out / "maze.png")
    save_picture(model, out / "policy.png", policy=memory.policy)
    if not json:
        say("")
        print_table(
            ("policy class", "value", "no policy beats", "status"),
            [
                ("with memory (history)", memory.lower, memory.upper, memory.status),
                ("without (Markov)", markov.lower, markov.upper, markov.status),
                ("knowing the goal", known, known, "exact"),
            ],
            title="Planning, with certificates",
        )
        gain = _span(memory.lower - markov.upper, memory.upper - markov.lower)
        say(f"\nvalue of memory       {gain}")
        say(f"value of information  {_span(known - memory.upper, known - memory.lower)}\n")

    optimal = (markov.lower, markov.upper)
    jobs = [(name, episodes, optimal, str(out / name)) for name in ALGORITHMS]
    what = f"learning for {episodes:.0e} episodes, auditing: {', '.join(ALGORITHMS)}"
    with working(what), ProcessPoolExecutor(max_workers=2) as pool:
        done = list(pool.map(_learn, jobs))
    runs, report = [lm.load_run(place) for place in (job[3] for job in jobs)], done[0][1]
    if not json:
        rows = [
            (run.spec.algorithm, run.regret, run.updates, run.final_value, f"{seconds:.1f}")
            for run, (seconds, _) in zip(runs, done, strict=True)
        ]
        title = f"Learning without memory, {episodes:.0e} episodes at the paper's constants"
        print_table(("algorithm", "regret", "updates", "last policy", "seconds"), rows, title)

    say(f"\n{report}\n")
    with working("writing the report"):
        folders = [job[3] for job in jobs]  # with their phases: nothing is played again
        plans, title = [memory, markov], "A maze, learned"
        page = write_report(folders, out / "report.html", plan=plans, audit=report, title=title)
    seconds = time.perf_counter() - started
    if json:
        print_json(
            {
                "history": [memory.lower, memory.upper],
                "markov": [markov.lower, markov.upper],
                "regret": {run.spec.algorithm: run.regret for run in runs},
                "report": page,
                "seconds": seconds,
            }
        )
    say(f"Pictures: {out / 'maze.png'}, {out / 'policy.png'}. Open in a browser: {page}")
    say(f"({seconds:.0f} s in all)")


def _learn(job: tuple[str, int, tuple[float, float], str]) -> tuple[float, Any]:
    """Learn, save with phases for the page; the seconds, and for the first one an audit."""
    import latentmdp as lm
    from latentmdp.report import Collector, save_phases

    algorithm, episodes, optimal, folder = job
    started, phases = time.perf_counter(), Collector()
    run = lm.learn(lm.make(SPEC), algorithm, episodes, optimal=optimal, observer=phases)
    seconds = time.perf_counter() - started
    run.save(folder)
    save_phases(run, folder, phases.phases)
    return seconds, lm.audit(run) if algorithm == ALGORITHMS[0] else None


def _span(low: float, high: float) -> str:
    low = max(low, 0.0)
    return f"{low:.6f}" if high - low < 5e-7 else f"{low:.6f} to {high:.6f}"
