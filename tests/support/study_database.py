"""Changes to a study's database as a person or a fault could make them."""

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from latentmdp.experiments.store import TABLES, _combined
from latentmdp.experiments.stored_rows import row_digest


def change(path, statement, values=()):
    """Run a statement on the database, and nothing else."""
    with closing(sqlite3.connect(path)) as db:
        db.execute(statement, values)
        db.commit()


def remake_digests(path):
    """Give all rows and tables the digests that they would have been written with."""
    with closing(sqlite3.connect(path)) as db:
        db.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
        for table in TABLES:
            digests = []
            for *values, _ in db.execute(f"SELECT * FROM {table}").fetchall():
                digests.append(row_digest(values))
                with suppress(UnicodeEncodeError):
                    where = f"UPDATE {table} SET digest = ? WHERE key = ?"
                    db.execute(where, (digests[-1], values[0]))
            change_totals = "UPDATE totals SET rows = ?, digests = ? WHERE name = ?"
            db.execute(change_totals, (len(digests), _combined(digests), table))
        db.commit()


def edited(random, raw, folder, values, digests):
    """The bytes of a database in which something was edited with SQLite itself."""
    path = Path(folder) / "edited.db"
    path.write_bytes(raw)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode=DELETE")  # all in one file
        for _ in range(1 + (random.random() < 0.2)):
            with suppress(sqlite3.Error, OverflowError, UnicodeEncodeError):
                _edit(random, db, values)
        db.commit()
    if digests:
        with suppress(sqlite3.Error):
            remake_digests(path)
    return path.read_bytes()


def _edit(random, db, values):
    tables = [*TABLES, "totals"] if random.random() < 0.1 else TABLES
    table = tables[random.integers(len(tables))]
    columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
    column = columns[random.integers(len(columns))]
    name = "name" if table == "totals" else "key"
    keys = [row[0] for row in db.execute(f"SELECT {name} FROM {table}")]
    if not keys:  # an edit before this one has emptied it
        return
    key = keys[random.integers(len(keys))]
    way = random.random()
    if way < 0.05:
        db.execute(f"DELETE FROM {table} WHERE {name} = ?", (key,))
    elif way < 0.1:
        other = keys[random.integers(len(keys))]
        db.execute(
            f"UPDATE {table} SET {column} = (SELECT {column} FROM {table} WHERE {name} = ?) "
            f"WHERE {name} = ?",
            (other, key),
        )
    elif way < 0.15:
        pragma = ("user_version", "application_id")[random.integers(2)]
        db.execute(f"PRAGMA {pragma}={int(random.integers(0, 5))}")
    else:
        found = db.execute(f"SELECT {column} FROM {table} WHERE {name} = ?", (key,)).fetchone()[0]
        db.execute(f"UPDATE {table} SET {column} = ? WHERE {name} = ?", (values(found), key))
