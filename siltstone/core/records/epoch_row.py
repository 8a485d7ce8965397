"""The epoch row: what the sweep knows of an epoch that ended.

Value, under the key of the epoch::

    kind: u8 = 18
    version: u8 = 1
    flags: u8             1 = swept, 2 = the listing under way found something
    closed_ms: uvarint    when a sweep first met it, milliseconds since 1970
    listed_ms: uvarint    when its newest whole listing ended; 0 = never
    clean: uvarint        whole listings in a row that found nothing to delete
"""

from __future__ import annotations

from dataclasses import dataclass

from siltstone.core.records.keys import RowKind
from siltstone.core.records.wire import Reader, head, uvarint

VERSION = 1
_SWEPT = 1
_FOUND = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRow:
    """An epoch that ended, as the sweep knows it.

    Attributes:
        epoch: which.
        closed_ms: when a sweep first met it, milliseconds since 1970; no earlier than its end.
        listed_ms: when its newest whole listing ended, milliseconds since 1970; 0 when never.
        clean: whole listings in a row that found nothing to delete.
        found: whether the listing under way found something.
        swept: whether it is passed over from now on.
    """

    epoch: int
    closed_ms: int
    listed_ms: int = 0
    clean: int = 0
    found: bool = False
    swept: bool = False


def encode_epoch_row(row: EpochRow) -> bytes:
    """Encode the value of the row; the epoch is in its key."""
    flags = (_SWEPT if row.swept else 0) | (_FOUND if row.found else 0)
    numbers = (row.closed_ms, row.listed_ms, row.clean)
    return head(RowKind.EPOCH, VERSION) + bytes((flags,)) + b"".join(map(uvarint, numbers))


def decode_epoch_row(epoch: int, value: bytes) -> EpochRow:
    """Decode the value of the row of ``epoch``.

    Raises:
        FormatError: of another kind or version.
        CorruptDataError: damaged.
    """
    reader = Reader(value, kind=RowKind.EPOCH, version=VERSION, where=f"epoch row {epoch}")
    flags = reader.flags(_SWEPT | _FOUND)
    row = EpochRow(
        epoch=epoch,
        closed_ms=reader.uvarint(),
        listed_ms=reader.uvarint(),
        clean=reader.uvarint(),
        found=bool(flags & _FOUND),
        swept=bool(flags & _SWEPT),
    )
    reader.end()
    return row
