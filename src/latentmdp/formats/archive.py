"""NumPy's npz archives, read without trust: sizes are checked before memory is taken.

Nothing is ever unpickled.
"""

import io
import math
import os
import warnings
import zipfile
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from latentmdp.errors import ModelError
from latentmdp.runtime.files import (
    PathLike,
    Writer,
    memory_budget,
    opened,
    reason,
    refusal,
    write_atomically,
)

LARGEST_HEADER = 10_000
MOST_MEMBERS = 1_000
FREE_BYTES = 10**8  # of memory: any file may take so much,
LARGEST_RATIO = 64  # and this many times its own size (compression alone gets to 1000)
PLAIN_KINDS = "biufU"  # truth values, numbers, text: nothing that could hide an object
CHUNK = 1 << 24


def read_npz(path: PathLike, copies: int = 1) -> dict[str, np.ndarray]:
    """All arrays of an npz file, each checked against the archive before it is read.

    The caller needs memory for `copies` of them; a small file that would need much is refused.
    Cost: one pass over the file, one copy in memory.
    """
    with opened(path) as file:
        try:
            return _read_archive(file, copies)
        except ModelError as error:
            raise refusal(path, str(error)) from None
        except Exception as error:  # zipfile and zlib raise a dozen kinds on damaged files
            raise refusal(path, f"the npz file is damaged: {reason(error)}") from None


def write_npz(path: PathLike, arrays: dict[str, Any], *, level: int, copies: int = 1) -> None:
    """Write an npz file that `numpy.load(path, allow_pickle=False)` reads as well."""
    write_atomically(path, npz_writer(arrays, level=level, copies=copies))


def npz_writer(arrays: dict[str, Any], *, level: int, copies: int = 1) -> Writer:
    """A function that writes arrays into an open file, as npz, to be read with these `copies`.

    `level` of compression: 0 is none, 1 quick, 6 thorough. Large arrays are never compressed,
    because `read_npz` refuses small files that expand to large arrays.
    """
    given = [np.asanyarray(values) for values in arrays.values()]
    if copies * sum(_claim(array.size, array.dtype) for array in given) > FREE_BYTES:
        level = 0
    method = zipfile.ZIP_DEFLATED if level else zipfile.ZIP_STORED

    def write(file: BinaryIO) -> None:
        with zipfile.ZipFile(file, "w", method, allowZip64=True) as archive:
            for name, values in arrays.items():
                # a fixed date: the same model gives the same bytes
                member = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
                member.compress_type = method
                member.external_attr = 0o644 << 16
                array = np.asanyarray(values, order="C")
                if level:
                    content = io.BytesIO()
                    npy.write_array(content, array, allow_pickle=False)
                    archive.writestr(member, content.getbuffer(), compresslevel=level)
                    continue
                with archive.open(member, "w", force_zip64=True) as target:
                    npy.write_array(target, array, allow_pickle=False)

    return write


def _read_archive(file: BinaryIO, copies: int) -> dict[str, np.ndarray]:
    if not zipfile.is_zipfile(file):
        raise ModelError("must be an npz file (a zip archive of arrays); it is not one")
    file.seek(0)
    allowed = (FREE_BYTES + LARGEST_RATIO * os.fstat(file.fileno()).st_size) // copies
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if len(members) > MOST_MEMBERS:
            raise ModelError(f"must hold at most {MOST_MEMBERS} arrays; found {len(members)}")
        claimed = 0
        arrays: dict[str, np.ndarray] = {}
        for member in members:
            name = member.filename.removesuffix(".npy")
            if name in arrays:
                raise ModelError(f"each array may appear once; {name[:80]!r} appears twice")
            _check_claim(claimed + member.file_size, allowed)
            arrays[name] = found = _read_member(archive, member, name, claimed, allowed)
            claimed += _claim(found.size, found.dtype)
    return arrays


def _check_claim(claimed: int, allowed: int) -> None:
    if claimed > memory_budget():
        raise ModelError(f"its arrays claim {claimed} bytes, more than this machine can hold")
    if claimed > allowed:
        raise ModelError(
            f"its arrays must not be far larger than the file; they claim {claimed} bytes (if that "
            "is meant so, save it without compression: numpy.savez)"
        )


def _claim(size: int, dtype: np.dtype) -> int:
    """Bytes that an array takes once it is used: numbers get 64 bits, a name is an object."""
    return size * max(dtype.itemsize, 64 if dtype.kind == "U" else 8)


def _read_member(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str, claimed: int, allowed: int
) -> np.ndarray:
    label = f"array {name[:80]!r}"
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ModelError(f"{label} must be stored or deflated; it is compressed in another way")
    if member.flag_bits & 0x1:
        raise ModelError(f"{label} is encrypted")
    with archive.open(member) as stream:
        head = stream.read(LARGEST_HEADER + 16)
    shape, fortran, dtype, header_bytes = _parse_header(head, label)
    if dtype.hasobject:
        raise ModelError(f"{label} holds Python objects (a pickle), which are never loaded")
    if dtype.kind not in PLAIN_KINDS or dtype.fields is not None or dtype.itemsize == 0:
        raise ModelError(f"{label} must hold numbers, truth values or text; found {dtype.str!r}")
    count = math.prod(shape)
    if header_bytes + count * dtype.itemsize != member.file_size:
        raise ModelError(
            f"{label} claims shape {_short(shape)}, that is {count * dtype.itemsize} bytes; "
            f"the file holds {member.file_size - header_bytes}"
        )
    _check_claim(claimed + _claim(count, dtype), allowed)
    values = np.empty(count, dtype=dtype)
    with archive.open(member) as stream:
        stream.read(header_bytes)
        _fill(values, stream, label)
    return values.reshape(shape, order="F" if fortran else "C")


def _fill(values: np.ndarray, stream: Any, label: str) -> None:
    target: memoryview = values.view(np.uint8).data if values.size else memoryview(b"")
    done = 0
    while done < len(target):
        chunk = stream.read(min(CHUNK, len(target) - done))
        if not chunk:
            raise ModelError(f"{label} is cut short")
        target[done : done + len(chunk)] = chunk
        done += len(chunk)
    if stream.read(1):  # reading to the end also checks the sum
        raise ModelError(f"{label} is longer than it claims")


def _parse_header(head: bytes, label: str) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    """Shape, order, type and length of the npy header at the start of `head`."""
    stream = io.BytesIO(head)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            version = npy.read_magic(stream)
            if version == (1, 0):
                read = npy.read_array_header_1_0
            elif version == (2, 0):
                read = npy.read_array_header_2_0
            else:
                raise ModelError(f"{label} has npy version {version}; known are (1, 0) and (2, 0)")
            shape, fortran, dtype = read(stream, max_header_size=LARGEST_HEADER)
    except ModelError:
        raise
    except Exception:  # the header is parsed as a Python literal, which fails in many ways
        raise ModelError(f"{label} has no valid npy header") from None
    if any(n < 0 or n >= 2**62 for n in shape) or len(shape) > 8:
        raise ModelError(f"{label} claims an impossible shape {_short(shape)}")
    return shape, fortran, dtype, stream.tell()


def _short(shape: tuple[int, ...]) -> str:
    return str(shape) if len(shape) <= 8 else f"of {len(shape)} axes"
