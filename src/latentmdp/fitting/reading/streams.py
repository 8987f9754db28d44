"""Bytes of a log, decompressed while they are read, and never more at once than memory allows."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from latentmdp.errors import ModelError
from latentmdp.runtime.files import FileError, memory_budget, reason, refusal

LONGEST_LINE = 2**24  # bytes
SLACK = 2**25  # bytes that readers may take ahead
COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".zip")


@contextmanager
def plain_errors(path: Path) -> Iterator[None]:
    """Whatever a reader of files raises becomes one refusal that names the file.

    Readers of compressed and binary files raise nearly anything on damaged ones.
    """
    try:
        yield
    except FileError:
        raise
    except ModelError as error:
        raise refusal(path, str(error)) from None
    except Exception as error:
        raise refusal(path, f"cannot be read: {reason(error) or 'it is damaged'}") from error


class Metered(io.RawIOBase):
    """A stream of text lines that refuses to give more than `limit` bytes before `reset()`."""

    def __init__(self, path: Path, stream: Any, limit: int) -> None:
        self.path, self.stream, self.limit = path, stream, limit
        self.taken = 0  # since the last reset
        self.line = 0  # since the last end of a line

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block = self.stream.read(len(buffer))
        size = len(block)
        buffer[:size] = block
        self.taken += size
        newline = block.rfind(b"\n")
        self.line = self.line + size if newline < 0 else size - newline - 1
        if self.line > LONGEST_LINE:
            raise refusal(
                self.path, f"its lines must be shorter than {LONGEST_LINE >> 20} MB; one is not"
            )
        if self.taken > self.limit:
            raise refusal(
                self.path,
                f"its rows are too large for this machine's memory: more than "
                f"{self.limit >> 20} MB in one chunk (a smaller chunk_rows= may help)",
            )
        return size

    def reset(self) -> None:
        """Count from here."""
        self.taken = 0


@contextmanager
def opened_lines(path: Path, limit: int | None = None) -> Iterator[tuple[BinaryIO, Metered]]:
    """The decompressed bytes of a file, and the meter that they go through."""
    with ExitStack() as closing, plain_errors(path):
        stream = _decompressed(path, closing)
        meter = Metered(path, stream, chunk_bytes() + SLACK if limit is None else limit)
        yield closing.enter_context(io.BufferedReader(meter, 2**18)), meter


def chunk_bytes() -> int:
    """Bytes of text that one chunk may have: read into a table they take about 30 times that."""
    return max(memory_budget() // 32, 2**22)


def _decompressed(path: Path, closing: ExitStack) -> Any:
    ending = path.suffix.lower()
    if ending == ".gz":
        import gzip

        return closing.enter_context(gzip.open(path, "rb"))
    if ending == ".bz2":
        import bz2

        return closing.enter_context(bz2.open(path, "rb"))
    if ending == ".xz":
        import lzma

        return _LimitedXz(closing.enter_context(path.open("rb")), lzma)
    if ending == ".zip":
        return _only_member(path, closing)
    if ending == ".zst":
        return closing.enter_context(_zstandard(path))
    return closing.enter_context(path.open("rb"))


class _LimitedXz:
    """An .xz file; its dictionary, which its header sizes, may not take all memory."""

    def __init__(self, raw: BinaryIO, lzma: Any) -> None:
        self.raw, self.lzma = raw, lzma
        self.decoder = self._new()
        self.ended = False

    def _new(self) -> Any:
        return self.lzma.LZMADecompressor(memlimit=max(memory_budget() // 4, 2**27))

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; empty at the end."""
        while True:
            if self.decoder.eof:
                rest = self.decoder.unused_data.lstrip(b"\0") or self.raw.read(2**16).lstrip(b"\0")
                if not rest:
                    return b""
                self.decoder = self._new()
                block = self.decoder.decompress(rest, size)
            elif self.decoder.needs_input:
                raw = self.raw.read(2**16)
                if not raw:
                    raise EOFError("the compressed file ended before its end marker")
                block = self.decoder.decompress(raw, size)
            else:
                block = self.decoder.decompress(b"", size)
            if block:
                return block


def _only_member(path: Path, closing: ExitStack) -> Any:
    archive = closing.enter_context(zipfile.ZipFile(path))
    members = [
        info for info in archive.infolist()
        if not info.is_dir() and not info.filename.startswith("__MACOSX/")
    ]  # fmt: skip
    if len(members) != 1:
        raise refusal(path, f"an archive must have one file, the log; it has {len(members)}")
    return closing.enter_context(archive.open(members[0]))


def _zstandard(path: Path) -> Any:
    try:
        import pyarrow
    except ImportError:
        raise refusal(path, ".zst files need pyarrow: pip install 'latentmdp[logs]'") from None
    return pyarrow.input_stream(str(path), compression="zstd", buffer_size=None)
