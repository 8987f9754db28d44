"""The results of a study: one SQLite database, one transaction for each finished run.

A row that `put_run` has returned from is on disk (`synchronous=FULL`), whatever happens next. The
driver alone writes; with SQLite's write-ahead log readers see whole transactions and never block
it. The database must lie on a disk of the driver's machine, or one whose locks work.

The file is not trusted: each row has a digest and is checked when it is read (`stored_rows.py`),
and the table `totals` holds the number of rows and the combination of their digests, so that a
missing row is noticed too.
"""

import json
import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from latentmdp.errors import ModelError
from latentmdp.experiments.stored_rows import (
    DIGEST_LENGTH,
    LARGEST_WHOLE,
    DamagedRowError,
    Optimum,
    Row,
    check_digest,
    checked_optimum,
    checked_run,
    failure_words,
    row_digest,
)
from latentmdp.experiments.study_run import Plain
from latentmdp.runtime.files import reason, refusal, shown, sync_folder

FILE = "study.db"
TABLES = ("runs", "optima")
SCHEMA_VERSION = 2  # 1 had no digests
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
    made_by TEXT NOT NULL,       -- JSON: versions and machine
    digest TEXT NOT NULL         -- of all other columns
) WITHOUT ROWID""",
    """CREATE TABLE optima (
    key TEXT PRIMARY KEY, content TEXT NOT NULL, lower REAL NOT NULL, upper REAL NOT NULL,
    result TEXT NOT NULL, seconds REAL NOT NULL, finished TEXT NOT NULL, made_by TEXT NOT NULL,
    digest TEXT NOT NULL
) WITHOUT ROWID""",
    # by table: how many rows it has, and their digests combined by exclusive or
    "CREATE TABLE totals (name TEXT PRIMARY KEY, rows INTEGER NOT NULL, digests TEXT NOT NULL)",
    f"INSERT INTO totals VALUES ('runs', 0, '{'0' * DIGEST_LENGTH}'), "
    f"('optima', 0, '{'0' * DIGEST_LENGTH}')",
)


class TroubleError(Exception):
    """Files cannot be written: the run itself is not at fault, and is to be repeated."""


class Damage(NamedTuple):
    """A part of the database that is not as it was written."""

    what: str  # a run's id, or what else it is
    reason: str


class Store:
    """An open database; use it as a context."""

    def __init__(self, folder: Path, write: bool = False) -> None:
        self.path = folder / FILE
        if not write and not self.path.exists():
            raise ModelError(f"{folder} must hold a study that was started; it has no {FILE}")
        self._db = self._connected(write)

    def _connected(self, write: bool) -> sqlite3.Connection:
        with self._refusing():
            if write and not self.path.exists():
                self._create()
            mode = "rw" if write else "ro"
            if not write and not os.access(self.path.parent, os.W_OK):
                mode = self._mode_without_writing()
            db = _connect(self.path, mode)
            db.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
            try:
                self._check_schema(db, write)
                if write:
                    db.execute("PRAGMA journal_mode=WAL")
                    db.execute("PRAGMA synchronous=FULL")
            except BaseException:
                db.close()
                raise
            return db

    def _mode_without_writing(self) -> str:
        """The mode for reading where we cannot create the files of a log."""
        log, index = (self.path.with_name(FILE + ending) for ending in ("-wal", "-shm"))
        if log.exists() and index.exists():  # of a driver, perhaps at work
            return "ro"
        if log.exists() and log.stat().st_size:
            raise refusal(
                self.path, f"must be in a folder that you can write, as {log.name} holds a part of "
                "its contents; copy the folder"
            )  # fmt: skip
        return "ro&immutable=1"

    def _create(self) -> None:
        """Create it under another name, so that there is always a whole database or none."""
        os.replace(self._new_database(), self.path)
        sync_folder(self.path.parent)

    def _new_database(self, source: sqlite3.Connection | None = None) -> Path:
        """A database beside the real one, with all rows of `source` that are whole."""
        new = self.path.with_suffix(".new")
        for leftover in self.path.parent.glob(f"{new.name}*"):
            leftover.unlink()
        with closing(_connect(new, "rwc")) as db:
            # without a log of its own, whose part of the contents could be lost when it is closed
            db.execute("PRAGMA journal_mode=DELETE")
            db.execute("PRAGMA synchronous=FULL")
            db.execute("BEGIN")
            for statement in _SCHEMA:
                db.execute(statement)
            for table in TABLES if source is not None else ():
                assert source is not None
                for values in source.execute(f"SELECT * FROM {table}"):
                    if self._reason(table, values) is None:
                        marks = ", ".join("?" * len(values))
                        db.execute(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", values)
                digests = [row[0] for row in db.execute(f"SELECT digest FROM {table}")]
                db.execute(
                    "UPDATE totals SET rows = ?, digests = ? WHERE name = ?",
                    (len(digests), _combined(digests), table),
                )
            db.execute(f"PRAGMA application_id={APPLICATION_ID}")
            db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
            db.execute("COMMIT")
        return new

    def _check_schema(self, db: sqlite3.Connection, write: bool) -> None:
        version = db.execute("PRAGMA user_version").fetchone()[0]
        application = db.execute("PRAGMA application_id").fetchone()[0]
        if application != APPLICATION_ID:
            raise refusal(self.path, "must be the database of a study; it is another one")
        if version == 1 and write:
            _add_digests(db)
        elif version == 1:
            raise refusal(
                self.path, "must have digests of its rows, which an earlier latentmdp did not "
                "write; `latentmdp study run` adds them"
            )  # fmt: skip
        elif version != SCHEMA_VERSION:
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
        """Close the file."""
        self._db.close()

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """Errors of the database as one sentence; what was stored before is safe."""
        try:
            yield
        except UnicodeDecodeError:  # in a message of SQLite, which quotes the file
            raise refusal(self.path, "must be a whole database; it is damaged") from None
        except (sqlite3.Error, OSError) as error:
            text = reason(error)
            if "full" in text or "disk I/O" in text:
                text += "; all finished runs are kept: free some space and start again"
            raise refusal(self.path, text) from None

    # ------------------------------------------------------------------ writing

    def put_run(self, key: str, id: str, content: Plain, outcome: Plain) -> None:
        """Store a finished run: it is on disk when this returns.

        A repeated run keeps its first id, which names the folder of its files.
        """
        before, curve, result = self.run(key), outcome.get("curve"), outcome["result"]
        if outcome["state"] == "failed":
            result = {"error": failure_words(result["error"])}
        self._put(
            "runs",
            (
                key, id if before is None else before.id, outcome["state"], _text(content),
                _text(result), None if curve is None else _text(curve),
                _text(outcome.get("kept", [])), float(outcome["seconds"]), outcome["finished"],
                _text(outcome["made_by"]),
            ),
        )  # fmt: skip

    def put_optimum(self, key: str, content: Plain, outcome: Plain) -> None:
        """Store a planned optimum."""
        result = outcome["result"]
        self._put(
            "optima",
            (
                key, _text(content), float(result["lower"]), float(result["upper"]), _text(result),
                float(outcome["seconds"]), outcome["finished"], _text(outcome["made_by"]),
            ),
        )  # fmt: skip

    def set_damage_aside(self) -> list[Damage]:
        """Continue in a new database with all whole rows; the damaged file is kept beside it.

        Nothing is repaired in place: space that SQLite frees there may belong to other rows.
        """
        found = self.damage()
        if not found:
            return []
        with self._refusing():
            new = self._new_database(self._db)
            (is_read, *_) = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if is_read:  # its log cannot be emptied, and would be taken for the new file's
                raise refusal(
                    self.path, "is damaged and being read: try again when no process reads it"
                )
            self._db.close()
            number = 1
            while (aside := self.path.with_name(f"study-damaged-{number}.db")).exists():
                number += 1
            shutil.copyfile(self.path, aside)
            for ending in ("-wal", "-shm"):  # of the damaged file, and empty
                self.path.with_name(FILE + ending).unlink(missing_ok=True)
            os.replace(new, self.path)
            sync_folder(self.path.parent)
        self._db = self._connected(True)
        return found

    def _put(self, table: str, values: tuple[Any, ...]) -> None:
        """Write a row with its digest, and the table's totals, in one transaction."""
        digest = row_digest(values)
        marks = ", ".join("?" * (len(values) + 1))
        with self._refusing(), self._transaction():
            before = self._db.execute(
                f"SELECT digest FROM {table} WHERE key = ?", (values[0],)
            ).fetchone()
            self._db.execute(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", (*values, digest))
            self._count(table, digest, None if before is None else before[0])

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:  # SQLite has ended it itself where the disk is full
                self._db.execute("ROLLBACK")
            raise

    def _count(self, table: str, digest: str, before: str | None) -> None:
        """Add a row to the totals of its table, and take out the one that it replaces."""
        rows, digests = self._totals(table)
        combined = _combined([digests, digest, *([] if before is None else [before])])
        self._db.execute(
            "UPDATE totals SET rows = ?, digests = ? WHERE name = ?",
            (rows + (before is None), combined, table),
        )

    # ------------------------------------------------------------------ reading

    def state(self, key: str) -> tuple[str, list[str]] | None:
        """`done`, `failed` or `damaged`, and what was kept; None for a run that is not over."""
        with self._refusing():
            values = self._values("runs", key)
        if values is None:
            return None
        try:
            row = self._checked_run(values)
        except DamagedRowError:
            return "damaged", []
        return row.state, row.kept

    def run(self, key: str) -> Row | None:
        """A run that is over; None also for one whose row is damaged."""
        with self._refusing():
            values = self._values("runs", key)
        with suppress(DamagedRowError):
            return None if values is None else self._checked_run(values)
        return None

    def optimum(self, key: str) -> Optimum | None:
        """The bracket, if it was planned and its row is not damaged."""
        with self._refusing():
            values = self._values("optima", key)
        with suppress(DamagedRowError):
            return None if values is None else self._checked_optimum(values)
        return None

    def kept_runs(self) -> list[str]:
        """Folders of finished runs that were kept whole, by name."""
        found = []
        with self._refusing():
            for values in self._db.execute("SELECT * FROM runs ORDER BY id"):
                with suppress(DamagedRowError):
                    row = self._checked_run(values)
                    if row.state == "done" and "runs" in row.kept:
                        found.append(row.id)
        return found

    def damage(self) -> list[Damage]:
        """All damage: rows, and totals that do not match the rows."""
        found = []
        with self._refusing():
            for table in TABLES:
                digests = []
                for values in self._db.execute(f"SELECT * FROM {table}"):
                    digests.append(values[-1])
                    wrong = self._reason(table, values)
                    if wrong is not None:
                        name = str(values[1]) if table == "runs" else f"optimum {values[0]}"
                        found.append(Damage(shown(f"{name:.100}"), wrong))
                if self._totals(table) != (len(digests), _combined(digests)):
                    found.append(Damage(
                        f"table {table}",
                        f"its {len(digests)} rows must be those that were written, and no fewer",
                    ))  # fmt: skip
        return found

    def _reason(self, table: str, values: tuple[Any, ...]) -> str | None:
        """What is wrong with a row; None for a good one."""
        try:
            (self._checked_run if table == "runs" else self._checked_optimum)(values)
        except DamagedRowError as error:
            return str(error)
        return None

    def _values(self, table: str, key: str) -> tuple[Any, ...] | None:
        return self._db.execute(f"SELECT * FROM {table} WHERE key = ?", (key,)).fetchone()

    def _checked_run(self, values: tuple[Any, ...]) -> Row:
        check_digest(values[:-1], values[-1])
        return checked_run(values[:-1])

    def _checked_optimum(self, values: tuple[Any, ...]) -> Optimum:
        check_digest(values[:-1], values[-1])
        return checked_optimum(values[:-1])

    def _totals(self, table: str) -> tuple[int, str]:
        """What the table's row of `totals` says; nothing where it is damaged."""
        found = self._db.execute(
            "SELECT rows, digests FROM totals WHERE name = ?", (table,)
        ).fetchone()
        match found:
            case (int(rows), str(digests)) if 0 <= rows < LARGEST_WHOLE:
                return rows, digests
        return 0, ""

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Everything read inside is from one moment."""
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


def _combined(digests: Iterable[Any]) -> str:
    """Digests combined by exclusive or: the order does not matter."""
    total = 0
    for digest in digests:
        with suppress(TypeError, ValueError):  # a damaged one is missed in the total
            total ^= int(digest, 16)
    return f"{total:0{DIGEST_LENGTH}x}"


def _add_digests(db: sqlite3.Connection) -> None:
    """Bring a database of version 1 up to date: its rows are taken as they are."""
    db.execute("BEGIN IMMEDIATE")
    for statement in _SCHEMA[2:]:
        db.execute(statement)
    for table in TABLES:
        rows = db.execute(f"SELECT * FROM {table}").fetchall()
        db.execute(f"ALTER TABLE {table} ADD COLUMN digest TEXT NOT NULL DEFAULT ''")
        digests = [row_digest(values) for values in rows]
        db.executemany(
            f"UPDATE {table} SET digest = ? WHERE key = ?",
            [
                (digest, values[0]) for digest, values in zip(digests, rows, strict=True)
                if str(values[0]).isascii()  # keys are; others are damaged, and have no digest
            ],
        )  # fmt: skip
        db.execute(
            "UPDATE totals SET rows = ?, digests = ? WHERE name = ?",
            (len(rows), _combined(digests), table),
        )
    db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
    db.execute("COMMIT")
