"""Rows as they are written to standard output: JSON lines, CSV, or one file of Parquet."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow
from pyarrow import csv, parquet

from siltstone.cli.output import write_bytes
from siltstone.cli.row_values import json_values, plain_column, text_names

if TYPE_CHECKING:
    from typing_extensions import Buffer


class RowWriter(Protocol):
    """Writes record batches of one schema."""

    def write(self, batch: pyarrow.RecordBatch) -> None:
        """Write rows."""
        ...

    def close(self) -> None:
        """Write what stands after the rows."""
        ...


class JsonRows:
    """One object of JSON a line.

    Args:
        schema: of the rows.
        first: names of columns that stand before the others.
    """

    def __init__(self, schema: pyarrow.Schema, first: Sequence[str] = ()) -> None:
        order = [*first, *(name for name in schema.names if name not in first)]
        written = dict(zip(schema.names, text_names(schema), strict=True))
        self._names = {name: written[name] for name in order}

    def write(self, batch: pyarrow.RecordBatch) -> None:
        """Write rows."""
        columns = [json_values(batch[name]) for name in self._names]
        names = list(self._names.values())
        lines = [
            json.dumps(dict(zip(names, values, strict=True)), ensure_ascii=False)
            for values in zip(*columns, strict=True)
        ]
        write_bytes("".join(f"{line}\n" for line in lines).encode())

    def close(self) -> None:
        """Nothing stands after the rows."""


class CsvRows:
    """CSV with a line of names; a null is empty, and an empty string is ``""``."""

    def __init__(self, schema: pyarrow.Schema) -> None:
        self._schema = schema
        self._names = text_names(schema)
        empty = [pyarrow.array([], field.type) for field in schema]
        self._put(pyarrow.RecordBatch.from_arrays(empty, schema=schema), with_names=True)

    def write(self, batch: pyarrow.RecordBatch) -> None:
        """Write rows."""
        self._put(batch, with_names=False)

    def close(self) -> None:
        """Nothing stands after the rows."""

    def _put(self, batch: pyarrow.RecordBatch, *, with_names: bool) -> None:
        columns = [plain_column(batch[field.name]) for field in self._schema]
        sink = pyarrow.BufferOutputStream()
        options = csv.WriteOptions(include_header=with_names)
        csv.write_csv(pyarrow.RecordBatch.from_arrays(columns, self._names), sink, options)
        write_bytes(sink.getvalue().to_pybytes())


class ParquetRows:
    """A file of Parquet."""

    def __init__(self, schema: pyarrow.Schema) -> None:
        self._writer = parquet.ParquetWriter(_Output(), schema, compression="zstd")

    def write(self, batch: pyarrow.RecordBatch) -> None:
        """Write rows."""
        self._writer.write_batch(batch)

    def close(self) -> None:
        """Write the footer."""
        self._writer.close()


class _Output(io.RawIOBase):
    """Standard output as a file that tells its position."""

    def __init__(self) -> None:
        super().__init__()
        self._position = 0

    def writable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """How much was written."""
        return self._position

    def write(self, data: Buffer, /) -> int:
        """Write all of it."""
        taken = bytes(data)
        write_bytes(taken)
        self._position += len(taken)
        return len(taken)


ROW_WRITERS: Final[dict[str, Any]] = {"json": JsonRows, "csv": CsvRows, "parquet": ParquetRows}
"""What ``--format`` may say."""
