"""Damaged and hostile files: one clear sentence with the file's name; nothing run or touched."""

import io
import os
import pickle
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import latentmdp as lm
from latentmdp.formats import archive, npz
from latentmdp.policy.graph import POLICY_PARTS
from latentmdp.runtime import files

MODEL = lm.make("maze:size=2,goals=2,horizon=3")
DENSE = {
    "P": MODEL.P,
    "R": MODEL.R,
    "w": MODEL.w,
    "nu": MODEL.nu,
    "H": np.array(MODEL.H),
    "discount": np.array(1.0),
}


class Bomb:
    """Leaves a trace when it is unpickled."""

    def __init__(self, trace):
        self.trace = str(trace)

    def __reduce__(self):
        return os.mkdir, (self.trace,)


def refused(file, load=lm.load, **options):
    """The one sentence with which a file is refused; checks that it was only read."""
    before = file.read_bytes() if file.is_file() else None
    with pytest.raises(lm.ModelError) as caught:
        load(file, **options)
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 600
    assert str(file.parent) in text
    assert before is None or file.read_bytes() == before
    return text


def npy(array):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asarray(array), allow_pickle=True)
    return stream.getvalue()


def header(text, version=1, length=None):
    """A npy header with any text in it."""
    raw = text.encode("latin1")
    size = len(raw) if length is None else length
    return (
        b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", size) + raw
    )


def write_zip(file, members, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(file, "w", method) as target:
        for name, raw in members.items():
            target.writestr(f"{name}.npy", raw)


def with_member(file, name, raw):
    write_zip(file, {key: npy(value) for key, value in DENSE.items()} | {name: raw})
    return file


# ---------------------------------------------------------------------- npz


def test_pickles_inside_npz_are_never_run(tmp_path):
    trace = tmp_path / "trace"
    bomb = np.array([Bomb(trace)], dtype=object)
    for key in ("P", "H", "state_names", "anything"):
        text = refused(with_member(tmp_path / "m.npz", key, npy(bomb)))
        assert "pickle" in text
        assert key in text
    for policy_key in ("step", "table"):
        np.savez(tmp_path / "p.npz", **{policy_key: bomb})
        assert "pickle" in refused(tmp_path / "p.npz", lm.load_policy)
    assert not trace.exists()


def test_a_bare_pickle_is_no_npz(tmp_path):
    trace = tmp_path / "trace"
    (tmp_path / "m.npz").write_bytes(pickle.dumps(Bomb(trace)))
    assert "must be an npz file" in refused(tmp_path / "m.npz")
    (tmp_path / "m.npz").write_bytes(npy(np.array([Bomb(trace)], dtype=object)))
    assert "must be an npz file" in refused(tmp_path / "m.npz")
    assert not trace.exists()


def test_structured_and_other_types_are_refused(tmp_path):
    objects_inside = np.zeros(2, dtype=[("x", object)])
    for value, said in (
        (np.zeros(2, dtype=[("x", "f8")]), "must hold numbers"),
        (objects_inside, "pickle"),
        (np.zeros(3, dtype=complex), "must hold numbers"),
        (np.zeros(3, dtype="M8[s]"), "must hold numbers"),
        (np.zeros(3, dtype="V8"), "must hold numbers"),
        (np.zeros(3, dtype="S4"), "must hold numbers"),
    ):
        assert said in refused(with_member(tmp_path / "m.npz", "w", npy(value)))


def test_headers_that_claim_terabytes_take_no_memory(tmp_path):
    shape = (10**6, 10**3, 10, 10**3)
    claim = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}"
    file = with_member(tmp_path / "m.npz", "P", header(claim) + b"\0" * 64)
    tracemalloc.start()
    text = refused(file)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "claims shape (1000000, 1000, 10, 1000)" in text
    assert peak < 20_000_000


@pytest.mark.parametrize(
    "shape", ["(-1,)", "(9223372036854775807, 4)", "(0, 9223372036854775807)", "(2.5,)", "'x'",
              "(1,) * 100", "(1, 1, 1, 1, 1, 1, 1, 1, 1)", f"({10**40},)"]
)  # fmt: skip
def test_headers_with_impossible_shapes(tmp_path, shape):
    claim = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}"
    text = refused(with_member(tmp_path / "m.npz", "w", header(claim) + b"\0" * 8))
    assert "'w'" in text


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x93NUMPY",
        b"no header at all",
        header("{", 1),
        header("(" * 5000, 1),
        header("{'descr': '<f8'}", 1),
        header("{'descr': '\\q', 'fortran_order': False, 'shape': (1,), }", 1),
        header("{}", 2, 2**32 - 1),
        header(" " * 20_000, 2),
        header("{}", 3),
        header("{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000000,), }", 1),
    ],
)
def test_broken_headers(tmp_path, raw):
    assert "array 'w'" in refused(with_member(tmp_path / "m.npz", "w", raw))


def test_a_zip_bomb_is_not_unpacked(tmp_path, monkeypatch):
    big = np.zeros((100, 100, 10, 100))  # 80 MB of zeros, 80 kB in the file
    write_zip(tmp_path / "m.npz", {"P": npy(big)})
    del big
    assert (tmp_path / "m.npz").stat().st_size < 200_000
    monkeypatch.setattr(archive, "memory_budget", lambda: 10_000_000)
    tracemalloc.start()
    text = refused(tmp_path / "m.npz")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "more than this machine can hold" in text
    assert peak < 1_000_000


def test_members_longer_than_their_directory_says(tmp_path):
    """The archive's directory lies about the unpacked size of a member."""
    raw = npy(np.zeros(100_000))
    write_zip(tmp_path / "m.npz", {"w": raw})
    whole = (tmp_path / "m.npz").read_bytes()
    short = npy(np.zeros(10))
    for size in (len(short), 200, 2**31):
        lied = whole.replace(struct.pack("<I", len(raw)), struct.pack("<I", size))
        assert lied != whole
        (tmp_path / "m.npz").write_bytes(lied)
        refused(tmp_path / "m.npz")


def test_encrypted_and_oddly_compressed_members(tmp_path):
    write_zip(tmp_path / "m.npz", {"w": npy(DENSE["w"])}, zipfile.ZIP_BZIP2)
    assert "compressed in another way" in refused(tmp_path / "m.npz")
    write_zip(tmp_path / "m.npz", {"w": npy(DENSE["w"])}, zipfile.ZIP_STORED)
    raw = bytearray((tmp_path / "m.npz").read_bytes())
    place = raw.index(b"PK\x01\x02")
    raw[place + 8] |= 1  # the flag in the directory
    (tmp_path / "m.npz").write_bytes(bytes(raw))
    assert "encrypted" in refused(tmp_path / "m.npz")


def test_arrays_that_appear_twice(tmp_path):
    with_member(tmp_path / "m.npz", "P", npy(DENSE["P"]))
    target = zipfile.ZipFile(tmp_path / "m.npz", "a")
    with target, pytest.warns(UserWarning, match="Duplicate name"):
        target.writestr("P.npy", npy(DENSE["P"]))
    assert "'P' appears twice" in refused(tmp_path / "m.npz")


def test_too_many_members(tmp_path):
    write_zip(tmp_path / "m.npz", {f"a{i}": b"" for i in range(1001)}, zipfile.ZIP_STORED)
    assert "at most 1000 arrays; found 1001" in refused(tmp_path / "m.npz")


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("P", np.full_like(MODEL.P, np.nan), "P[0, 0, 0, 0] must be finite"),
        ("R", np.full_like(MODEL.R, np.inf), "R[0, 0, 0] must be finite"),
        ("R", np.full_like(MODEL.R, 1e308), "must stay below the largest float"),
        ("P", MODEL.P * 0.5, "must sum to 1"),
        ("P", MODEL.P[:, :, :, :-1], "shape (M, S, A, S)"),
        ("P", np.array("text"), "P must be numbers; found text"),
        ("R", MODEL.R[:, :, :-1], "R must have the shape"),
        ("w", np.array([2.0, -1.0]), "w[m=1] must be at least 0"),
        ("w", np.array([True, False]), "w must be numbers; found truth values"),
        ("nu", MODEL.nu[:1], "nu must have the shape"),
        ("H", np.array(2.5), "H must be a whole number"),
        ("H", np.array(0), "must be a whole number of at least 1"),
        ("H", np.array(-3), "must be a whole number of at least 1"),
        ("H", np.array(10**12), "horizon must be at most"),
        ("H", np.array(2**64 - 1, dtype=np.uint64), "H must be a whole number"),
        ("H", np.array([3, 3]), "H must be a single value"),
        ("discount", np.array(1.5), "discount must be"),
        ("discount", np.array(np.nan), "discount must be finite"),
        ("observe_rewards", np.array(2), "observe_rewards must be true or false"),
        ("observe_rewards", np.array("no"), "observe_rewards must be true or false"),
        ("observe_reward", np.array(False), "is it meant as 'observe_rewards'"),
        ("Discount", np.array(0.9), "is it meant as 'discount'"),
        ("state_names", np.array(["only one"]), "state_names"),
        ("state_names", np.array([["a"] * MODEL.S]), "list of names"),
        ("max_return", np.array(np.inf), "max_return must be finite"),
        ("reward_scale", np.array(np.nan), "reward_scale must be finite"),
        ("layout_shape", np.array([0, 3]), "layout_shape"),
        ("layout_shape", np.array([2, 2]), "layout_positions"),
    ],
)
def test_wrong_values_in_npz(tmp_path, key, value, said):
    assert said in refused(with_member(tmp_path / "m.npz", key, npy(value)))


@pytest.mark.parametrize("key", ["P", "R", "w", "nu", "H"])
def test_missing_arrays(tmp_path, key):
    np.savez(tmp_path / "m.npz", **{k: v for k, v in DENSE.items() if k != key})
    assert f"the key '{key}' must be there; found " in refused(tmp_path / "m.npz")


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("indptr", lambda x: x + 1),
        ("indptr", lambda x: x[:-1]),
        ("indptr", lambda x: x[::-1]),
        ("indptr", lambda x: np.where(np.arange(x.size) == 1, -5, x)),
        ("indptr", lambda x: np.where(np.arange(x.size) == 1, 2**40, x)),
        ("next", lambda x: x[:-1]),
        ("next", lambda x: x - 1),
        ("next", lambda x: x + 2**40),
        ("prob", lambda x: x[:-1]),
        ("prob", lambda x: x.reshape(1, -1)),
        ("prob", lambda x: -x),
        ("reward", lambda x: x[:-1]),
        ("reward", lambda x: np.where(np.arange(x.size) == 1, np.nan, x)),
        ("rewards_on_transitions", lambda x: np.array(True)),
        ("nu", lambda x: x[:, :-1]),
        ("nu", lambda x: x[0]),
        ("w", lambda x: x[:-1]),
        ("format", lambda x: np.array("something")),
    ],
)
def test_wrong_values_in_sparse_npz(tmp_path, monkeypatch, key, change):
    monkeypatch.setattr(npz, "LARGEST_DENSE", -1)
    lm.save(MODEL, tmp_path / "m.npz")
    with np.load(tmp_path / "m.npz") as found:
        arrays = dict(found)
    arrays[key] = change(arrays[key])
    np.savez(tmp_path / "m.npz", **arrays)
    refused(tmp_path / "m.npz")


def test_layouts_that_point_outside(tmp_path):
    lm.save(MODEL, tmp_path / "m.npz")
    with np.load(tmp_path / "m.npz") as found:
        arrays = dict(found)
    for key, value in (
        ("layout_positions", arrays["layout_positions"] + 2),
        ("layout_positions", arrays["layout_positions"][:-1]),
        ("layout_positions", np.zeros((MODEL.S, 3), dtype=int)),
        ("layout_walls", np.array([[0, 9]])),
        ("layout_marks", np.array([[0, 99]])),
        ("layout_marks", np.array([[-1, 0]])),
    ):
        np.savez(tmp_path / "x.npz", **(arrays | {key: value}))
        assert "layout" in refused(tmp_path / "x.npz")


# ---------------------------------------------------------------------- no files at all


@pytest.mark.parametrize("ending", [".npz", ".json", ".csv"])
@pytest.mark.parametrize("load", [lm.load, lm.load_policy])
def test_what_is_no_readable_file(tmp_path, monkeypatch, ending, load):
    file = tmp_path / f"f{ending}"
    assert "there is no such file" in refused(file, load)
    file.mkdir()
    assert "it is a folder" in refused(file, load)
    file.rmdir()
    os.mkfifo(file)  # opening it would wait forever
    assert "a pipe or a device" in refused(file, load)
    file.unlink()
    file.symlink_to("/dev/zero")  # reading it would never end
    assert "a pipe or a device" in refused(file, load)
    file.unlink()
    file.symlink_to(file)
    assert "cannot be read" in refused(file, load)
    file.unlink()
    file.touch()
    assert "the file is empty" in refused(file, load)

    def forbidden(*arguments):
        raise PermissionError(13, "Permission denied")

    file.write_text("x")
    monkeypatch.setattr(files, "open", forbidden, raising=False)
    assert "permission denied" in refused(file, load)


def test_names_of_files_cannot_break_the_line(tmp_path):
    file = tmp_path / "new\nline\x1b[31m.npz"
    file.write_text("x")
    with pytest.raises(lm.ModelError) as caught:
        lm.load(file)
    assert str(caught.value).isprintable()


# ---------------------------------------------------------------------- fuzz

SAVED = {
    ".npz": lm.load,
    ".json": lm.load,
    ".csv": lm.load,
    "p.npz": lm.load_policy,
    "p.json": lm.load_policy,
    "p.csv": lm.load_policy,
}


@pytest.fixture(scope="module")
def valid_bytes(tmp_path_factory):
    """The bytes of a valid file of each kind."""
    folder = tmp_path_factory.mktemp("valid")
    memory = lm.PolicyGraph.from_tree(MODEL, lambda history: len(history) % 4)
    lm.save(MODEL, folder / ".npz.npz")
    lm.save(MODEL, folder / ".json.json")
    lm.save(MODEL, folder / ".csv.csv")
    lm.save_policy(memory, folder / "p.npz.npz")
    lm.save_policy(memory, folder / "p.json.json")
    lm.save_policy(lm.PolicyGraph.from_table(memory.table), folder / "p.csv.csv")
    beside = {name: (folder / name).read_bytes() for name in ("initial.csv", "parameters.csv")}
    endings = {kind: "." + kind.rpartition(".")[2] for kind in SAVED}
    return {kind: (folder / (kind + endings[kind])).read_bytes() for kind in SAVED}, beside


@st.composite
def damages(draw):
    """A function that flips, cuts, doubles or inserts bytes at one to three places."""
    edits = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["flip", "set", "cut", "drop", "double", "insert", "swap"]),
                st.floats(0, 1, exclude_max=True),
                st.integers(1, 255),
                st.integers(1, 40),
            ),
            min_size=1,
            max_size=3,
        )
    )

    def apply(raw):
        for kind, place, byte, length in edits:
            i = int(place * len(raw))
            part = raw[i : i + length]
            raw = {
                "flip": lambda r, i=i, b=byte: r[:i] + bytes([r[i] ^ b]) + r[i + 1 :] if r else r,
                "set": lambda r, i=i, b=byte: r[:i] + bytes([b]) + r[i + 1 :],
                "cut": lambda r, i=i: r[:i],
                "drop": lambda r, i=i, n=length: r[:i] + r[i + n :],
                "double": lambda r, i=i, p=part: r[:i] + p + r[i:],
                "insert": lambda r, i=i, b=byte: r[:i] + bytes([b]) + r[i:],
                "swap": lambda r, i=i, p=part: r[:i] + p[::-1] + r[i + len(p) :],
            }[kind](raw)
        return raw

    return apply


@pytest.mark.parametrize("kind", SAVED)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(damage=damages())
def test_damaged_files_are_refused_or_valid(tmp_path, valid_bytes, kind, damage):
    raws, beside = valid_bytes
    file = tmp_path / f"x.{kind.rpartition('.')[2]}"
    for name, raw in beside.items():
        (tmp_path / name).write_bytes(raw)
    damaged = damage(raws[kind])
    file.write_bytes(damaged)
    try:
        result = SAVED[kind](file)
    except lm.ModelError as error:
        result = str(error)
    if isinstance(result, str):
        assert result.startswith(str(tmp_path))
        assert "\n" not in result
    elif isinstance(result, lm.LatentMDP):
        assert result.replace() == result  # passes all checks again
        assert np.isfinite(result.R).all()
    else:
        parts = [getattr(result, name) for name in POLICY_PARTS]
        assert lm.PolicyGraph.from_arrays(*parts, stationary=result.stationary) == result
    assert file.read_bytes() == damaged
