"""What is kept of a study: one SQLite database, one transaction for each finished run.

A row that `put_run` has returned from is on disk (`synchronous=FULL`), whatever happens next. The
driver alone writes; with SQLite's write-ahead log readers see whole transactions and never block
it. The database must lie on a disk of the driver's machine, or one whose locks work.
"""

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from latentmdp.errors import ModelError
from latentmdp.experiments.run_spec import Plain
from latentmdp.formats.files import reason, refusal, sync_folder

FILE = "study.db"
SCHEMA_VERSION = 1
APPLICATION_ID = 0x4C4D4450  # "LMDP": tells our files from others
BUSY_SECONDS = 30.0

_SCHEMA = (
    """CREATE TABLE runs (
    key TEXT PRIMARY KEY,        -- hash of the content
    id TEXT NOT NULL,            -- readable, as when it was first over; its files' folder
    state TEXT NOT NULL,         -- done or failed
    content TEXT NOT NULL,       -- JSON: what was run
    result TEXT NOT NULL,        -- JSON: numbers by name; the words of a failure
    curve TEXT,                  -- JSON: [episodes, regret], two lists
    kept TEXT NOT NULL,          -- JSON: what lies in the run's folder
    seconds REAL NOT NULL,
    finished TEXT NOT NULL,      -- time, UTC
    made_by TEXT NOT NULL        -- JSON: versions and machine
) WITHOUT ROWID""",
    """CREATE TABLE optima (
    key TEXT PRIMARY KEY, content TEXT NOT NULL, lower REAL NOT NULL, upper REAL NOT NULL,
    result TEXT NOT NULL, seconds REAL NOT NULL, finished TEXT NOT NULL, made_by TEXT NOT NULL
) WITHOUT ROWID""",
)


class TroubleError(Exception):
    """Files cannot be written: no fault of the run, which is to be done again."""


class Row(NamedTuple):
    """A run that is over."""

    key: str
    id: str
    state: str
    result: Plain
    curve: list[list[float]] | None
    kept: list[str]
    seconds: float
    finished: str
    made_by: Plain


class Optimum(NamedTuple):
    """The bracket of a class's optimum, and what planning it took."""

    lower: float
    upper: float
    seconds: float


class Store:
    """An open database; use it as a context."""

    def __init__(self, folder: Path, write: bool = False) -> None:
        self.path = folder / FILE
        if not write and not self.path.exists():
            raise ModelError(f"{folder} must hold a study that was begun; it has no {FILE}")
        self._db = self._connected(write)

    def _connected(self, write: bool) -> sqlite3.Connection:
        with self._refusing():
            if write and not self.path.exists():
                self._create()
            mode = "rw" if write else "ro"
            if not write and not os.access(self.path.parent, os.W_OK):
                mode = "ro&immutable=1"  # nobody can write there, and no log can be made
            db = _connect(self.path, mode)
            try:
                self._check_schema(db)
                if write:
                    db.execute("PRAGMA synchronous=FULL")
            except BaseException:
                db.close()
                raise
            return db

    def _create(self) -> None:
        """Made under another name: at every moment there is a whole database or none."""
        new = self.path.with_suffix(".new")
        for leftover in self.path.parent.glob(f"{new.name}*"):
            leftover.unlink()
        with closing(_connect(new, "rwc")) as db:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=FULL")
            for statement in _SCHEMA:
                db.execute(statement)
            db.execute(f"PRAGMA application_id={APPLICATION_ID}")
            db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        os.replace(new, self.path)
        sync_folder(self.path.parent)

    def _check_schema(self, db: sqlite3.Connection) -> None:
        version = db.execute("PRAGMA user_version").fetchone()[0]
        application = db.execute("PRAGMA application_id").fetchone()[0]
        if application != APPLICATION_ID:
            raise refusal(self.path, "must be the database of a study; it is another one")
        if version != SCHEMA_VERSION:
            raise refusal(
                self.path,
                f"must have version {SCHEMA_VERSION} of the tables; it has {version}, of "
                f"{'a later' if version > SCHEMA_VERSION else 'an earlier'} latentmdp: read it "
                "with that, or choose another folder",
            )

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """Errors of the database as one sentence; what was acknowledged before is safe."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            text = reason(error)
            if "full" in text or "disk I/O" in text:
                text += "; all finished runs are kept: make space and start it again"
            raise refusal(self.path, text) from None

    # ------------------------------------------------------------------ writing

    def put_run(self, key: str, id: str, content: Plain, outcome: Plain) -> None:
        """Keep a finished run: on disk when this returns.

        A run that is done again keeps the id it had, which names the folder of its files.
        """
        curve = outcome.get("curve")
        self._put(
            "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE "
            "SET state = excluded.state, result = excluded.result, curve = excluded.curve, "
            "kept = excluded.kept, seconds = excluded.seconds, finished = excluded.finished, "
            "made_by = excluded.made_by",
            (
                key, id, outcome["state"], _text(content), _text(outcome["result"]),
                None if curve is None else _text(curve), _text(outcome.get("kept", [])),
                outcome["seconds"], outcome["finished"], _text(outcome["made_by"]),
            ),
        )  # fmt: skip

    def put_optimum(self, key: str, content: Plain, outcome: Plain) -> None:
        """Keep a planned optimum."""
        result = outcome["result"]
        self._put(
            "INSERT OR REPLACE INTO optima VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                key, _text(content), result["lower"], result["upper"], _text(result),
                outcome["seconds"], outcome["finished"], _text(outcome["made_by"]),
            ),
        )  # fmt: skip

    def _put(self, statement: str, values: tuple[Any, ...]) -> None:
        with self._refusing():
            self._db.execute(statement, values)  # a transaction of its own

    # ------------------------------------------------------------------ reading

    def state(self, key: str) -> tuple[str, list[str]] | None:
        """`done` or `failed`, and what was kept; None for a run that is not over."""
        with self._refusing():
            row = self._db.execute("SELECT state, kept FROM runs WHERE key = ?", (key,)).fetchone()
        return None if row is None else (row[0], json.loads(row[1]))

    def run(self, key: str, curve: bool = False) -> Row | None:
        """A run that is over, with its curve only if asked."""
        column = "curve" if curve else "NULL"
        with self._refusing():
            row = self._db.execute(
                f"SELECT key, id, state, result, {column}, kept, seconds, finished, made_by "
                "FROM runs WHERE key = ?",
                (key,),
            ).fetchone()
        if row is None:
            return None
        points = None if row[4] is None else json.loads(row[4])
        return Row(
            row[0], row[1], row[2], json.loads(row[3]), points, json.loads(row[5]), row[6], row[7],
            json.loads(row[8]),
        )  # fmt: skip

    def optimum(self, key: str) -> Optimum | None:
        """The bracket, if it was planned."""
        with self._refusing():
            row = self._db.execute(
                "SELECT lower, upper, seconds FROM optima WHERE key = ?", (key,)
            ).fetchone()
        return None if row is None else Optimum(*row)

    def kept_runs(self) -> list[str]:
        """Folders of finished runs that were kept whole, by name."""
        with self._refusing():
            rows = self._db.execute("SELECT id, kept FROM runs WHERE state = 'done' ORDER BY id")
            return [id for id, kept in rows if "runs" in json.loads(kept)]

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Everything read inside is of one moment."""
        with self._refusing():
            self._db.execute("BEGIN")
            try:
                yield
            finally:
                self._db.execute("COMMIT")


def policy_file(folder: Path, key: str) -> Path:
    """Where an optimum's policy lies."""
    return folder / "optima" / f"{key}.npz"


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    name = quote(os.fspath(path.absolute()))
    return sqlite3.connect(
        f"file:{name}?mode={mode}", uri=True, timeout=BUSY_SECONDS, isolation_level=None
    )


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
