"""The import batch row: the newest batch of a stream that was imported, so that none comes twice.

Value, under the key of the stream::

    kind: u8 = 19
    version: u8 = 1, or 2 when it has a target
    batch: uvarint
    session_id: uvarint
    committed_ms: uvarint
    target: text          in version 2 alone
"""

from __future__ import annotations

from dataclasses import dataclass

from siltstone.core.records.keys import RowKind
from siltstone.core.records.wire import Reader, head, text, uvarint

VERSION = 1
VERSION_TARGET = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportBatchRow:
    """The newest imported batch of a stream; those before it were imported too.

    Attributes:
        query: names the stream, such as the id of a streaming query.
        batch: number of the batch; numbers of a stream grow.
        session_id: the session that brought it.
        committed_ms: milliseconds since 1970.
        target: where the stream writes; empty when that is not known.
    """

    query: str
    batch: int
    session_id: int
    committed_ms: int
    target: str = ""


def encode_import_batch_row(row: ImportBatchRow) -> bytes:
    """Encode the value of the row; the stream is in its key."""
    numbers = (row.batch, row.session_id, row.committed_ms)
    version = VERSION_TARGET if row.target else VERSION
    target = text(row.target) if row.target else b""
    return head(RowKind.IMPORT_BATCH, version) + b"".join(map(uvarint, numbers)) + target


def decode_import_batch_row(name: str, value: bytes) -> ImportBatchRow:
    """Decode the value of the row of the stream ``name``.

    Raises:
        FormatError: of another kind or version.
        CorruptDataError: damaged.
    """
    where = f"import batch of {name!r}"
    targeted = value[1:2] == bytes((VERSION_TARGET,))
    version = VERSION_TARGET if targeted else VERSION
    reader = Reader(
        value, kind=RowKind.IMPORT_BATCH, version=version, where=where, known=VERSION_TARGET
    )
    row = ImportBatchRow(
        query=name,
        batch=reader.uvarint(),
        session_id=reader.uvarint(),
        committed_ms=reader.uvarint(),
        target=reader.text() if targeted else "",
    )
    reader.end()
    return row
