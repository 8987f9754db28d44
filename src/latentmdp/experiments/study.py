"""`Study`: a grid of runs from a file or from Python: run it, read it, continue it."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from latentmdp.errors import DamagedStudyWarning, ModelError
from latentmdp.experiments.compare import Comparison, compare, performance_profile
from latentmdp.experiments.dask_engine import DaskEngine
from latentmdp.experiments.exponents import exponents
from latentmdp.experiments.lines import Document
from latentmdp.experiments.lock import held, is_held
from latentmdp.experiments.runner import Choice, Listener, Runner, matches
from latentmdp.experiments.spec import StudySpec
from latentmdp.experiments.store import FILE, Damage, Row, Store
from latentmdp.experiments.study_run import (
    KEY_LENGTH,
    Plain,
    StudyRun,
    conversion_of,
    in_user_units,
    open_gap_of,
)
from latentmdp.experiments.tasks import PERFORM
from latentmdp.experiments.under_way import read_under_way
from latentmdp.formats import save
from latentmdp.model.latent_mdp import LatentMDP
from latentmdp.model.units import NORMALISED, USER, Conversion
from latentmdp.runtime.files import PathLike, as_path, make_folder, shown
from latentmdp.runtime.interrupts import StopRequest, interrupts_set
from latentmdp.runtime.workers import Engine, Processes

if TYPE_CHECKING:
    import pandas as pd

    from latentmdp.learning.run import Run

ENGINES = ("processes", "dask")
MOST_JOBS = 10_000


class Study:
    """A study and the folder of its results.

    `run` does the runs that are not done yet, `table` has a row for each finished run, `curves` has
    their regret in long form. Results stay valid when the file is edited: a run is found by a hash
    of its content.
    """

    def __init__(self, spec: StudySpec, folder: Path) -> None:
        self.spec, self.folder = spec, folder

    @classmethod
    def load(cls, path: PathLike) -> Study:
        """The study of a TOML file; its results are in a folder of the same name beside it."""
        place = as_path(path)
        spec = StudySpec(Document.read(place), place.parent)
        name = spec.folder
        if name is None and not place.suffix:
            raise ModelError(f"{shown(place)} must end in .toml, or have the key folder")
        return cls(spec, place.parent / name if name is not None else place.with_suffix(""))

    def __repr__(self) -> str:
        return f"Study({self.spec.title or self.folder.name!r}, {shown(self.folder)})"

    # ------------------------------------------------------------------ running

    def run(
        self,
        jobs: int | None = None,
        engine: str = "processes",
        scheduler: str | None = None,
        *,
        only: str | None = None,
        retry: bool = False,
        wait: bool = False,
        listener: Listener | None = None,
        say: Callable[[str], None] | None = None,
    ) -> Study:
        """Do all runs that are not done yet, each stored when it is finished.

        `jobs`: worker processes (default: one per core). `engine`: `processes`, or `dask` with the
        address of a `scheduler` (without one, a cluster on this machine). `only`: a pattern for
        ids, like `*mvp*`. `retry`: also runs that have failed, or whose row in the database is
        damaged (it is set aside). `wait` for another process that runs this study, rather than
        refuse. After Ctrl-C or a kill all finished runs are kept.
        """
        chosen = _engine(engine, jobs, scheduler)
        stop = StopRequest()
        with held(self.folder, wait, say), Store(self.folder, write=True) as store:
            if retry:
                store.set_damage_aside()
            choice = Choice(self.spec, store, only, retry)
            with interrupts_set(stop):
                Runner(
                    self.spec, self.folder.absolute(), store, chosen(), choice,
                    listener or Listener(), stop,
                ).run()  # fmt: skip
        return self

    # ------------------------------------------------------------------ reading

    def status(self, only: str | None = None) -> Plain:
        """Counts of runs, the failures and their reasons, whether a driver is running.

        `under_way` lists the tasks that workers have, with the seconds since each began and since
        its last progress report; `damaged` the parts of the database that are not as they were
        written.
        """
        counts = {"runs": 0, "done": 0, "failed": 0}
        failed: list[Plain] = []
        seconds = 0.0
        versions: set[str] = set()
        for run, row in self._rows(only):
            counts["runs"] += 1
            if row is not None:
                counts[row.state] += 1
                seconds += row.seconds
                if row.made_by:  # empty if the worker has died
                    versions.add(_versions(row.made_by))
                if row.state == "failed":
                    failed.append({"id": run.id, "error": row.result["error"]})
        left = counts["runs"] - counts["done"] - counts["failed"]
        running = is_held(self.folder)
        return {
            **counts, "left": left, "seconds": seconds, "running": running,
            "under_way": read_under_way(self.folder) if running else [],
            "failures": failed, "versions": sorted(versions), "folder": str(self.folder),
            "damaged": [{"id": one.what, "error": one.reason} for one in self._damage()],
        }  # fmt: skip

    def plan(
        self, only: str | None = None, retry: bool = False
    ) -> tuple[list[str], int, float, int]:
        """What `run` would do: ids, optima to plan, seconds of work, number of runs in these.

        Seconds are estimated from finished runs of the same model, algorithm and class; runs
        without such are not counted.
        """
        ids: list[str] = []
        optima: set[str] = set()
        took: dict[tuple[Any, ...], list[float]] = {}
        left: dict[tuple[Any, ...], int] = {}
        with ExitStack() as opened:
            store = None
            if (self.folder / FILE).exists():
                store = opened.enter_context(Store(self.folder))
            choice = None if store is None else Choice(self.spec, store, only, retry)
            for run in self.spec.runs():
                if not matches(run, only):
                    continue
                like = tuple(v for name, v in run.labels.items() if name != "seed")
                if choice is not None and store is not None and choice.is_over(run):
                    row = store.run(run.key)
                    if row is not None and row.state == "done":
                        took.setdefault(like, []).append(row.seconds)
                    continue
                ids.append(run.id)
                left[like] = left.get(like, 0) + 1
                key = run.optimum_key
                if key is not None and (store is None or store.optimum(key) is None):
                    optima.add(key)
        known = {like: sum(t) / len(t) for like, t in took.items() if like in left}
        seconds = sum(mean * left[like] for like, mean in known.items())
        return ids, len(optima), seconds, sum(left[like] for like in known)

    def table(self, units: str = "user") -> pd.DataFrame:
        """One row per finished run, in the order of the study.

        `id`; the columns that name the run (`model`, swept keys, `algorithm`, `policy_class`,
        `episodes`, `delta`, `bonus_scale`, `simulator`, `ties`, `seed`); its results (`regret` and
        `regret_upper`, the bounds of the regret, `optimal_lower`, ...); and `seconds`. All columns
        but those of seconds are the same to the bit for every engine, order and interruption.

        `units`: for normalised models, `user` gives values and regret in the units of the original
        rewards, `model` in the model's own; a column `units` says which.
        """
        import pandas as pd  # loads slowly

        self._warn_of_damage()
        rows, named, shown = [], Names(), _Units(units)
        for run, row in self._rows():
            if row is not None and row.state == "done":
                named.add(run.labels)
                result = shown.result(run, row.result)
                rows.append({"id": run.id, **run.labels, **result, "seconds": row.seconds})
        return _ordered(pd.DataFrame(rows), named)

    def curves(self, units: str = "user") -> pd.DataFrame:
        """Cumulative regret in long form: a row for each run and point.

        `id` and the columns that name the run, as in `table`; `episode`, `regret` after that many
        episodes, and `regret_upper`, its upper bound (equal if the optimum is closed).
        Points are the same for all runs of equal length: 100, evenly spaced in the logarithm.
        `units` as in `table`.
        """
        import pandas as pd  # loads slowly

        self._warn_of_damage()
        parts, named, shown = [], Names(), _Units(units)
        for run, row in self._rows():
            if row is not None and row.curve is not None:
                named.add(run.labels)
                points = {"episode": row.curve[0], **shown.curve(run, row)}
                parts.append(pd.DataFrame({"id": run.id, **run.labels, **points}))
        return _ordered(pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(), named)

    def kept_in(self, id: str) -> Path:
        """The folder with the files of a run, by its id in the table.

        Its name is the first id of the run; if models or algorithms were renamed since, only the
        hash at the end is the same.
        """
        with Store(self.folder) as store:
            row = store.run(id[-KEY_LENGTH:])
        if row is None or not row.kept:
            raise ModelError(f"{id!r} must be a run whose files were kept; none were")
        return self.folder / "runs" / row.id

    def counted(self, units: str = "user") -> pd.DataFrame:
        """The rows of `table` that are within the study's limits."""
        return self.spec.within_limits(self.table(units))[0]

    def compare(self, a: str, b: str, units: str = "user", **how: Any) -> Comparison:
        """Whether learner `a` beats learner `b`: paired by seed, for each problem of the study.

        Names are those of algorithms, with the options that vary (`bernstein bonus_scale=0.01`).
        `str()` of the result gives sentences; see `experiments.compare.compare`.
        """
        return compare(self.counted(units), a, b, **how)

    def profile(self, metric: str = "regret") -> pd.DataFrame:
        """How often each learner is within a factor of the best: `learner, factor, share`."""
        return performance_profile(self.counted(), metric=metric)

    def exponents(self, key: str, metric: str = "regret", units: str = "user") -> pd.DataFrame:
        """How the metric grows with a swept key: slopes on logarithmic axes, with intervals.

        The unit of a normalised model may change with the key: the theorem's exponents are those
        of `units="model"`.
        """
        return exponents(self.counted(units), key, metric)

    def _damage(self) -> list[Damage]:
        if not (self.folder / FILE).exists():
            return []
        with Store(self.folder) as store, store.snapshot():
            return store.damage()

    def _warn_of_damage(self) -> None:
        """Warn that damaged rows are left out."""
        damage = self._damage()
        if damage:
            more = f", and {len(damage) - 1} more" if len(damage) > 1 else ""
            warnings.warn(
                f"{shown(self.folder / FILE)} is damaged, and damaged rows are left out: "
                f"{damage[0].what}: {damage[0].reason}{more} (`latentmdp study status` lists them, "
                "`study run --retry` runs them again)",
                DamagedStudyWarning, stacklevel=3,
            )  # fmt: skip

    def _rows(self, only: str | None = None) -> Iterable[tuple[StudyRun, Row | None]]:
        """All runs with their rows in the store, from one moment."""
        if not (self.folder / FILE).exists():
            yield from ((run, None) for run in self.spec.runs() if matches(run, only))
            return
        with Store(self.folder) as store, store.snapshot():
            for run in self.spec.runs():
                if matches(run, only):
                    yield run, store.run(run.key)


def _versions(made_by: Plain) -> str:
    """The versions that results depend on: `latentmdp 0.1.0, numpy 2.3.0, numba 0.62.0`."""
    names = ("latentmdp", "numpy", "numba")
    return ", ".join(f"{name} {made_by[name]}" for name in names if name in made_by)


class _Units:
    """The units of a table."""

    def __init__(self, units: str) -> None:
        if units not in ("user", "model"):
            raise ModelError(f"units must be model or user; it is {units!r}")
        self._name = USER if units == "user" else NORMALISED

    def result(self, run: StudyRun, result: Plain) -> Plain:
        """The columns of a run, with one for its units if its model is normalised."""
        conversion = conversion_of(run.where)
        if conversion == Conversion():
            return result
        shown = in_user_units(result, conversion) if self._name == USER else result
        return shown | {"units": self._name}

    def curve(self, run: StudyRun, row: Row) -> Plain:
        """A run's regret at each point, and its upper bound."""
        assert row.curve is not None
        conversion = conversion_of(run.where)
        scale = conversion.scale if self._name == USER else 1.0
        episodes, regret = row.curve
        gap = open_gap_of(run.labels | row.result)
        upper = [scale * (value + gap * k) for k, value in zip(episodes, regret, strict=True)]
        found: Plain = {"regret": [scale * value for value in regret], "regret_upper": upper}
        return found if conversion == Conversion() else found | {"units": self._name}


class Names:
    """Columns that name runs, in one order: swept keys of all models stand before `algorithm`."""

    def __init__(self) -> None:
        self._found: dict[str, None] = {}

    def add(self, labels: Plain) -> None:
        """Those of another run."""
        self._found |= dict.fromkeys(labels)

    def __iter__(self) -> Iterator[str]:
        yield from (name for name in ("task", "model") if name in self._found)
        yield from (name for name in self._found if name not in FIXED)
        yield from (name for name in FIXED if name in self._found and name not in ("task", "model"))


FIXED = (
    "task", "model", "algorithm", "policy_class", "episodes", "delta", "bonus_scale", "simulator",
    "ties", "seed",
)  # fmt: skip
"""Columns that name runs of every study; others are swept keys."""


def _ordered(table: pd.DataFrame, named: Names) -> pd.DataFrame:
    first = ["id", *named]
    if "units" in table:
        table = table.fillna({"units": ""})
    return table[[*first, *(name for name in table if name not in first)]] if len(table) else table


def _engine(name: str, jobs: int | None, scheduler: str | None) -> Callable[[], Engine]:
    """A function that makes the engine; bad names and numbers are refused at once."""
    if name not in ENGINES:
        raise ModelError(f"engine must be one of {', '.join(ENGINES)}; it is {name!r}")
    if jobs is not None and (not isinstance(jobs, int) or not 1 <= jobs <= MOST_JOBS):
        raise ModelError(f"jobs must be a whole number from 1 to {MOST_JOBS}; it is {jobs!r}")
    workers = jobs or os.cpu_count() or 1
    if name == "processes":
        if scheduler is not None:
            raise ModelError("a scheduler's address goes with engine='dask'")
        return lambda: Processes(workers, PERFORM)
    return lambda: DaskEngine(workers, scheduler)


# ---------------------------------------------------------------------- from Python


def sweep(
    models: Any,
    algorithms: Any,
    seeds: int | list[int] = 10,
    episodes: Any = 10**6,
    folder: PathLike | None = None,
    *,
    run: bool = True,
    jobs: int | None = None,
    engine: str = "processes",
    scheduler: str | None = None,
    **options: Any,
) -> Study:
    """A study of all models x algorithms x seeds, run at once.

    `models`: one or a list of spec strings, files, `LatentMDP`s or tables as in a study's file; or
    a dictionary of them by name. `algorithms`: names or tables. `options`: what else a study's file
    may have at its top (`policy_class`, `bonus_scale`, `keep`, ...). Without `folder=`, results are
    in a temporary folder that is deleted with the object; with it they are kept, and finished runs
    are not repeated. `run=False` runs nothing yet.

    >>> import latentmdp as lm
    >>> study = lm.sweep("bandit:arms=2,contexts=2,horizon=3", ["random"], seeds=2, episodes=100)
    >>> len(study.table())
    2
    """
    place = Path(tempfile.mkdtemp(prefix="latentmdp-")) if folder is None else as_path(folder)
    try:
        document = {
            "models": [_model_entry(entry, place) for entry in _entries(models)],
            "algorithms": [_algorithm_entry(entry) for entry in _entries(algorithms)],
            "seeds": seeds, "episodes": episodes, **options,
        }  # fmt: skip
        study = Study(StudySpec(Document(document), Path.cwd()), place)
    except BaseException:
        if folder is None:
            shutil.rmtree(place, ignore_errors=True)
        raise
    if folder is None:
        weakref.finalize(study, shutil.rmtree, place, ignore_errors=True)
    return study.run(jobs, engine, scheduler) if run else study


def _entries(given: Any) -> list[tuple[str | None, Any]]:
    """One, several, or several by name."""
    if isinstance(given, Mapping) and not {"model", "algorithm"} & set(given):
        return [(str(name), value) for name, value in given.items()]
    if isinstance(given, (list, tuple)):
        return [(None, value) for value in given]
    return [(None, given)]


def _model_entry(entry: tuple[str | None, Any], folder: Path) -> Plain:
    name, value = entry
    if isinstance(value, LatentMDP):
        found: Plain = {"model": _saved_model(value, folder)}
        name = name or f"model {value.digest[:6]}"
    elif isinstance(value, Mapping):
        found = dict(value)
    elif isinstance(value, (str, os.PathLike)):
        found = {"model": os.fspath(value)}
    else:
        raise ModelError(f"a model must be a spec, a file or a LatentMDP; it is {value!r:.100}")
    return found if name is None else {"name": name, **found}


def _algorithm_entry(entry: tuple[str | None, Any]) -> Plain:
    name, value = entry
    found = dict(value) if isinstance(value, Mapping) else {"algorithm": value}
    return found if name is None else {"name": name, **found}


def _saved_model(model: LatentMDP, folder: Path) -> str:
    """Its file in the study's folder, where workers read it."""
    path = make_folder(folder / "models").absolute() / f"{model.digest}.npz"
    if not path.exists():
        save(model, path)
    return str(path)


def load_runs(folder: PathLike) -> list[Run]:
    """All runs in a folder and below: of a study that keeps them, or of `learn --out`.

    A study must have been run with `keep = ["runs"]`; only its finished runs are read.
    """
    from latentmdp.learning.run import load_run  # loads the kernels

    place = as_path(folder)
    if not place.is_dir():
        raise ModelError(f"{shown(place)} must be a folder of runs; there is none")
    if (place / FILE).exists():
        with Store(place) as store:
            names = store.kept_runs()
        if not names:
            raise ModelError(
                f'{shown(place)} must hold runs; the study has none (it needs keep = ["runs"])'
            )
        return [load_run(place / "runs" / name) for name in names]
    folders = run_folders(place)
    if not folders:
        raise ModelError(f"{shown(place)} must hold runs; no run.npz is in it or below")
    return [load_run(folder) for folder in folders]


def run_folders(place: Path) -> list[Path]:
    """Folders of saved runs in a folder and below; `2` comes before `10`."""
    files = sorted(place.rglob("run.npz"), key=lambda p: [(len(part), part) for part in p.parts])
    return [file.parent for file in files]
