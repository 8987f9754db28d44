"""Tasks of learners: plan an optimum, learn. Loads the kernels, which other tasks do not need."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from latentmdp.experiments.artefacts import curve, keep, numbers, writing
from latentmdp.experiments.checkpoint import Checkpoint
from latentmdp.experiments.sources import import_file, open_model
from latentmdp.experiments.store import policy_file
from latentmdp.experiments.study_run import Plain, stream_of
from latentmdp.formats import load_policy
from latentmdp.formats.policy import save_policy_npz
from latentmdp.learning.learn import checked, find_optimal
from latentmdp.learning.playing import begin, play
from latentmdp.learning.run import Run, load_run
from latentmdp.learning.saved.folder import locked
from latentmdp.learning.session import Session
from latentmdp.learning.spec import RunSpec
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.policy.graph import PolicyGraph
from latentmdp.runtime.progress import Report


def optimum(task: Plain, report: Report) -> Plain:
    """Plan the optimum that regret is measured against, with a fixed amount of work."""
    spec = RunSpec(policy_class=task["content"]["policy_class"])

    def progress(seconds: float, work: int, lower: float, upper: float) -> None:
        report(f"planning: {lower:.6g} to {upper:.6g}")

    found = find_optimal(_model(task), spec, progress=progress)
    lower, upper = found.bounds
    if task["with_policy"]:
        assert found.policy is not None
        with writing(task) as folder:
            (folder / "optima").mkdir(exist_ok=True)
            save_policy_npz(found.policy, policy_file(folder, task["key"]))
    return {"state": "done", "result": {"lower": lower, "upper": upper}}


def learn(task: Plain, stop: Callable[[], bool], report: Report) -> Plain:
    """Learn from the beginning or from a checkpoint; save one if asked to stop."""
    content = dict(task["content"])
    if "python" in content:
        import_file(task["where"]["python"], content.pop("python"))
    content.pop("model")
    content["seed"] = stream_of(task["key"])
    model = _model(task)
    spec = checked(RunSpec(**content), model)
    with ExitStack() as held:
        checkpoint = Checkpoint(task, held)
        run = checkpoint.load()
        if run is None:
            policy = _policy(task, spec, model)
            run = begin(model, spec, tuple(task["optimal"]), policy, task["seconds_optimal"])
        first = run.episodes

        def show(session: Session) -> None:
            report(f"episode {session.done} of {session.target}")

        run = play(run, stop, checkpoint.save, show, every=task["checkpoint_seconds"])
        if not run.complete:
            checkpoint.save(run)
            return {"state": "stopped", "result": {}}
        result = numbers(run)
        if task["keep"]:
            result |= keep(run, task)
    outcome = {"state": "done", "result": result, "curve": curve(run), "kept": task["keep"]}
    return outcome | {"made_by": {"continued_from": first}} if first else outcome


def continue_run(task: Plain, stop: Callable[[], bool]) -> Plain:
    """Play the run of a folder to its end, or until it is asked to stop, and save it there.

    A task with a `seed` is another run, which begins like that of the folder and is not saved.
    """
    place, seed = Path(task["folder"]), task["seed"]
    if seed is None:
        with locked(place):
            summary = play_saved(load_run(place), place, stop, task["user_units"])
    else:
        first = load_run(place)
        policy = first.policy if first.spec.algorithm == "oracle" else None
        run = begin(
            first.model, replace(first.spec, seed=seed), first.optimal, policy,
            first.seconds_optimal, first.history_value,
        )  # fmt: skip
        summary = play_saved(run, None, stop, task["user_units"])
    return {"state": "done", "result": summary}


def play_saved(
    run: Run, place: Path | None, stop: Callable[[], bool], user_units: bool,
    show: Callable[[Session], None] | None = None,
) -> Plain:  # fmt: skip
    """Play a run and save it in its folder, which is locked; its summary for people."""

    def save(so_far: Run) -> None:
        if place is not None:
            so_far.checkpoint(place)

    found = play(run, stop, save if place is not None else None, show)
    if place is not None:
        found.save(place, overwrite=True)  # it is the folder's own run
    shown = found.in_user_units() if user_units and found.units else found
    return shown.summary() | {
        "bracket": shown.regret_bracket.text(), "notes": shown.notes,
        "units_in_words": found.model.units_in_words, "seed": found.spec.seed,
    }  # fmt: skip


def _model(task: Plain) -> LatentMDP:
    return open_model(task["content"]["model"] | task["where"].get("model", {}))


def _policy(task: Plain, spec: RunSpec, model: LatentMDP) -> PolicyGraph | None:
    """The optimum's policy, for the algorithm that plays it."""
    if spec.algorithm != "oracle":
        return None
    return load_policy(policy_file(Path(task["folder"]), task["optimum_key"]), model)
