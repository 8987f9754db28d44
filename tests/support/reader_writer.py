"""One process writes the same files again and again, another reads them: never a torn read.

python reader_writer.py write KIND FOLDER     until FOLDER/stop is there
python reader_writer.py read KIND FOLDER SECONDS
"""

import sys
import time
import warnings
from pathlib import Path

import numpy as np

import latentmdp as lm
from latentmdp.learning.learner import Learner
from latentmdp.learning.run import load_run


def models() -> list[lm.LatentMDP]:
    """Two models that differ in sizes and names."""
    made = [lm.make(f"bandit:arms={n},contexts={n},horizon={n},seed={n}") for n in (2, 3)]
    return [
        made[0],
        made[1].replace(context_names=("a", "b", "c"), action_names=("left", "middle", "right")),
    ]


def model_kind(name: str):
    """A model's file."""
    made = models()
    if name.endswith(".csv"):  # files of parameters beside it are shared: another is refused
        made = [lm.make(f"bandit:arms=2,contexts=2,horizon=2,seed={n}") for n in (2, 3)]

    def write(folder: Path, i: int) -> None:
        lm.save(made[i], folder / name)

    def read(folder: Path):
        found = lm.load(folder / name, horizon=2)
        return (found.M, found.S, found.A, found.context_names, found.digest)

    return write, read


def policy_kind(name: str):
    """A policy's file."""
    tables = [np.zeros((2, 3), dtype=int), np.ones((3, 4), dtype=int)]

    def write(folder: Path, i: int) -> None:
        lm.save_policy(lm.PolicyGraph.from_table(tables[i]), folder / name)

    def read(folder: Path):
        return lm.load_policy(folder / name).table.tolist()

    return write, read


def run_kind(load):
    """A run's folder, with its model and curve beside it."""
    runs = [lm.learn(model, "random", 50, optimal=(0.5, 1.5)) for model in models()]

    def write(folder: Path, i: int) -> None:
        runs[i].save(folder / "run", overwrite=True)

    def read(folder: Path):
        run = load(folder)
        return (run.summary(), run.model.digest)

    return write, read


def learner_kind():
    """A learner's file."""
    learners = [Learner(models()[0], "mvp", episodes=n) for n in (100, 200)]

    def write(folder: Path, i: int) -> None:
        learners[i].save(folder / "learner.npz")

    def read(folder: Path):
        return repr(Learner.load(folder / "learner.npz"))

    return write, read


KINDS = {
    **{end: lambda end=end: model_kind(f"m.{end}")
       for end in ("npz", "json", "csv", "pomdp", "pomdpx")},
    **{f"policy {end}": lambda end=end: policy_kind(f"p.{end}") for end in ("npz", "json", "csv")},
    "run": lambda: run_kind(lambda folder: load_run(folder / "run")),
    "runs": lambda: run_kind(lambda folder: lm.load_runs(folder)[0]), "learner": learner_kind,
}  # fmt: skip


def main(what: str, kind: str, place: str, seconds: str = "0") -> None:
    """Write until told to stop, or read for so long."""
    warnings.simplefilter("error")
    folder, (write, read) = Path(place), KINDS[kind]()
    if what == "write":
        expected = []
        for i in range(2):
            write(folder, i)
            expected.append(read(folder))
        (folder / "expected").write_text(repr(expected))
        count = 0
        while not (folder / "stop").exists():
            write(folder, count % 2)
            count += 1
        print(count)
        return
    expected, seen = (folder / "expected").read_text(), [0, 0]
    until = time.monotonic() + float(seconds)
    while time.monotonic() < until or (0 in seen and time.monotonic() < until + 60):
        found = repr(read(folder))
        assert found in expected, f"neither the old nor the new: {found} of {expected}"
        seen[expected.startswith(f"[{found},")] += 1
    print(sum(seen))


if __name__ == "__main__":
    main(*sys.argv[1:])
