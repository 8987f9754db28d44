"""Log files for the fuzzer: valid ones of each kind, mutants of their contents, and their use."""

import bz2
import contextlib
import gzip
import io
import lzma
import zipfile
import zlib

import numpy as np
import pandas as pd

import latentmdp as lm

ENDINGS = ("csv", "csv.gz", "csv.bz2", "csv.xz", "csv.zip", "csv.zst", "parquet", "xlsx")
LONGEST_MESSAGE = 600


def log_table():
    """Five episodes with marks, whole steps and names of several kinds."""
    rng, rows = np.random.default_rng(0), []
    for e in range(5):
        for t in range(int(rng.integers(1, 5))):
            rows.append((e, t, "AB"[e % 2], f"é{rng.integers(3)}", int(rng.integers(2)),
                         float(rng.integers(-2, 3)) / 2, False))  # fmt: skip
        rows[-1] = (*rows[-1][:-1], bool(e % 3))
    names = ["episode", "step", "context", "state", "action", "reward", "terminated"]
    return pd.DataFrame(rows, columns=names)


def make_log(folder, name):
    table = log_table()
    if name.endswith("parquet"):
        table.set_index("episode").to_parquet(folder / name)
    elif name.endswith("xlsx"):
        table.to_excel(folder / name, index=False)
    else:
        raw = table.to_csv(index=False).encode()
        (folder / name).write_bytes(compressed(name.rpartition(".")[2], raw))


def compressed(ending, raw):
    if ending == "gz":
        return gzip.compress(raw, mtime=0)
    if ending == "bz2":
        return bz2.compress(raw)
    if ending == "xz":
        return lzma.compress(raw)
    if ending == "zst":
        import pyarrow

        return pyarrow.compress(raw, codec="zstd", asbytes=True)
    if ending == "zip":
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("log.csv", raw)
        return stream.getvalue()
    return raw


def decompressed(ending, raw):
    if ending == "zst":
        import pyarrow

        return pyarrow.input_stream(io.BytesIO(raw), compression="zstd").read()
    if ending == "zip":
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            return archive.read("log.csv")
    return {"gz": gzip.decompress, "bz2": bz2.decompress, "xz": lzma.decompress}[ending](raw)


CELLS = (None, [], [1], {"a": 1}, {}, b"x", "x" * 5000, 10**400, -(10**18), 2.5, True, "", "nan",
         np.nan, np.inf, "2020-01-01", pd.Timestamp("2020-01-01"), "true", 1 + 2j, (), "\ud800",
         np.datetime64("NaT"), 0, 7)  # fmt: skip


def crafted_parquet(random, raw):
    """Another table: with other cells, types, columns or index."""
    table = pd.read_parquet(io.BytesIO(raw)).reset_index()
    for _ in range(random.integers(1, 4)):
        with contextlib.suppress(TypeError, ValueError, OverflowError):  # as pandas says of cells
            table = _other_table(random, table)
    stream = io.BytesIO()
    try:
        table.to_parquet(stream, compression=("snappy", "zstd", "gzip", None)[random.integers(4)],
                         row_group_size=int(random.integers(1, 40)))  # fmt: skip
    except Exception:  # pyarrow refuses to write it: of mixed types, say
        return raw[: random.integers(len(raw))]
    return stream.getvalue()


def _other_table(random, table):
    names = list(table.columns)
    if not names:
        return table
    name, way = names[random.integers(len(names))], random.integers(10)
    if not table.columns.is_unique:
        return table
    if way == 0:
        return table.drop(columns=name)
    if way == 1:
        return table.set_index([name, *names[:1]][: 1 + (random.random() < 0.3)])
    if way == 2:
        return table.rename(columns={name: (name + "x", "", "a" * 5000)[random.integers(3)]})
    if way == 3:
        return table.iloc[random.permutation(len(table))[: random.integers(len(table) + 1)]]
    cell = CELLS[random.integers(len(CELLS))]
    column = table[name].astype(object).copy()
    if way <= 6:
        column.iloc[:] = [cell] * len(table)
    elif len(column):
        for i in random.integers(len(column), size=3):
            column.iat[int(i)] = cell
    if way == 4:
        kind = ("str", "category", "float32", "int8", "datetime64[ns]", "bool")[random.integers(6)]
        column = table[name].astype(kind)
    return table.assign(**{name: column}) if name else table


def other_parts(random, raw, words):
    """A workbook with one part changed by `words`, or gone."""
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    names = [name for name in parts if "sheet1" in name or "sharedStrings" in name]
    name = names[random.integers(len(names))] if random.random() < 0.7 else (
        list(parts)[random.integers(len(parts))]
    )  # fmt: skip
    if random.random() < 0.03:
        del parts[name]
    else:
        parts[name] = words(random, parts[name])
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as target:
        for part, content in parts.items():
            target.writestr(part, content)
    return stream.getvalue()


def use_log(folder, name):
    """Fit as it is, and if that is refused without doubtful rows; refusals name the file."""
    way = zlib.crc32((folder / name).read_bytes())
    careful, rows = ("skip", "cut")[way % 2], (1000, 3)[way // 2 % 2]
    try:
        found = _fitted(folder / name, "raise", rows)
    except lm.ModelError:
        found = _fitted(folder / name, careful, rows)
    assert np.allclose(found.model.P.sum(axis=3)[found.model.w > 0], 1.0)
    repr(found)
    assert all(len(sentence) < LONGEST_MESSAGE for sentence in found.said)
    if found.model.S * found.model.H < 200:
        actions = found.model.substitute[None].repeat(found.model.H, axis=0)[:, :, 0]
        str(found.summary(lm.PolicyGraph.from_table(actions)))


def _fitted(path, on_bad, rows):
    """The fit, or a refusal that is short and names the file."""
    try:
        return lm.fit(path, on_bad=on_bad, chunk_rows=rows)
    except lm.ModelError as error:
        text = str(error)
        assert len(text) - len(str(path.parent)) < LONGEST_MESSAGE, f"long message: {len(text)}"
        assert path.name in text, f"no file's name in: {text[:100]}"
        raise
