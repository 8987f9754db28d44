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

FEW_BYTES = 4.0  # of a cell in the file: fewer than a text can have that is not in a dictionary
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
        """Columns of text that are read as dictionaries; nested ones are refused."""
        from pyarrow.types import is_large_string, is_nested, is_string

        schema, sizes = file.schema_arrow, _sizes(file)
        found = []
        for name in columns.used:
            kind = schema.field(name).type
            if is_nested(kind):
                raise refusal(
                    self.path,
                    f"each cell of {quoted(name)} must hold one value; its type is {kind}",
                )
            if is_string(kind) or is_large_string(kind):
                # different ids are too many for a dictionary, unless the file has them in one
                few = sizes.get(name, 0) < FEW_BYTES * file.metadata.num_rows
                if name != columns.episode or few:
                    found.append(name)
        return found

    def _batch_rows(self, file: Any, columns: Columns) -> int:
        """Rows of a chunk: fewer than asked for where cells are so large that memory needs it."""
        sizes = _sizes(file)
        whole = sum(sizes.get(name, 0) for name in columns.used)
        width = whole / max(file.metadata.num_rows, 1) + CELL * len(columns.used)
        return max(min(self.rows, int(memory_budget() / 4 / width)), 1)


def _sizes(file: Any) -> dict[str, int]:
    """Bytes of each column in the file before they were compressed."""
    found: dict[str, int] = {}
    for i in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(i)
        for j in range(group.num_columns):
            column = group.column(j)
            name = column.path_in_schema
            found[name] = found.get(name, 0) + max(column.total_uncompressed_size, 0)
    return found
