"""Mutants of valid files: damaged bytes, and crafted ones whose form is right and contents are not.

Each is a function of `(random, files)`, where `files` maps names to bytes, and of nothing else: a
mutant is found again by its kind and number.
"""

import copy
import csv
import io
import json
import re
import tempfile
import zipfile
from functools import partial
from xml.etree import ElementTree

import numpy as np
from fuzz_logs import compressed, crafted_parquet, decompressed, other_parts
from study_database import edited

from latentmdp.learning.saved.state import checksum

NUMBERS = (
    0, 1, -1, 2, 3, 7, 255, 10**4, 10**9, -(10**9), 2**31, 2**53 + 1, 2**62, -(2**63), 2**64,
    10**30, 0.5, -0.5, 1e-300, 1e300, -1e300, 1.5,
)  # fmt: skip
ODD = (
    None, True, False, "", "x", "\ud800", "\0", "é" * 50, "1", [], [[]], {}, {"a": 1}, [1, "a"],
    [None], [1, [2]], float("nan"), float("inf"), 10**400, "markov", "nan", "a" * 5000,
    "random", "oracle", "psrl", "mvp", "bernstein", "history", "incumbent", "counts",
    "episodes",
)  # fmt: skip
KINDS = ("bool", "int8", "int32", "int64", "uint8", "uint64", "float32", "float64", "U3", "U40")


# ---------------------------------------------------------------------- bytes


def damaged(random, raw):
    """Flips, cuts, doubles, inserts or reverses bytes at one to three places."""
    for _ in range(random.integers(1, 4)):
        i, length = int(random.integers(len(raw) + 1)), int(random.integers(1, 40))
        byte = bytes([random.integers(256)])
        part = raw[i : i + length]
        raw = (
            raw[:i] + byte + raw[i + 1 :], raw[:i], raw[:i] + raw[i + length :],
            raw[:i] + part + raw[i:], raw[:i] + byte + raw[i:],
            raw[:i] + part[::-1] + raw[i + length :],
        )[random.integers(6)]  # fmt: skip
    return raw


# ---------------------------------------------------------------------- arrays


def other_array(random, array, arrays):
    """An array in the place of another: of wrong shape, type or range, or with wrong values."""
    way = random.integers(14)
    flat = array.reshape(-1)
    with np.errstate(all="ignore"):
        if way == 0:  # a longer or shorter one
            return flat[: random.integers(flat.size + 1)]
        if way == 1:
            return (
                np.resize(flat, random.integers(1, 2 * flat.size + 3)) if flat.size else np.zeros(3)
            )
        if way == 2:  # other axes
            return (array[None], flat, array.T, array[..., None])[random.integers(4)]
        if way == 3:
            return array[..., ::-1] if array.ndim else array
        if way == 4:  # another type
            kind = KINDS[random.integers(len(KINDS))]
            try:
                return array.astype(kind)
            except (ValueError, OverflowError):
                return np.zeros(array.shape, dtype=kind)
        if way == 5:  # all the same
            return np.full(array.shape, _number(random, array.dtype), dtype=array.dtype)
        if way == 6:  # one of the others
            return arrays[list(arrays)[random.integers(len(arrays))]]
        if way == 7:
            return np.zeros((0,) * max(array.ndim, 1), dtype=array.dtype)
        if way == 8 and array.dtype.kind == "f":
            return _with(random, array, (np.nan, np.inf, -np.inf, 1e300, -1.0)[random.integers(5)])
        if way == 9 and flat.size:  # its own values, in another order
            return random.permutation(flat).reshape(array.shape)
        if way == 10 and array.dtype.kind in "iu":
            return array + random.integers(-2, 3)
        if way == 11 and flat.size:  # a value that others have
            return _with(random, array, flat[random.integers(flat.size)])
        if way == 12 and array.dtype.kind in "iu":
            return random.integers(0, max(int(flat.max(initial=0)), 1) + 1, array.shape)
        return _with(random, array, _number(random, array.dtype))


def _number(random, dtype):
    value = NUMBERS[random.integers(len(NUMBERS))]
    if dtype.kind == "U":
        return str(value)
    with np.errstate(all="ignore"):
        try:
            return np.array(value).astype(dtype)
        except (OverflowError, TypeError, ValueError):
            return np.array(-1).astype(dtype)


def _with(random, array, value):
    result = array.copy().reshape(-1)
    if result.size:
        result[random.integers(result.size, size=random.integers(1, 4))] = value
    return result.reshape(array.shape)


def crafted_npz(random, raw):
    """One or two arrays of an archive replaced, dropped or added; a state's digest is made anew."""
    with np.load(io.BytesIO(raw), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    stated = arrays.pop("digest", None) is not None
    for _ in range(1 + (random.random() < 0.2)):
        names = list(arrays)
        name = names[random.integers(len(names))]
        if name == "json" or ("json" in arrays and random.random() < 0.3):
            state = json.loads(bytes(arrays["json"]).decode())
            text = json.dumps(other_tree(random, state)).encode("utf-8", "surrogatepass")
            arrays["json"] = np.frombuffer(text, dtype=np.uint8)
        elif random.random() < 0.05:
            del arrays[name]
        elif random.random() < 0.03:
            arrays[name + ("s", "_", ".x", "")[random.integers(4)]] = arrays.pop(name)
        else:
            arrays[name] = other_array(random, arrays[name], arrays)
    if stated:
        arrays["digest"] = checksum(arrays)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as target:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
            target.writestr(f"{name}.npy", member.getvalue())
    return stream.getvalue()


# ---------------------------------------------------------------------- trees and tables


def other_tree(random, document):
    """A JSON document in which one or two values, somewhere inside, are others or gone."""
    for _ in range(1 + (random.random() < 0.2)):
        document = _other_inside(random, document)
    return document


def _other_inside(random, value):
    if isinstance(value, dict) and value and random.random() < 0.93:
        key = list(value)[random.integers(len(value))]
        way = random.random()
        rest = {k: v for k, v in value.items() if k != key}
        if way < 0.05:
            return rest
        if way < 0.08:
            return {**rest, key + "x": value[key]}
        return {**value, key: _other_inside(random, value[key])}
    if isinstance(value, list) and value and random.random() < 0.85:
        i, way = int(random.integers(len(value))), random.random()
        if way < 0.05:
            return value[:i] + value[i + 1 :]
        if way < 0.1:
            return [*value[:i], value[i], *value[i:]]
        return [*value[:i], _other_inside(random, value[i]), *value[i + 1 :]]
    if random.random() < 0.5:
        return NUMBERS[random.integers(len(NUMBERS))]
    return ODD[random.integers(len(ODD))]


def crafted_json(random, raw):
    """A document with other values, written as text."""
    text = json.dumps(other_tree(random, json.loads(raw)))
    return text.encode("utf-8", "surrogatepass")


def crafted_csv(random, raw):
    """A table with other cells, lines or columns."""
    rows = list(csv.reader(io.StringIO(raw.decode())))
    for _ in range(random.integers(1, 4)):
        i, way = int(random.integers(len(rows))), random.integers(6)
        j = int(random.integers(len(rows[i]))) if rows[i] else 0
        if way == 0:
            del rows[i]
        elif way == 1:
            rows.insert(i, rows[i][::-1])
        elif way == 2:
            rows[i] = rows[i][:j]
        elif rows[i]:
            words = ("", "x", "nan", "inf", "1e400", "-0", '"', "0x1", " 1", "1;2", "1_0", "\0")
            value = NUMBERS[random.integers(len(NUMBERS))]
            rows[i][j] = str(value) if way < 5 else words[random.integers(len(words))]
        rows = rows or [[]]
    return "\n".join(",".join(row) for row in rows).encode()


WORDS = (
    "*", "-", "_", "uniform", "identity", "reset", ":", "T", "O", "R", "start", "states", "#", "&",
    "nan", "inf", "1e400", "-", "0x1", "x", "s0", "null", "é", "<", ">", "\n", "cost", "include",
)  # fmt: skip


def crafted_words(random, raw):
    """A text with other words: changed, doubled, gone, or in another place."""
    words = re.split(r"(\s+|:)", raw.decode())
    for _ in range(1 + (random.random() < 0.2)):
        i, j = (int(k) for k in random.integers(len(words), size=2))
        way = random.integers(6)
        if way == 0:
            del words[i : i + int(random.integers(1, 12))]
        elif way == 1:
            words[i:i] = words[j : j + 12]
        elif way == 2:
            words[i], words[j] = words[j], words[i]
        else:
            words[i] = _word(random)
        words = words or [""]
    return "".join(words).encode()


def crafted_xml(random, raw):
    """XML that is well-formed: with other texts, attributes or names, elements doubled or gone."""
    return other_elements(
        random, ElementTree.fromstring(re.sub(rb"&(?!\w+;)|xmlns:\S+|xsi:\S+\"", b"", raw))
    )


def other_elements(random, root):
    """The text of a tree of XML, changed in one or two places."""
    for _ in range(1 + (random.random() < 0.2)):
        inside = [(parent, i) for parent in root.iter() for i in range(len(parent))]
        if not inside:
            break
        parent, i = inside[random.integers(len(inside))]
        way = random.integers(9)
        if way == 0:
            del parent[i]
        elif way == 1:
            parent.insert(i, copy.deepcopy(parent[i]))
        elif way == 2:
            other, k = inside[random.integers(len(inside))]
            parent.insert(i, copy.deepcopy(other[k]))
        elif way == 3:
            names = [element.tag for element in root.iter()]
            parent[i].tag = names[random.integers(len(names))]
        elif way == 4 and parent[i].attrib:
            keys = list(parent[i].attrib)
            parent[i].set(keys[random.integers(len(keys))], _word(random).strip())
        else:
            words = (parent[i].text or "").split() or [""]
            k = int(random.integers(len(words)))
            words[k : k + 1] = [_word(random)] if way < 7 else [words[k]] * int(random.integers(3))
            parent[i].text = " ".join(words)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)


def _word(random):
    if random.random() < 0.5:
        return str(NUMBERS[random.integers(len(NUMBERS))])
    return WORDS[random.integers(len(WORDS))]


def recompressed(random, raw, ending):
    """Another table, compressed as before."""
    return compressed(ending, crafted_csv(random, decompressed(ending, raw)))


def crafted_xlsx(random, raw):
    """A workbook of which one part, some XML, has other words, in as many as four places."""

    def words(random, part):
        root = ElementTree.fromstring(part)
        for _ in range(random.integers(1, 4)):
            root = ElementTree.fromstring(other_elements(random, root))
        return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)

    return other_parts(random, raw, words)


CRAFTED = {
    **{f".{end}": partial(recompressed, ending=end) for end in ("gz", "bz2", "xz", "zip", "zst")},
    ".parquet": crafted_parquet, ".xlsx": crafted_xlsx,
    ".npz": crafted_npz, ".json": crafted_json, ".csv": crafted_csv, ".pomdp": crafted_words,
    ".pomdpx": crafted_xml, ".policyx": crafted_xml,
}  # fmt: skip


def flipped(random, raw):
    """One to three bits are others."""
    changed = bytearray(raw)
    for _ in range(random.integers(1, 4)):
        changed[random.integers(len(raw))] ^= 1 << int(random.integers(8))
    return bytes(changed)


def crafted_database(random, raw, digests):
    """A study's database that was edited; with `digests`, its digests are made anew."""

    def other(value):
        if isinstance(value, str) and value[:1] in ("{", "[") and random.random() < 0.7:
            return json.dumps(other_tree(random, json.loads(value)))
        if random.random() < 0.4:
            return NUMBERS[random.integers(len(NUMBERS))]
        odd = ODD[random.integers(len(ODD))]
        return odd if isinstance(odd, (str, float, int)) or odd is None else str(odd).encode()

    with tempfile.TemporaryDirectory() as folder:
        return edited(random, raw, folder, other, digests)


def mutant(random, files, name, crafted):
    """The files with `name` changed; `crafted`: its form stays right and its contents do not."""
    if name.endswith(".db"):
        raw = files[name]
        if crafted:
            return files | {name: crafted_database(random, raw, name.startswith("edited"))}
        return files | {name: (flipped if random.random() < 0.7 else damaged)(random, raw)}
    make = CRAFTED["." + name.rpartition(".")[2]] if crafted else damaged
    return files | {name: make(random, files[name])}
