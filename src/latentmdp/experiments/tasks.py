"""What a worker does, on whatever engine: a plain task in, a plain outcome out, the same bits.

A task is a dictionary with `kind` (`optimum`, `learn`, `call`), `content`, `where`, and for runs
`key`, `id`, `folder` and `keep`. An outcome has a `state`:

- `done`, with `result` (and `curve`, `kept`);
- `failed`: the run itself cannot be done; `result` has the words;
- `stopped`: it was asked to stop and has left a checkpoint;
- `trouble`: nothing is wrong with the run, but files cannot be written.
"""

from __future__ import annotations

import platform
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from latentmdp._version import __version__
from latentmdp.errors import ModelError
from latentmdp.experiments.artefacts import TroubleError, curve, keep, numbers, writing
from latentmdp.experiments.run_spec import Plain, stream_of
from latentmdp.experiments.sources import find_function, import_file, open_model

if TYPE_CHECKING:
    from latentmdp.learning.spec import Spec
    from latentmdp.model import LatentMDP

Stop = Callable[[], bool]
MOST_WORDS = 2000  # characters that are kept of a failure


def perform(task: Plain, stop: Stop = lambda: False) -> Plain:
    """Do a task. Whatever goes wrong is an outcome, not an exception."""
    started = time.perf_counter()
    try:
        outcome = _KINDS[task["kind"]](task, stop)
    except TroubleError as error:
        outcome = {"state": "trouble", "result": {"error": str(error)}}
    except ModelError as error:
        outcome = {"state": "failed", "result": {"error": str(error)}}
    except MemoryError:
        outcome = {"state": "failed", "result": {"error": "not enough memory"}}
    except Exception:
        words = traceback.format_exc()[-MOST_WORDS:]
        outcome = {"state": "failed", "result": {"error": words}}
    return outcome | {
        "seconds": time.perf_counter() - started,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "made_by": made_by() | outcome.get("made_by", {}),
    }


@cache
def made_by() -> Plain:
    """Versions and machine."""
    found: Plain = {"latentmdp": __version__, "python": platform.python_version()}
    for name in ("numpy", "numba"):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found | {"machine": platform.node(), "system": f"{sys.platform} {platform.machine()}"}


# ---------------------------------------------------------------------- kinds of tasks


def _optimum(task: Plain, stop: Stop) -> Plain:
    """Plan what regret is measured against, with a fixed amount of work."""
    from latentmdp.formats.policy import save_policy_npz
    from latentmdp.learning.learn import find_optimal
    from latentmdp.learning.spec import Spec

    spec = Spec(policy_class=task["content"]["policy_class"])
    (lower, upper), policy, _ = find_optimal(_model(task), spec)
    if task["with_policy"]:
        assert policy is not None
        with writing(task) as folder:
            (folder / "optima").mkdir(exist_ok=True)
            save_policy_npz(policy, policy_file(folder, task["key"]))
    return {"state": "done", "result": {"lower": lower, "upper": upper}}


def _learn(task: Plain, stop: Stop) -> Plain:
    from latentmdp.experiments.checkpoint import Checkpoint  # loads the kernels
    from latentmdp.learning.learn import checked
    from latentmdp.learning.playing import begin, play
    from latentmdp.learning.spec import Spec

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


def _call(task: Plain, stop: Stop) -> Plain:
    content = task["content"]
    function = find_function(content, task["where"])
    result = function(
        **content["arguments"], seed=content["seed"], stream=stream_of(task["key"])
    )  # fmt: skip
    if not isinstance(result, dict):
        raise ModelError(f"a task's function must give a dictionary; it gave {result!r:.100}")
    points = result.pop("curve", None)
    plain = {str(name): _plain(name, value) for name, value in result.items()}
    return {"state": "done", "result": plain, "curve": points}


_KINDS = {"optimum": _optimum, "learn": _learn, "call": _call}


def _plain(name: str, value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    if value is not None and not isinstance(value, (bool, int, float, str)):
        raise ModelError(
            f"a task's results must be numbers or text; {name} is a {type(value).__name__}"
        )
    return value


def _model(task: Plain) -> LatentMDP:
    return open_model(task["content"]["model"] | task["where"].get("model", {}))


def _policy(task: Plain, spec: Spec, model: LatentMDP) -> Any:
    """The optimum's policy, for the algorithm that plays it."""
    from latentmdp.formats import load_policy

    if spec.algorithm != "oracle":
        return None
    return load_policy(policy_file(Path(task["folder"]), task["optimum_key"]), model)


def policy_file(folder: Path, key: str) -> Path:
    """Where an optimum's policy lies."""
    return folder / "optima" / f"{key}.npz"
