"""Logs as people have them: whatever is wrong with a file is one sentence that names it."""

import bz2
import gzip
import lzma
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from fuzz_logs import compressed, log_table
from test_fitting_counts import same_bits

import latentmdp as lm
from latentmdp.commands.cli import run
from latentmdp.fitting.reading import streams

PACKED = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}
HEADER = "episode,context,state,action,reward\n"


def refusal(path, **options):
    """The sentence with which a file is refused: short, in one line, and with its name."""
    with pytest.raises(lm.ModelError) as caught:
        lm.fit(path, **options)
    text = str(caught.value)
    assert path.name in text
    assert len(text) - len(str(path.parent)) < 600
    assert "\n" not in text
    return text


def long_table():
    table = log_table()
    parts = [table.assign(episode=table["episode"] + 10 * i) for i in range(60)]
    return pd.concat(parts, ignore_index=True)


@pytest.mark.parametrize("ending", [*PACKED, "zip", "zst", "none"])
def test_all_compressions_are_read_and_their_damages_refused(tmp_path, ending, capsys):
    if ending == "zst":
        pytest.importorskip("pyarrow")
    table = long_table()
    path = tmp_path / ("log.csv" if ending == "none" else f"log.csv.{ending}")
    raw = table.to_csv(index=False).encode()
    packed = compressed(ending, raw)
    path.write_bytes(packed)
    for rows in (50, 10**6):
        same_bits(lm.fit(table), lm.fit(path, chunk_rows=rows))
    if ending == "none":
        return
    for size in (len(packed) // 3, len(packed) - 3):
        path.write_bytes(packed[:size])
        assert "cannot be read" in refusal(path)
        assert run(["fit", str(path)]) == 2
        assert "interrupted" not in capsys.readouterr().err
    for i in np.linspace(60, len(packed) - 9, 25).astype(int):
        path.write_bytes(packed[:i] + bytes([packed[i] ^ 255]) + packed[i + 1 :])
        if ending == "zip" and i > len(packed) - 120:
            continue  # the list of its contents, of which dates are part
        refusal(path)


def test_an_archive_must_hold_one_log(tmp_path):
    import zipfile

    path = tmp_path / "log.csv.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.csv", HEADER)
        archive.writestr("b.csv", HEADER)
    assert "must have one file, the log; it has 2" in refusal(path)
    (tmp_path / "log.csv.rar").write_bytes(b"x")
    assert "must end in .csv (also .csv.gz" in refusal(tmp_path / "log.csv.rar")


BOMBS = {
    "one line": b"," * 60_000_000,
    "a long row": HEADER.encode() + b"," * 60_000_000,
    "a long cell": HEADER.encode() + b"1,A,s" + b"s" * 60_000_000 + b",x,1\n",
    "many columns": b"a," * 40_000 + b"\n1\n",
}


@pytest.mark.parametrize("name", BOMBS)
def test_what_unpacks_to_far_too_much_is_refused_at_once(tmp_path, name):
    """In a process of its own, whose largest memory is then measured."""
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(BOMBS[name]))
    assert path.stat().st_size < 200_000
    code = (
        "import sys, resource, latentmdp as lm, latentmdp.fitting\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try: lm.fit(sys.argv[1])\n"
        "except lm.ModelError as error: print(error)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    said, grown = done.stdout.splitlines()
    assert "bomb.csv.gz" in said
    assert (
        "lines must be shorter" in said or "at most 10,000 columns" in said or "first line" in said
    )
    assert int(grown) < 250_000  # kB


def test_a_chunk_has_fewer_rows_where_they_are_wide(tmp_path, monkeypatch):
    """The same answer, with a bounded number of bytes at once."""
    monkeypatch.setattr(streams, "memory_budget", lambda: 2**27)
    assert streams.chunk_bytes() == 2**22
    table = long_table().assign(note="n" * 5000)
    path = tmp_path / "log.csv"
    table.to_csv(path, index=False)
    sizes = []
    read = pd.io.parsers.TextFileReader.read

    def noted(self, nrows=None):
        sizes.append(nrows)
        return read(self, nrows)

    monkeypatch.setattr(pd.io.parsers.TextFileReader, "read", noted)
    same_bits(lm.fit(table), lm.fit(path))
    assert 100 < max(n for n in sizes if n is not None) < 1000
    monkeypatch.setattr(streams, "SLACK", 0)
    path.write_text(HEADER + "1,A,s,x,1\n" * 200_000 + ("1,A,s,x," + "1" * 10_000 + "\n") * 2000)
    assert "too large for this machine's memory" in refusal(path)


@pytest.mark.parametrize("way", ["index", "two levels", "frame", "dask"])
def test_an_index_with_a_name_is_a_column(tmp_path, way):
    table = long_table()
    names = ["episode", "step"] if way == "two levels" else "episode"
    indexed, path = table.set_index(names), tmp_path / "log.parquet"
    if way == "dask":
        dd = pytest.importorskip("dask.dataframe")
        same_bits(lm.fit(table), lm.fit(dd.from_pandas(indexed, npartitions=3, sort=False)))
    elif way == "frame":
        same_bits(lm.fit(table), lm.fit(indexed))
    else:
        pytest.importorskip("pyarrow")
        indexed.to_parquet(path)
        for rows in (60, 10**6):
            same_bits(lm.fit(table), lm.fit(path, chunk_rows=rows))


def test_long_ids_beside_a_missing_cell_stay_apart_in_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    ids = pd.array([2**53, 2**53 + 1, None], dtype="Int64")
    table = pd.DataFrame({"episode": ids, "context": "m", "state": "s", "action": "a", "reward": 1})
    table.to_parquet(tmp_path / "log.parquet")
    assert lm.fit(tmp_path / "log.parquet", on_bad="skip").episodes == 2


def test_what_parquet_says_of_single_columns_may_be_damaged(tmp_path):
    """pyarrow ends the process where Python asks for it; reading the column raises an error."""
    pytest.importorskip("pyarrow")
    path = tmp_path / "log.parquet"
    log_table().to_parquet(path)
    raw = path.read_bytes()
    footer = len(raw) - 8 - int.from_bytes(raw[-8:-4], "little")
    # histograms of levels: none of repetitions and two numbers of definitions, now the reverse
    damaged, times = re.subn(b"\x06\x19\x26(..)", b"\x26\\1\x19\x06", raw[footer:], flags=re.S)
    assert times
    path.write_bytes(raw[:footer] + damaged)
    code = (
        f"import latentmdp as lm\ntry: lm.fit({str(path)!r})\nexcept lm.ModelError as e: print(e)"
    )
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr[-300:]
    assert "log.parquet" in done.stdout


@pytest.mark.parametrize("cell", [[1, 2], {"a": 1}, [], (1,)])
@pytest.mark.parametrize("column", ["episode", "state", "reward", "context", "step"])
def test_cells_with_several_values_are_refused(tmp_path, cell, column):
    pytest.importorskip("pyarrow")
    table = log_table().astype({column: object})
    table.at[3, column] = cell
    with pytest.raises(lm.ModelError, match=rf"each cell of '{column}' must hold one value; .* in "
                                            r"row 4 of the log"):  # fmt: skip
        lm.fit(table)
    table[column] = [cell] * len(table)
    table.to_parquet(tmp_path / "log.parquet")
    assert f"each cell of '{column}' must hold one value; its type is" in refusal(
        tmp_path / "log.parquet"
    )


CELLS = {  # column: (cell, words)
    "reward": ("9" * 400, "'reward' must be a finite number below 10^12"),
    "step": ("9" * 400, "'step' must hold numbers or dates"),
    "terminated": ("q" * 100_000, "'terminated' must hold true or false"),
    "state": ("q" * 100_000, "names in a log must have at most 1,000 characters"),
}


@pytest.mark.parametrize("column", CELLS)
def test_cells_that_are_too_long_are_quoted_in_part(tmp_path, column):
    cell, words = CELLS[column]
    table = log_table().astype({column: object})
    table.loc[2, column] = cell
    path = tmp_path / "log.csv"
    table.to_csv(path, index=False)
    assert words in refusal(path)
    with pytest.raises(lm.ModelError) as caught:
        lm.fit(table)
    assert len(str(caught.value)) < 600


def test_headers_and_many_kinds_of_doubts_make_short_messages(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("a" * 100_000 + ",b\n1,2\n")
    assert "must have a column 'episode'" in refusal(path)
    table = log_table().astype(object)
    for i, name in enumerate(("step", "state", "action", "reward", "context", "terminated")):
        table.loc[3 + i, name] = {"reward": "x", "context": "Z"}.get(name)
    table.loc[12, "step"] = 77
    table.to_csv(path, index=False)
    assert "more kinds of doubts" in refusal(path)
    path.write_text(HEADER)
    assert "none was left" in refusal(path)
    path.write_bytes(b"\xff\xfe" + HEADER.encode("utf-16-le"))
    assert "cannot be read" in refusal(path)


def test_one_endless_episode_may_not_take_all_memory(tmp_path, monkeypatch):
    from latentmdp.fitting.reading import reader

    monkeypatch.setattr(reader, "memory_budget", lambda: 1000 * reader.ROW_BYTES)
    path = tmp_path / "log.csv"
    path.write_text(HEADER + "1,A,s,x,1\n" * 1000)
    assert lm.fit(path, chunk_rows=100).model.H == 1000
    path.write_text(HEADER + "1,A,s,x,1\n" * 1101)
    assert "rows of one episode must fit into memory" in refusal(path, chunk_rows=100)


# ---------------------------------------------------------------------- Excel


@pytest.fixture
def workbook(tmp_path):
    pytest.importorskip("openpyxl")
    return tmp_path / "log.xlsx"


def test_workbooks_are_read(workbook):
    table = long_table()
    table.to_excel(workbook, index=False, startrow=2)
    for rows in (40, 10**6):
        same_bits(lm.fit(table), lm.fit(workbook, chunk_rows=rows))
    dated = table.assign(step=pd.Timestamp("2024-01-01") + pd.to_timedelta(table["step"], unit="D"))
    dated = dated.iloc[::-1]
    dated["note"] = "=1/0"
    dated.to_excel(workbook, index=False)
    same_bits(lm.fit(table), lm.fit(workbook))
    hole = table.astype({"state": object})
    hole.loc[1, "state"] = None
    hole.to_excel(workbook, index=False)
    assert "'state' must not be missing; it is in 1 row, first in row 2" in refusal(workbook)
    assert lm.fit(workbook, on_bad="cut").cut_episodes + lm.fit(
        workbook, on_bad="cut").left_out_episodes == 1  # fmt: skip


def test_workbooks_that_unpack_to_too_much_are_refused(workbook, monkeypatch):
    from latentmdp.fitting.reading import xlsx_log

    log_table().to_excel(workbook, index=False)
    monkeypatch.setattr(xlsx_log, "memory_budget", lambda: 10**5)
    assert "too much for this machine's memory" in refusal(workbook)


def test_workbooks_without_a_table_and_without_openpyxl_are_refused(workbook, monkeypatch):
    pd.DataFrame().to_excel(workbook, index=False)
    assert "it is empty" in refusal(workbook)
    workbook.write_bytes(b"no workbook")
    assert "cannot be read" in refusal(workbook)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    assert "Excel files need openpyxl: pip install 'latentmdp[logs]'" in refusal(workbook)
