"""A study's database that was changed: no result changes silently, and the rest stays readable."""

import contextlib
import json
import sqlite3
import warnings

import pytest
from study_database import change, remake_digests

import latentmdp as lm
from latentmdp.commands import cli
from latentmdp.errors import DamagedStudyWarning, ModelError
from latentmdp.experiments.store import APPLICATION_ID, Store
from latentmdp.experiments.stored_rows import check_result
from latentmdp.experiments.study_run import content_key, in_user_units
from latentmdp.model.units import Conversion


@pytest.fixture
def store(tmp_path):
    """A database with three finished runs and an optimum."""
    with Store(tmp_path, write=True) as made:
        for i in range(3):
            made.put_run(key(i), f"run-{i}-{key(i)}", {"i": i}, outcome(regret=1.0 + i))
        made.put_optimum("o" * 16, {}, outcome(lower=0.5, upper=0.6))
        yield made


def key(i):
    return content_key({"i": i})


def outcome(curve=None, **result):
    return {
        "state": "done", "result": result, "curve": curve, "seconds": 0.5, "kept": ["runs"],
        "finished": "2026-01-01", "made_by": {"latentmdp": "0.1"},
    }  # fmt: skip


CHANGES = {
    "regret": ("UPDATE runs SET result = '{\"regret\":9.0}' WHERE key = ?", 1),
    "text as regret": ('UPDATE runs SET result = \'{"regret":"x"}\' WHERE key = ?', 1),
    "no JSON": ("UPDATE runs SET result = '{' WHERE key = ?", 1),
    "state": ("UPDATE runs SET state = 'lost' WHERE key = ?", 1),
    "id": ("UPDATE runs SET id = '../../x' WHERE key = ?", 1),
    "kept": ("UPDATE runs SET kept = '[1]' WHERE key = ?", 1),
    "curve": ("UPDATE runs SET curve = '[[1],[1,2]]' WHERE key = ?", 1),
    "seconds": ("UPDATE runs SET seconds = 'long' WHERE key = ?", 1),
    "blob": ("UPDATE runs SET made_by = x'ff00' WHERE key = ?", 1),
}


@pytest.mark.parametrize("statement", [s for s, _ in CHANGES.values()], ids=list(CHANGES))
@pytest.mark.parametrize("digests", [False, True])
def test_a_damaged_row_is_named_and_is_no_result(store, statement, digests):
    change(store.path, statement, (key(1),))
    if digests:  # a changed number with a good digest cannot be told from a result
        remake_digests(store.path)
        if "9.0" in statement:
            return
    assert store.run(key(1)) is None
    assert store.state(key(1)) == ("damaged", [])
    assert store.run(key(0)).result == {"regret": 1.0}
    damage = store.damage()
    assert len(damage) == 1
    assert damage[0].what.startswith(("run-1", "../../x"))
    assert store.set_damage_aside() == damage
    assert store.damage() == []
    assert store.state(key(1)) is None  # to be run again
    store.put_run(key(1), f"run-1-{key(1)}", {"i": 1}, outcome(regret=2.0))
    assert store.damage() == []
    with sqlite3.connect(store.path.with_name("study-damaged-1.db")) as db:
        assert db.execute("SELECT count(*) FROM runs").fetchone() == (3,)
    db.close()


def test_rows_that_vanish_or_change_their_key_are_noticed(store):
    change(store.path, "DELETE FROM runs WHERE key = ?", (key(2),))
    assert [one.what for one in store.damage()] == ["table runs"]
    store.set_damage_aside()
    assert store.damage() == []
    change(store.path, "UPDATE runs SET key = 'other' WHERE key = ?", (key(1),))
    assert store.state(key(1)) is None
    assert [one.what for one in store.damage()] == [f"run-1-{key(1)}"]


def test_a_damaged_optimum_is_planned_again(store):
    change(store.path, "UPDATE optima SET upper = 0.1")
    assert store.optimum("o" * 16) is None
    assert store.damage()[0].what == f"optimum {'o' * 16}"
    store.put_optimum("o" * 16, {}, outcome(lower=0.5, upper=0.6))
    assert store.damage() == []
    assert store.optimum("o" * 16) == (0.5, 0.6, 0.5)


OLD_SCHEMA = (
    "CREATE TABLE runs (key TEXT PRIMARY KEY, id TEXT NOT NULL, state TEXT NOT NULL, "
    "content TEXT NOT NULL, result TEXT NOT NULL, curve TEXT, kept TEXT NOT NULL, "
    "seconds REAL NOT NULL, finished TEXT NOT NULL, made_by TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE optima (key TEXT PRIMARY KEY, content TEXT NOT NULL, lower REAL NOT NULL, "
    "upper REAL NOT NULL, result TEXT NOT NULL, seconds REAL NOT NULL, finished TEXT NOT NULL, "
    "made_by TEXT NOT NULL) WITHOUT ROWID",
)


def test_a_database_without_digests_gets_them_when_it_is_next_written(tmp_path):
    """Version 1 had the same columns, no digests and no totals."""
    with sqlite3.connect(tmp_path / "study.db") as db:
        for statement in OLD_SCHEMA:
            db.execute(statement)
        values = (key(0), f"a-{key(0)}", "done", "{}", '{"regret":1.5}', None, "[]", 1.0, "x", "{}")
        db.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
        db.execute(f"PRAGMA application_id={APPLICATION_ID}")
        db.execute("PRAGMA user_version=1")
    db.close()
    with pytest.raises(ModelError, match="`latentmdp study run` adds them"):
        Store(tmp_path)
    with Store(tmp_path, write=True) as store:
        assert store.damage() == []
        assert store.run(key(0)).result == {"regret": 1.5}
    with Store(tmp_path) as store:
        assert store.run(key(0)).seconds == 1.0


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("x", 2**63, "below 2^63; x is not"), ("x", -(2**63), "below 2^63"),
        ("x", "\ud800", "lone surrogate"), ("x", "a" * 20_000, "at most 10000 characters"),
        ("x", [1], "numbers or text; x is a list"), ("regret", "much", "must be a number"),
        ("updates", True, "must be a number"),
    ],
)  # fmt: skip
def test_results_that_a_table_cannot_hold_are_refused(name, value, words):
    with pytest.raises(ModelError, match=words.replace("^", r"\^")):
        check_result(name, value)


def test_results_that_a_table_can_hold_are_not():
    for value in (2**63 - 1, -(2**63) + 1, "é", "", None, True, 1.5, float("nan")):
        check_result("x", value)
    check_result("regret", None)


HOSTILE = '''
def go(way, seed, stream):
    return [{"regret": "x"}, {"a": "\\ud800"}, {"a": 2**70}, {"way": 7}, {"\\ud800": 1},
            {"regret": 1.0, "algorithm": "a"}][way]
'''  # fmt: skip
STUDY = """
[[tasks]]
function = "hostile.py:go"
sweep = { way = [0, 1, 2, 3, 4, 5] }
"""


def test_hostile_results_fail_alone_and_damage_is_told_everywhere(tmp_path, capsys):
    (tmp_path / "hostile.py").write_text(HOSTILE)
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    study = lm.Study.load(path).run(jobs=1)
    status = study.status()
    assert (status["done"], status["failed"], status["damaged"]) == (1, 5, [])
    assert "must not change its argument 'way'" in status["failures"][3]["error"]
    assert study.table()["regret"].tolist() == [1.0]

    change(study.folder / "study.db", "UPDATE runs SET result = '{}' WHERE state = 'done'")
    with pytest.warns(DamagedStudyWarning, match="its digest does not match"):
        assert len(study.table()) == 0
    assert cli.run(["study", "status", str(path)]) == 0
    said = capsys.readouterr().out
    assert "damaged: " in said
    assert "--retry repeats them" in said
    assert cli.run(["study", "status", str(path), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["damaged"]) == 1
    study.run(jobs=1)  # it is not run again without being asked
    assert len(study.status()["damaged"]) == 1
    study.run(jobs=1, retry=True)
    assert study.status()["damaged"] == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert study.table()["regret"].tolist() == [1.0]


# ---------------------------------------------------------------------- what is written can be read


@pytest.mark.parametrize("lower", [-0.0, 0.0, -1.5, 1e300, 5e-324, 0.1])
def test_every_bracket_that_is_written_can_be_read(tmp_path, lower):
    """SQLite keeps no negative zero."""
    with Store(tmp_path, write=True) as made:
        made.put_optimum("o" * 16, {}, outcome(lower=lower, upper=max(lower, 0.0)))
        assert made.optimum("o" * 16) == (lower, max(lower, 0.0), 0.5)
        assert made.damage() == []


@pytest.mark.parametrize("words", ["x" * 30_000, "\ud800 is alone", "a\0b", "\udcff" * 30_000, ""])
def test_a_failure_can_be_read_whatever_it_says(tmp_path, words):
    with Store(tmp_path, write=True) as made:
        made.put_run(key(0), f"r-{key(0)}", {}, outcome(error=words) | {"state": "failed"})
        assert made.damage() == []
        said = made.run(key(0)).result["error"]
        assert len(said) == min(len(words), 10_000)
        assert said == words or "?" in said or len(words) > 10_000


@pytest.mark.parametrize("change_it", [
    "rows = 'x'", "rows = 9223372036854775807", "rows = -1", "rows = NULL", "digests = 7.5",
    "digests = 'no'", "digests = x'ff'", "name = 'other'",
])  # fmt: skip
def test_damaged_totals_are_named_and_never_stop_a_study(store, change_it):
    with contextlib.suppress(sqlite3.IntegrityError):
        change(store.path, f"UPDATE totals SET {change_it} WHERE name = 'runs'")
        store.put_run(key(3), f"run-3-{key(3)}", {"i": 3}, outcome(regret=4.0))
        assert store.run(key(3)).result == {"regret": 4.0}
        assert [one.what for one in store.damage()] == ["table runs"]
        store.set_damage_aside()
        assert store.damage() == []
        assert [store.run(key(i)).result["regret"] for i in range(4)] == [1.0, 2.0, 3.0, 4.0]


def test_a_damaged_row_beside_a_good_one_of_the_same_bytes_goes_alone(store):
    """A key that is bytes and one that is text are two keys."""
    columns = "id, state, content, result, curve, kept, seconds, finished, made_by, digest"
    change(
        store.path, f"INSERT INTO runs SELECT CAST(key AS BLOB), {columns} FROM runs WHERE key = ?",
        (key(1),),
    )  # fmt: skip
    assert len(store.damage()) == 2  # the row, and the number of rows
    store.set_damage_aside()
    assert store.damage() == []
    assert store.run(key(1)).result == {"regret": 2.0}


def test_names_of_damage_are_short(store):
    change(store.path, "UPDATE runs SET id = ? WHERE key = ?", ("x" * 10**6, key(1)))
    assert len(store.damage()[0].what) <= 100


def test_results_without_numbers_have_no_units_to_be_changed():
    """A damaged row of a normalised model, or one of an earlier version, may lack some."""
    twice = Conversion(2.0, 1.0)
    assert in_user_units({"regret": 1.0, "final_value": None}, twice) == {
        "regret": 2.0, "final_value": None
    }  # fmt: skip
