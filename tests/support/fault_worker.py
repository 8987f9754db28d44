"""One scenario of writing, in which each call that changes a file fails once, in turn.

    LD_PRELOAD=shim.so python fault_worker.py SCENARIO FOLDER

`fault_shim.c` makes the calls fail. A scenario has a state before, an action, and a check that says
which states may be found after it. Prints a line for each fault, and `done` at the end.
"""

import contextlib
import ctypes
import errno
import io
import shutil
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from study_database import change

import latentmdp as lm
from latentmdp.commands import cli
from latentmdp.errors import ModelError
from latentmdp.experiments.runner import Choice, Listener, Runner
from latentmdp.experiments.store import Store
from latentmdp.experiments.study import Study
from latentmdp.experiments.tasks import perform
from latentmdp.learning.learner import Learner
from latentmdp.learning.run import load_run
from latentmdp.report.fit_page import write_fit_page
from latentmdp.runtime import compile as _ahead
from latentmdp.runtime.interrupts import StopRequest
from latentmdp.runtime.progress import UnderWay
from latentmdp.runtime.sealed import Sealing, sealed_folder

OLD = lm.make("bandit:arms=2,contexts=2,horizon=2,seed=0")
NEW = lm.make("bandit:arms=2,contexts=2,horizon=2,seed=1")


class SavedModel:
    """`lm.save` over an older file: one of the two is there, whole."""

    def __init__(self, name):
        self.name = name

    def before(self, folder):
        lm.save(OLD, folder / self.name)

    def act(self, folder):
        lm.save(NEW, folder / self.name)

    def check(self, folder, returned):
        found = lm.load(folder / self.name, horizon=2)
        told = {"horizon": 2}
        expected = [self.again(folder, model, told) for model in (OLD, NEW)]
        assert found == expected[1] or (not returned and found == expected[0])

    def again(self, folder, model, told):
        """The model as this format gives it back."""
        place = folder.parent / f"again-{self.name}"
        lm.save(model, place)
        return lm.load(place, **told)


class SavedPolicy:
    def __init__(self, name):
        self.name = name
        self.policies = [lm.PolicyGraph.from_table([[a, a], [a, a]]) for a in (0, 1)]

    def before(self, folder):
        lm.save_policy(self.policies[0], folder / self.name)

    def act(self, folder):
        lm.save_policy(self.policies[1], folder / self.name)

    def check(self, folder, returned):
        found = lm.load_policy(folder / self.name)
        assert found == self.policies[1] or (not returned and found == self.policies[0])


class SavedRun:
    """A run's folder: the old run or the new one, never parts of both."""

    def __init__(self):
        self.runs = [
            lm.learn(model, "mvp", 50, bonus_scale=0.01, optimal=(0.5, 1.5)) for model in (OLD, NEW)
        ]

    def before(self, folder):
        self.runs[0].save(folder / "run")

    def act(self, folder):
        self.runs[1].save(folder / "run", overwrite=True)

    def check(self, folder, returned):
        found = load_run(folder / "run").summary()
        expected = [run.summary() for run in self.runs]
        assert found == expected[1] or (not returned and found == expected[0])


class SavedLearner:
    def __init__(self):
        self.learner = Learner(OLD, "mvp", episodes=100)

    def before(self, folder):
        self.learner.save(folder / "learner.npz")

    def act(self, folder):
        self.learner.begin(0)
        self.learner.cancel()
        self.learner.save(folder / "learner.npz")

    def check(self, folder, returned):
        assert Learner.load(folder / "learner.npz").episode == self.learner.episode


class Page:
    """Pages and pictures: the old one or the new one, whole."""

    def __init__(self, name, write):
        self.name, self.write = name, write

    def before(self, folder):
        (folder / self.name).write_text("old")

    def act(self, folder):
        self.write(folder / self.name)

    def check(self, folder, returned):
        raw = (folder / self.name).read_bytes()
        whole = raw.rstrip().endswith((b"</html>", b"</svg>"))
        assert whole or (not returned and raw == b"old")


class Rows:
    """The store: what `put_run` has returned from is there; the rest is whole or not there."""

    def before(self, folder):
        self.put = []

    def act(self, folder):
        with Store(folder, write=True) as store:
            for i in range(3):
                key = f"{i}" * 16
                outcome = {
                    "state": "done", "result": {"regret": float(i)}, "seconds": 1.0,
                    "finished": "now", "made_by": {},
                }  # fmt: skip
                store.put_run(key, f"run-{key}", {}, outcome)
                self.put.append(key)
            store.put_optimum("o" * 16, {}, outcome | {"result": {"lower": 0.5, "upper": 1.0}})

    def check(self, folder, returned):
        if not (folder / "study.db").exists():
            assert not self.put
            return
        with Store(folder, write=True) as store:
            assert store.damage() == []
            for i in range(3):
                row = store.run(f"{i}" * 16)
                assert row is not None or f"{i}" * 16 not in self.put
                assert row is None or row.result == {"regret": float(i)}
            assert store.optimum("o" * 16) is not None or not returned


class SetAside(Rows):
    """Repair of a damaged database: whole rows are there before, meanwhile and after."""

    def before(self, folder):
        super().before(folder)
        super().act(folder)
        change(folder / "study.db", "UPDATE runs SET result = '{}' WHERE key = ?", ("1" * 16,))
        self.put.remove("1" * 16)

    def act(self, folder):
        with Store(folder, write=True) as store:
            store.set_damage_aside()

    def check(self, folder, returned):
        with Store(folder, write=True) as store:
            assert bool(store.damage()) == (store.state("1" * 16) is not None)
            assert not (returned and store.damage())
            assert all(store.run(key).result == {"regret": float(key[0])} for key in self.put)
            assert store.optimum("o" * 16) is not None
            store.set_damage_aside()
            assert not store.damage()


class InThisProcess:
    """An engine that does its tasks here, so that its faults are those of the scenario."""

    def __init__(self):
        self.task = None

    def free(self):
        return 1 if self.task is None else 0

    def submit(self, task):
        self.task = task

    def finished(self, seconds):
        task, self.task = self.task, None
        return [] if task is None else [(task, perform(task))]

    def under_way(self):
        return [UnderWay("an-earlier-run", "process 1", 0.0, 0.0, "begun")]

    def stop(self):
        pass

    def close(self):
        pass


STUDY = """
algorithms = ["random"]
episodes = 50
seeds = 2
keep = ["runs", "tables", "policies", "audits"]
[[models]]
model = "bandit:arms=2,contexts=2,horizon=2,seed={seed}"
"""


class WholeStudy:
    """A study that ends with an error goes on afterwards, to the same table."""

    def __init__(self):
        self.expected = None

    def before(self, folder):
        (folder / "s.toml").write_text(STUDY)

    def run(self, folder):
        study = Study.load(folder / "s.toml")
        study.folder.mkdir(exist_ok=True)
        with Store(study.folder, write=True) as store:
            choice = Choice(study.spec, store)
            Runner(
                study.spec, study.folder, store, InThisProcess(), choice, Listener(), StopRequest()
            ).run()  # fmt: skip
        return study

    def act(self, folder):
        try:
            self.run(folder)
        except OSError as error:  # of the test's own mkdir
            raise ModelError("no folder") from error

    def check(self, folder, returned):
        study = self.run(folder)
        table = study.table()
        assert study.status()["failed"] == 0, study.status()
        table = table[[name for name in table if "seconds" not in name]]
        if self.expected is None:
            self.expected = table
        pd.testing.assert_frame_equal(table, self.expected)
        assert len(lm.load_runs(study.folder)) == 2
        assert not list(study.folder.glob("under_way.*"))


class Converted:
    """The command line: one line and exit code 2, or a whole file."""

    def before(self, folder):
        lm.save(OLD, folder / "in.npz")

    def act(self, folder):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            code = cli.run(["convert", str(folder / "in.npz"), str(folder / "out.json")])
        assert (code == 0) == (said.getvalue() == ""), said.getvalue()
        if code:
            assert code == 2
            assert said.getvalue().count("\n") == 1
            raise ModelError(said.getvalue())

    def check(self, folder, returned):
        file = folder / "out.json"
        assert file.exists() or not returned
        assert not file.exists() or lm.load(file) == OLD


class Sealed:
    """A folder of machine code: what counts as whole is what was written."""

    def before(self, folder):
        self.place = sealed_folder(folder / "cache", "kernels")

    def act(self, folder):
        try:
            sealing = Sealing(self.place)
            try:
                (self.place / "code").write_bytes(b"code")
            finally:
                sealing.end()
        except OSError as error:  # `_cache.py` makes a warning of it
            raise ModelError(str(error)) from None

    def check(self, folder, returned):
        found = sealed_folder(folder / "cache", "kernels") / "code"
        assert found.exists() or not returned
        assert not found.exists() or found.read_bytes() in (b"code", b"")  # Numba checks its own
        assert not list(self.place.glob("tmp*"))


class Noted:
    """A note of `latentmdp compile`: whole or not there, and never an error."""

    def before(self, folder):
        place = sealed_folder(folder / "cache", "tasks")
        _ahead.notes = lambda: place

    def act(self, folder):
        before = _ahead.read_note("all")
        _ahead.write_note("all", "123")
        assert before is None
        if _ahead.read_note("all") is None:
            raise ModelError("not written")

    def check(self, folder, returned):
        sealed_folder(folder / "cache", "tasks")  # removes what is damaged
        assert _ahead.read_note("all") in (None, "123")
        assert not list(_ahead.notes().glob("*.new"))
        _ahead.write_note("all", "124")
        sealed_folder(folder / "cache", "tasks")
        assert _ahead.read_note("all") == "124"


class Tabulated:
    """`study table --csv --out`: the old file or the new one."""

    def __init__(self, *options):
        self.options = options

    def before(self, folder):
        self.study = folder.parent / "s.toml"
        if not self.study.with_suffix("").exists():
            self.study.write_text(STUDY)
            lm.Study.load(self.study).run(jobs=1)
        (folder / "table").write_text("old")

    def act(self, folder):
        said = io.StringIO()
        command = ["study", *self.options, "--out", str(folder / "table")]
        command.insert(2, str(self.study))
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            code = cli.run(command)
        if code:
            assert code == 2
            raise ModelError(said.getvalue())

    def check(self, folder, returned):
        raw = (folder / "table").read_bytes().rstrip()
        if self.options[0] == "report":
            assert raw.endswith(b"</html>") or (not returned and raw == b"old")
        else:
            assert raw.count(b"\n") == 2 or (not returned and raw == b"old")


def fit_page(path):
    write_fit_page(path, *FITTED)


def report(path):
    lm.write_report(RUNS, path)


def picture(path):
    lm.drawing.save_picture(OLD, path)


SCENARIOS = {
    **{f"model.{end}": lambda end=end: SavedModel(f"m.{end}")
       for end in ("npz", "json", "csv", "pomdpx", "pomdp")},
    **{f"policy.{end}": lambda end=end: SavedPolicy(f"p.{end}") for end in ("npz", "json", "csv")},
    "run": SavedRun, "learner": SavedLearner,
    "store": Rows, "set aside": SetAside, "study": WholeStudy,
    "convert": Converted, "report": lambda: Page("page.html", report),
    "fit page": lambda: Page("page.html", fit_page),
    "kernels": Sealed, "note": Noted,
    "study table": lambda: Tabulated("table", "--csv"),
    "study report": lambda: Tabulated("report"),
    "picture": lambda: Page("model.svg", picture),
}  # fmt: skip


def main(name, place):
    """Run a scenario with a fault at its first, second, ... call, until there is none."""
    warnings.simplefilter("ignore")
    shim = ctypes.CDLL(None)
    shim.fault_kind.restype = ctypes.c_char_p
    shim.fault_arm.argtypes = ctypes.c_char_p, ctypes.c_long, ctypes.c_int
    global RUNS, FITTED
    if name == "report":
        RUNS = lm.learn(OLD, "mvp", 50, bonus_scale=0.01, optimal=(0.5, 1.5))
    if name == "fit page":
        from latentmdp.fitting.deciding.decision import decide

        log = lm.rollout(OLD, np.zeros((2, OLD.S), dtype=int), episodes=50, seed=0)
        fitted = lm.fit(log)
        FITTED = fitted, fitted.summary(), decide(fitted, time_limit=2.0, draws=20)
    scenario, folder = SCENARIOS[name](), Path(place).resolve()
    inside = folder / "inside"
    for number in (errno.ENOSPC, errno.EIO):
        n, more = -1, True
        while more:
            shutil.rmtree(inside, ignore_errors=True)
            inside.mkdir(parents=True)
            scenario.before(inside)
            shim.fault_arm(str(inside).encode(), n, number)  # the first time there is no fault
            words = ""
            try:
                scenario.act(inside)
            except ModelError as error:
                words = str(error)
            kind = shim.fault_kind()
            shim.fault_arm(b"", -1, 0)
            assert words.count("\n") <= 1
            assert len(words) < 1000
            scenario.check(inside, returned=not words)
            left = [file.name for file in inside.rglob("*") if ".latentmdp.tmp" in file.name]
            assert not left, left
            more = n < 0 or kind is not None
            if kind is not None:
                print(f"{errno.errorcode[number]} {n} {kind.decode()}: {words.strip()}", flush=True)
            else:
                assert not words, words
            n += 1
    print("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
