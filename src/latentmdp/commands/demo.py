"""`latentmdp demo`: a maze with hidden goals, planned, learned, audited, shown."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from latentmdp.commands import options as option
from latentmdp.commands.compile_ahead import compiling_ahead
from latentmdp.commands.output import Progress, print_json, print_table, print_text
from latentmdp.runtime.calls import Call, Calls

if TYPE_CHECKING:
    from latentmdp.learning.run import Run
    from latentmdp.model.latent_mdp import LatentMDP
    from latentmdp.planning.plan import Plan
    from latentmdp.theory.auditing.report import AuditReport

SPEC = "maze:size=4,goals=4,horizon=7,slip=0.2,seed=6"  # both optima close: exact regret
LEARNERS = {
    "bernstein": "bernstein (the paper)",
    "mvp": "mvp (the paper)",
    "lucrl": "lucrl (before it)",
}
MARKOV_WORK = 10**9  # a limit in work, not in time: the plan is always the same


def demo_command(
    out: Annotated[
        Path, option.path("--out DIR", "Folder for the pictures, the runs and the report.")
    ] = Path("demo"),
    episodes: option.Episodes = 10**8,
    force: Annotated[bool, option.new("--force", "Replace other runs in DIR.")] = False,
    json: option.AsJson = False,
) -> None:
    """Plan, learn, audit and report in a maze with hidden goals, to see what the package does."""
    import latentmdp as lm
    from latentmdp.drawing import save_picture
    from latentmdp.learning.learn import checked
    from latentmdp.learning.saved.folder import make_folder, refuse_other
    from latentmdp.learning.spec import RunSpec
    from latentmdp.planning.baselines import knowing_the_context
    from latentmdp.planning.plan import plan_whole
    from latentmdp.report import write_report

    started = time.perf_counter()
    model = lm.make(SPEC)
    specs = {name: checked(RunSpec(name, episodes), model) for name in LEARNERS}
    make_folder(out)
    for name, spec in specs.items():
        if not force:  # an earlier run of the demo may be replaced, as it has the same results
            refuse_other(out / name, model, asdict(spec), force="--force")
    if not json:
        _say_maze(model)
    with (
        Progress("planning with memory, then without"),
        compiling_ahead("mvp", "markov"),
    ):
        memory = plan_whole(model, gap=None, time_limit=20.0)
        markov = plan_whole(model, "markov", gap=None, time_limit=None, work_limit=MARKOV_WORK)
    known = knowing_the_context(model)
    save_picture(model, out / "maze.png")
    save_picture(model, out / "policy.png", policy=memory.policy, step=model.H // 2)
    if not json:
        _say_plans(memory, markov, known)

    runs, audit = _learn_all(out, episodes, (markov.lower, markov.upper))
    if not json:
        _say_runs(runs, audit, episodes)
    with Progress("writing the report"):
        folders = [out / name for name in LEARNERS]  # with their phases: no run is repeated
        plans, title = [memory, markov], "A maze, learned"
        page = write_report(
            folders, out / "report.html", plan=plans, audit={"mvp": audit}, title=title
        )
    seconds = time.perf_counter() - started
    if json:
        print_json(
            {
                "history": [memory.lower, memory.upper],
                "markov": [markov.lower, markov.upper],
                "regret": {run.spec.algorithm: run.regret for run in runs},
                "regret_upper": {run.spec.algorithm: run.regret_bounds[1] for run in runs},
                "report": page,
                "seconds": seconds,
            }
        )
        return
    print_text(
        f"\nOpen {page} in a browser: regret and bounds, the audit, and the episode explorer,"
    )
    print_text("which shows step by step how a learner searches and how its belief changes.")
    print_text(
        f"Pictures: {out / 'maze.png'}, {out / 'policy.png'}. The demo took {seconds:.0f} s."
    )


# ---------------------------------------------------------------------- learning


def _learn_all(
    out: Path, episodes: int, optimal: tuple[float, float]
) -> "tuple[list[Run], AuditReport]":
    """All learners in two processes; their runs from the folders, and the audit of `mvp`."""
    import latentmdp as lm
    from latentmdp.learning.run import load_run

    what = f"learning for {episodes:.0e} episodes".replace("e+0", "e")
    names = list(LEARNERS)
    calls = [
        Call(f"{__name__}:learn_one", (name, episodes, optimal, str(out / name))) for name in names
    ]
    with Calls(2, calls) as work, Progress(what) as say:
        for done, (number, _) in enumerate(work.results(), start=1):
            say(f"{what}, {done} of {len(calls)} done")
            if names[number] == "mvp":
                audit = lm.audit(load_run(out / "mvp"))
    return [load_run(out / name) for name in names], audit


def learn_one(algorithm: str, episodes: int, optimal: tuple[float, float], folder: str) -> None:
    """Learn, and save the run with its phases for the page."""
    import latentmdp as lm
    from latentmdp.report import Collector, save_phases

    phases = Collector()
    run = lm.learn(lm.make(SPEC), algorithm, episodes, optimal=optimal, observer=phases)
    run.save(folder, overwrite=True)  # the command has checked it before the work
    save_phases(run, Path(folder), phases.phases)


# ---------------------------------------------------------------------- words


def _say_maze(model: "LatentMDP") -> None:
    from latentmdp.environments.rendering import Renderer

    start = int(model.nu[0].argmax())
    grid = Renderer(model).text(start, 0, None, 0.0, None).split("\n")[1:]
    side = (
        "In each episode one of A to D is the goal; the agent cannot",
        f"see which. The agent @ has {model.H} steps to find it; a move fails",
        "with probability 0.2. A cell without reward is not the goal.",
        "After the episode the agent is told which goal it was.",
    )
    print_text("A maze with hidden goals: a latent MDP with context in hindsight\n")
    for row, words in zip(grid, side, strict=True):
        print_text(f"  {row}    {words}")
    print_text(f"\n({SPEC})\n")


def _say_plans(memory: "Plan", markov: "Plan", known: float) -> None:
    print_table(
        ("policy, maze known", "probability of the goal", "proven upper bound"),
        [
            ("plan without memory (Markov)", markov.lower, markov.upper),
            ("plan with memory (history)", memory.lower, memory.upper),
            ("goal known in advance", known, known),
        ],
        title="Planning, with proven bounds",
    )
    gain = _span(memory.lower - markov.upper, memory.upper - markov.lower)
    print_text(f"value of memory       {gain}")
    print_text(f"value of information  {_span(known - memory.upper, known - memory.lower)}\n")


def _say_runs(runs: "list[Run]", audit: "AuditReport", episodes: int) -> None:
    print_table(
        ("learner", "regret", "updates", "last policy", "seconds"),
        [
            (LEARNERS[run.spec.algorithm], run.regret_bracket.text("{:,.0f}".format),
             run.updates, run.final_value,
             round(run.seconds, 1))
            for run in runs
        ],
        title=f"Learning for {episodes:,} episodes, without memory, at the paper's constants",
    )  # fmt: skip
    if all(run.regret_bracket.exact for run in runs):
        print_text("The optimum without memory is known exactly, so regret is exact.")
    for note in dict.fromkeys(note for run in runs for note in run.notes):
        print_text(note)
    rows = [row for row in audit.rows if row.held is not None]
    held = sum(bool(row.held) for row in rows)
    bound = audit["bound"]
    print_text(
        f"Audit of mvp: {held} of {len(rows)} quantities of the proof are within their bounds."
        f"\nThe theorem allows a regret of {bound.promise:,.0f}."
    )
    for fault in audit.faults:
        print_text(f"  {fault}")


def _span(low: float, high: float) -> str:
    low = max(low, 0.0)
    return f"{low:.4f}" if high - low < 5e-5 else f"{low:.4f} to {high:.4f}"
