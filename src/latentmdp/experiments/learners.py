"""Tasks of learners: plan an optimum, learn. Loads the kernels, which other tasks do without."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from latentmdp.experiments.artefacts import curve, keep, numbers, writing
from latentmdp.experiments.checkpoint import Checkpoint
from latentmdp.experiments.run_spec import Plain, stream_of
from latentmdp.experiments.sources import import_file, open_model
from latentmdp.experiments.store import policy_file
from latentmdp.formats import load_policy
from latentmdp.formats.policy import save_policy_npz
from latentmdp.learning.learn import checked, find_optimal
from latentmdp.learning.playing import begin, play
from latentmdp.learning.spec import Spec
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.policy.graph import PolicyGraph


def optimum(task: Plain) -> Plain:
    """Plan what regret is measured against, with a fixed amount of work."""
    spec = Spec(policy_class=task["content"]["policy_class"])
    found = find_optimal(_model(task), spec)
    lower, upper = found.bounds
    if task["with_policy"]:
        assert found.policy is not None
        with writing(task) as folder:
            (folder / "optima").mkdir(exist_ok=True)
            save_policy_npz(found.policy, policy_file(folder, task["key"]))
    return {"state": "done", "result": {"lower": lower, "upper": upper}}


def learn(task: Plain, stop: Callable[[], bool]) -> Plain:
    """Learn from the beginning or from a checkpoint, and leave one where it is told to stop."""
    content = dict(task["content"])
    if "python" in content:
        import_file(task["where"]["python"], content.pop("python"))
    content.pop("model")
    content["seed"] = stream_of(task["key"])
    model = _model(task)
    spec = checked(Spec(**content), model)
    with ExitStack() as held:
        checkpoint = Checkpoint(task, held)
        run = checkpoint.load()
        if run is None:
            policy = _policy(task, spec, model)
            run = begin(model, spec, tuple(task["optimal"]), policy, task["seconds_optimal"])
        first = run.episodes
        run = play(run, stop, checkpoint.save, every=task["checkpoint_seconds"])
        if not run.complete:
            checkpoint.save(run)
            return {"state": "stopped", "result": {}}
        result = numbers(run)
        if task["keep"]:
            result |= keep(run, task)
    outcome = {"state": "done", "result": result, "curve": curve(run), "kept": task["keep"]}
    return outcome | {"made_by": {"continued_from": first}} if first else outcome


def _model(task: Plain) -> LatentMDP:
    return open_model(task["content"]["model"] | task["where"].get("model", {}))


def _policy(task: Plain, spec: Spec, model: LatentMDP) -> PolicyGraph | None:
    """The optimum's policy, for the algorithm that plays it."""
    if spec.algorithm != "oracle":
        return None
    return load_policy(policy_file(Path(task["folder"]), task["optimum_key"]), model)
