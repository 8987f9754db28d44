"""How many runs a second a study's driver takes, and whether its memory stays flat.

python benchmarks/study_throughput.py                # 2,000 runs that do nothing
python benchmarks/study_throughput.py --runs 100000  # the figures of docs/studies.md
"""

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

from latentmdp.experiments.lines import Document
from latentmdp.experiments.spec import StudySpec
from latentmdp.experiments.study import Study


def nothing(seed: int, stream: int, x: int) -> dict[str, int]:
    """A run that costs nothing: what is measured is all the rest."""
    return {"number": stream % 1000}


class Meter:
    """Prints seconds and the driver's memory at each tenth of the way."""

    def __init__(self, runs: int) -> None:
        self.runs, self.done, self.begun = runs, 0, time.perf_counter()

    def started(self, task: object) -> None:
        """A worker has begun a task."""

    def finished(self, task: object, outcome: dict[str, object]) -> None:
        """A run is stored."""
        assert outcome["state"] == "done", outcome
        self.done += 1
        if self.done % (self.runs // 10) == 0:
            seconds = time.perf_counter() - self.begun
            rate = self.done / seconds
            print(
                f"{self.done:>8} runs {seconds:8.1f} s {rate:7.0f} runs/s {memory():7.1f} MB",
                flush=True,
            )

    def look(self) -> None:
        """A moment has passed."""


def memory() -> float:
    """Of this process now, in MB."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize() / 1e6
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--engine", default="processes")
    parser.add_argument("--folder", type=Path, help="on the disk to measure")
    options = parser.parse_args()
    task = {
        "name": "nothing", "function": f"{Path(__file__).name}:nothing",
        "seeds": options.runs // 100, "sweep": {"x": list(range(100))},
    }  # fmt: skip
    spec = StudySpec(Document({"tasks": [task]}), Path(__file__).parent)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        study = Study(spec, Path(folder))
        study.run(options.jobs, options.engine, listener=Meter(options.runs // 100 * 100))
        for name, question in (
            ("status", study.status),
            ("table", study.table),
            ("a second run, with nothing to do", lambda: study.run(options.jobs)),
        ):
            begun = time.perf_counter()
            question()
            print(f"{name}: {time.perf_counter() - begun:.1f} s")
        size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
        print(f"store: {size / 1e6:.1f} MB, {size / options.runs:.0f} bytes a run")


if __name__ == "__main__":
    sys.exit(main())
