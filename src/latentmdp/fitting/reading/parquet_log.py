"""Parquet files as logs, read by pyarrow (the extra `logs`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from latentmdp.errors import quoted
from latentmdp.fitting.reading.chunks import CHUNK_ROWS, Chunk
from latentmdp.fitting.reading.columns import Columns
from latentmdp.fitting.reading.streams import plain_errors
from latentmdp.runtime.files import memory_budget, refusal

CELL = 64  # bytes that a cell takes in memory


@dataclass(frozen=True)
class ParquetSource:
    """A Parquet file; an index that pandas wrote is a column like others."""

    path: Path
    rows: int = CHUNK_ROWS

    def _open(self, names: Sequence[str] = ()) -> Any:
        try:
            from pyarrow.parquet import ParquetFile
        except ImportError:
            raise refusal(
                self.path, "Parquet files need pyarrow: pip install 'latentmdp[logs]'"
            ) from None
        with plain_errors(self.path):
            return ParquetFile(self.path, read_dictionary=list(names))

    def header(self) -> list[str]:
        with plain_errors(self.path), self._open() as file:
            return [str(name) for name in file.schema_arrow.names]

    def chunks(self, columns: Columns) -> Iterator[Chunk]:
        with plain_errors(self.path), self._open() as file:
            text, rows = self._texts(file, columns), self._batch_rows(file, columns)
        first = 1
        with plain_errors(self.path), self._open(text) as file:
            for batch in file.iter_batches(batch_size=rows, columns=columns.used):
                batch.validate(full=True)  # pyarrow trusts what a file says of its texts
                frame = batch.to_pandas(ignore_metadata=True, integer_object_nulls=True)
                yield Chunk(frame[columns.used], self.path.name, first)
                first += len(frame)

    def _texts(self, file: Any, columns: Columns) -> list[str]:
        """Columns of names, read as dictionaries (ids are too many); nested ones are refused."""
        from pyarrow.types import is_large_string, is_nested, is_string

        found = []
        for name in columns.used:
            kind = file.schema_arrow.field(name).type
            if is_nested(kind):
                raise refusal(
                    self.path,
                    f"each cell of {quoted(name)} must hold one value; its type is {kind}",
                )
            if name != columns.episode and (is_string(kind) or is_large_string(kind)):
                found.append(name)
        return found

    def _batch_rows(self, file: Any, columns: Columns) -> int:
        """Rows of a chunk: fewer than asked for where rows are so wide that memory needs it.

        What a file says of single columns is left alone: pyarrow ends the process if that is
        damaged.
        """
        groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
        whole = sum(max(group.total_byte_size, 0) for group in groups)
        width = whole / max(file.metadata.num_rows, 1) + CELL * len(columns.used)
        return max(min(self.rows, int(memory_budget() / 4 / width)), 1)
