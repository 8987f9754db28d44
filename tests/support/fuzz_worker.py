"""Reads mutants of one kind of file and uses what comes back; `fuzz.py` starts and watches it.

    python fuzz_worker.py KIND FIRST COUNT CRAFTED MEGABYTES

Prints a line before and after each mutant, so that whoever started it knows which one it died of.
Good is a `ModelError` of one line, or an object that works; everything else is bad.
"""

import contextlib
import io
import json
import os
import resource
import shutil
import sys
import tempfile
import traceback
import zlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
from fuzz_logs import ENDINGS, make_log, use_log
from fuzz_mutants import mutant
from pomdp_samples import MANY_SHORTHANDS, diagrams, policyx

import latentmdp as lm
from latentmdp.commands.study import _print_runs as print_runs
from latentmdp.experiments.store import Store
from latentmdp.formats.archive import write_npz
from latentmdp.formats.csv import BESIDE
from latentmdp.formats.document import model_document
from latentmdp.learning.learn import learn
from latentmdp.learning.learner import Learner
from latentmdp.learning.run import Run, load_run
from latentmdp.learning.session import Session
from latentmdp.learning.spec import RunSpec
from latentmdp.policy.graph import POLICY_PARTS
from latentmdp.report import save_phases
from latentmdp.report.encode import safe_json
from latentmdp.report.phases import run_phases
from latentmdp.report.study_page import write_study_page

MODEL = lm.make("maze:size=2,goals=2,horizon=3")
DIFFERENT = lm.make("garnet:states=3,actions=2,contexts=2,horizon=4,seed=1")
MASKED = lm.make("maze:size=2,goals=2,horizon=3,blocked=1")
TIMED = lm.LatentMDP.from_arrays(
    np.tile(MODEL.P, (3, 1, 1, 1, 1)), MODEL.R, MODEL.w, MODEL.nu, 3, terminal=MODEL.nu,
    max_return=None,
)  # fmt: skip
LARGEST = 10**5  # steps x states x contexts that are evaluated


STUDY = {"seeds": 3, "episodes": 30, "run": False}  # options of `lm.sweep`
STUDIED = "bandit:arms=2,contexts=2,horizon=3", ["random", "mvp"]
TABLE = None  # of the study before any change


# ---------------------------------------------------------------------- valid files


def make_model(folder, name):
    if name == "sparse.npz":
        write_npz(folder / name, model_document(DIFFERENT, dense=False), level=0)
    elif name == "masked-sparse.npz":
        write_npz(folder / name, model_document(MASKED, dense=False), level=0)
    elif name.startswith("masked"):
        lm.save(MASKED, folder / name)
    elif name == "timed-sparse.npz":
        write_npz(folder / name, model_document(TIMED, dense=False), level=0)
    elif name == "unrolled.json":
        lm.save(TIMED.time_augmented(), folder / name)
    elif name.startswith("timed"):
        lm.save(TIMED, folder / ("timed.csv" if name == "timed.terminal.csv" else name))
    elif name == "numbers.csv":
        lm.save(DIFFERENT, folder / name)
    else:
        names = {"state_names": [f"é{s}" for s in range(MODEL.S)]}
        lm.save(MODEL.replace(w=[0.25, 0.75], **names), folder / name)


def make_frame(folder, name):
    """A data frame on its way through a file: names of states, numbers of the rest."""
    names = {"state_names": [f"é{s}" for s in range(MODEL.S)], "action_names": None}
    MODEL.replace(w=[0.25, 0.75], **names).to_frame().to_csv(folder / name, index=False)


def make_tables(folder, name):
    """Two small environments with tables."""
    rows = [[[0.5, 1, 1.0, False], [0.5, 2, 0.0, True]], [[1.0, 0, -1.0, False]]]
    table = [rows, rows[::-1], rows]
    document = [{"P": table, "initial_state_distrib": [1.0, 0.0, 0.0]}] * 2
    (folder / name).write_text(json.dumps({"envs": document, "w": [0.5, 0.5]}))


def make_pomdp(folder, name):
    if name == "saved.pomdp":
        lm.save(DIFFERENT, folder / name)
    else:
        (folder / name).write_text(MANY_SHORTHANDS if name == "model.pomdp" else diagrams())


def make_alpha_vectors(folder, name):
    vectors = [(0, s, [1.5, s]) for s in range(DIFFERENT.S)] + [(1, 1, {1: 3.0})]
    (folder / name).write_text(policyx(vectors, DIFFERENT.M))


def make_policy(folder, name):
    policy = lm.PolicyGraph.from_tree(MODEL, lambda history: len(history) % 4)
    if name.endswith("csv"):
        policy = lm.PolicyGraph.from_table(policy.table)
    lm.save_policy(policy, folder / name)


def make_learner(folder, name):
    """A learner in the middle of an episode; `name` has the algorithm and the class."""
    algorithm, policy_class, kind = name.removesuffix(".npz").split("-")
    given = DIFFERENT if kind == "middle" else MODEL
    estimate = ("w", "nu", "R") if kind == "estimate" else ()
    learner = Learner(
        given, algorithm, episodes=1000, policy_class=policy_class, estimate=estimate,
        bonus_scale=0.01,
    )  # fmt: skip
    random = np.random.default_rng(0)
    for _ in range(12):
        play(learner, random)
    if kind == "middle":
        learner.begin(int(given.nu[0].argmax()))
        take_step(learner, random, 0)
    learner.save(folder / name)


def make_run(folder, name):
    algorithm = "mvp" if folder.name != "psrl" else "psrl"
    learn(
        MODEL, algorithm, 3000, "history", bonus_scale=0.01, seed=1, optimal=(0.9, 1.0)
    ).save(folder)  # fmt: skip


def make_checkpoint(folder, name):
    """A run that was stopped in the middle of a phase of the step simulator."""
    session = Session(MODEL, RunSpec("bernstein", 10**9, "markov", simulator="episodes"))
    for _ in range(20):
        session.next_phase()
    calls = []
    session.next_phase(stop=lambda: calls.append(0) or len(calls) > 1)
    Run(MODEL, session.state(), (0.9, 1.0), 0.5).checkpoint(folder)


def make_study(folder, name):
    """The database of a finished study, whole in one file."""
    with tempfile.TemporaryDirectory() as place:
        study = lm.sweep(*STUDIED, folder=place, **STUDY).run(jobs=1)
        global TABLE
        TABLE = study.table().set_index("id")
        shutil.copy(study.folder / "study.db", folder / name)


def make_explorer(folder, name):
    run = learn(MODEL, "mvp", 60, "history", bonus_scale=0.01, optimal=(0.9, 1.0))
    run.save(folder)
    save_phases(run, folder, count=4)


# ---------------------------------------------------------------------- what comes back is used


def use_model(folder, name):
    name = "timed.csv" if name == "timed.terminal.csv" else name
    use(lm.load(folder / ("model.csv" if name in BESIDE else name)), folder)


def use(model, folder):
    assert model.replace() == model
    str(model.describe()), repr(model)
    if model.H * model.S * model.M <= LARGEST:
        actions = np.broadcast_to(model.substitute, (model.H, model.S, model.A))[:, :, 0]
        policy = lm.PolicyGraph.from_table(actions)
        lm.evaluate(model, policy)
    lm.save(model, folder / "again.npz")
    assert lm.load(folder / "again.npz") == model


def use_frame(folder, name):
    try:
        frame = pd.read_csv(folder / name)
    except ValueError as error:  # what pandas cannot read is not our concern
        raise lm.ModelError("pandas cannot read it") from error
    use(lm.LatentMDP.from_frame(frame, 3), folder)


def use_tables(folder, name):
    try:
        document = json.loads((folder / name).read_bytes())
        envs, w = document["envs"], document["w"]
        envs = [SimpleNamespace(**env) for env in envs]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise lm.ModelError("no list of environments") from error
    use(lm.from_gymnasium(envs, w, 3, observe_rewards=False), folder)


def use_pomdp(folder, name):
    model = lm.load(folder / name, horizon=3)
    assert model.replace() == model
    str(model.describe())
    if model.S * model.M <= LARGEST:
        policy = lm.PolicyGraph.from_table(np.zeros((3, model.S), dtype=int))
        lm.evaluate(model, policy)
    if model.S * model.M * model.A <= 1000:
        lm.save(model, folder / "again.pomdpx")
        assert lm.load(folder / "again.pomdpx", horizon=3).M == model.M


def use_alpha_vectors(folder, name):
    policy = lm.load_policy(folder / name, DIFFERENT)
    lm.evaluate(DIFFERENT, policy)


def use_policy(folder, name):
    policy = lm.load_policy(folder / name)
    parts = {part: getattr(policy, part) for part in (*POLICY_PARTS, "stationary")}
    assert lm.PolicyGraph.from_arrays(**parts) == policy
    cursor = policy.cursor(0)
    while cursor.observe(policy.S - 1, symbol=0) is not None:
        pass
    policy.prune().merge()
    lm.save_policy(policy, folder / "again.npz")
    assert lm.load_policy(folder / "again.npz") == policy
    lm.evaluate(MODEL, policy)


def use_learner(folder, name):
    learner = Learner.load(folder / name)
    repr(learner)
    random = np.random.default_rng(0)
    if learner._path is not None:
        while len(learner._path) < learner.known.H:
            take_step(learner, random, 0)
        with contextlib.suppress(lm.ModelError):
            learner.end(0)
        learner.cancel()
    learner.update(np.arange(learner.counts.rows))
    for _ in range(3):
        play(learner, random)
    learner.update(np.arange(learner.counts.rows))
    Learner.from_state(learner.state()).update(np.arange(learner.counts.rows))


def play(learner, random):
    """An episode in a random world; one that the learner refuses is dropped."""
    known = learner.known
    m = int(random.integers(known.M))
    try:
        learner.begin(int(random.integers(known.S)))
        for _ in range(known.H):
            take_step(learner, random, m)
        learner.end(m)
    except lm.ModelError:
        learner.cancel()


def take_step(learner, random, m):
    nxt = int(random.integers(learner.known.S))
    rewards, _ = learner.knowledge._by_context(learner._state, learner._cursor.action, nxt)
    learner.step(float(rewards[m]), nxt)


def use_run(folder, name):
    run = load_run(folder)
    repr(run), run.table, run.summary(), run.regret_at([1, 10]), run.complete
    session = run.session()
    calls = []
    for _ in range(3):
        session.extend(40)
        session.next_phase(stop=lambda: calls.append(0) or len(calls) > 2)
    again = Run(run.model, session.state(), run.optimal, run.seconds_optimal)
    again.save(folder / "again")
    load_run(folder / "again").summary()


def use_explorer(folder, name):
    safe_json(run_phases(load_run(folder), 3, folder))  # what the page gets


def use_study(folder, name):
    """Every result is as it was, or named as damaged; with digests made anew, it may be other."""
    if name != "study.db":
        (folder / name).replace(folder / "study.db")
    study = lm.sweep(*STUDIED, folder=folder, **STUDY)
    status, table = study.status(), study.table()
    if name == "study.db":
        for _, row in table.iterrows():
            assert row.drop("id").equals(TABLE.loc[row.id]), f"{row.id} has changed silently"
        if len(table) < len(TABLE) or status["failed"]:
            assert status["damaged"], "runs have vanished silently"
    study.curves(), study.plan()
    if len(table):
        write_study_page(folder / "page.html", table, study.curves(), title="study")
    with contextlib.redirect_stdout(io.StringIO()):
        print_runs(table)
    damaged = Store(folder, write=True)
    with damaged:
        damaged.set_damage_aside()
        assert not damaged.damage()


LEARNERS = (
    "mvp-markov-middle.npz", "mvp-history-middle.npz", "bernstein-history-start.npz",
    "mvp-markov-estimate.npz", "psrl-history-start.npz", "random-markov-start.npz",
)  # fmt: skip
KINDS = {
    **dict.fromkeys(("model.npz", "sparse.npz", "model.json"), (make_model, use_model)),
    **dict.fromkeys(("masked.json", "masked-sparse.npz"), (make_model, use_model)),
    **dict.fromkeys(("timed.json", "timed-sparse.npz", "unrolled.json"), (make_model, use_model)),
    **dict.fromkeys(("timed.csv", "timed.terminal.csv"), (make_model, use_model)),
    **dict.fromkeys(("model.csv", "numbers.csv", *BESIDE), (make_model, use_model)),
    "frame.csv": (make_frame, use_frame),
    "tables.json": (make_tables, use_tables),
    **dict.fromkeys(("model.pomdp", "saved.pomdp", "model.pomdpx"), (make_pomdp, use_pomdp)),
    "vectors.policyx": (make_alpha_vectors, use_alpha_vectors),
    **{f"policy.{end}": (make_policy, use_policy) for end in ("npz", "json", "csv")},
    **dict.fromkeys(LEARNERS, (make_learner, use_learner)),
    **{f"log.{end}": (make_log, use_log) for end in ENDINGS},
    "run.npz": (make_run, use_run),
    "checkpoint/run.npz": (make_checkpoint, use_run),
    **dict.fromkeys(("study.db", "edited-study.db"), (make_study, use_study)),
    "explorer.json": (make_explorer, use_explorer),
}


def one(kind, base, number, crafted):
    """What became of one mutant: `refused`, `used`, or `bad` and why."""
    name = kind.rpartition("/")[2]
    random = np.random.default_rng([zlib.crc32(kind.encode()), number, crafted])
    files = mutant(random, base, name, crafted)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for file, raw in files.items():
            (folder / file).write_bytes(raw)
        keep = os.environ.get("FUZZ_KEEP")
        if keep:
            (Path(keep) / name).write_bytes(files[name])
        try:
            KINDS[kind][1](folder, name)
        except lm.ModelError as error:
            text = str(error)
            return (
                "refused" if "\n" not in text and len(text) < 1000 else f"bad: said {text[:200]!r}"
            )
        except BaseException as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            inside = f"{Path(where.filename).name}:{where.lineno}"
            if keep:
                traceback.print_exc()
            return f"bad: {type(error).__name__} in {inside}: {' '.join(str(error).split())[:150]}"
        return "used"


def main(kind, first, count, crafted, megabytes):
    """Mutants `first` to `first + count` of a kind."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        made = "model.csv" if kind in BESIDE else kind.rpartition("/")[2]
        KINDS[kind][0](folder, made)
        base = {file.name: file.read_bytes() for file in folder.iterdir()}
        KINDS[kind][1](folder, kind.rpartition("/")[2])  # all that is slow once is behind us
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + megabytes * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for number in range(first, first + count):
        print(number, flush=True)
        print(number, one(kind, base, number, crafted), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], *(int(x) for x in sys.argv[2:]))
