"""What a request does to an object: a record, rows, and what its caller is told. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from siltstone.core.errors import ConditionFailedError, SiltstoneError
from siltstone.core.records.table_record import ENTRY_BYTES
from siltstone.objects.changes import (
    ANY,
    DeleteRequest,
    Expected,
    PutRequest,
    ReapRequest,
    Request,
    UploadedValue,
    check_index,
    hash_of,
    name_text,
)
from siltstone.objects.errors import ObjectLimitError
from siltstone.objects.records.footer import HeaderNote, key_hash
from siltstone.objects.records.head import Head, decode_head, encode_head
from siltstone.objects.records.keys import (
    LargeStatus,
    ObjectKey,
    Pair,
    encode_entries,
    expiry_key,
    head_key,
    index_keys,
    large_key,
)
from siltstone.objects.records.large_row import LargeRow, encode_large_row
from siltstone.objects.records.space_rows import encode_index_entry
from siltstone.objects.records.value_record import RecordHeader, ValueKind, encode_header

EXPIRES_S_MAX: Final = 2**32 - 2
_new_tuple = tuple.__new__
"""Of a named tuple: a third of what its own name takes, and of what naming its fields takes."""
_NO_VALUE: Final = (b"", b"")
_STANDARD: Final = ValueKind.STANDARD

APPEND_BYTES: Final = 512
"""What an append of the last bytes of a large value takes of a frame, and more."""


class SqnIs(NamedTuple):
    """The condition that a ``ConditionFailedError`` of a keyspace names.

    Attributes:
        bucket: of the object.
        key: of the object.
        sqn: what it must have; ``None`` means that the object must be absent.
        subkey: of an entry of a keyspace of heads only; else empty.
    """

    bucket: str
    key: str
    sqn: int | None
    subkey: str = ""


class RecordPlace(NamedTuple):
    """Where the next record goes.

    Attributes:
        sqn: number of the change.
        number: of the active value segment.
        offset: where the record begins in it.
    """

    sqn: int
    number: int
    offset: int


LedgerRow = tuple[bytes, bytes | None]
"""Key and new value of a row of the ledger; ``None`` when it is removed.

Plain tuples of bytes are nothing that Python looks at twice when it looks for garbage.
"""


class ObjectChange(NamedTuple):
    """What a request does.

    Attributes:
        key: of the object.
        parts: bytes of the record, to be joined; none when only rows change.
        note: what the footer takes of it; ``None`` without a record.
        rows: of the ledger, in order.
        encoded: what its head is afterwards, as its row has it; ``None`` when it is absent.
        replaced: SQN of what was visible before; ``None`` for nothing.
        size: about how many bytes it takes of a frame.
        uploaded: a large value that is to be made whole; ``None`` for none.
    """

    key: ObjectKey
    parts: tuple[bytes, ...]
    note: HeaderNote | None
    rows: list[LedgerRow]
    encoded: bytes | None
    replaced: int | None
    size: int
    uploaded: UploadedValue | None = None

    @property
    def head(self) -> Head | None:
        """The head of the object afterwards; ``None`` when it is absent."""
        return None if self.encoded is None else decode_head(self.encoded, where="a change")


Refusal = SiltstoneError
"""Why a request does nothing; an object that is to be deleted and is absent is ``None``."""


def evaluate(
    request: Request, old: Head | None, place: RecordPlace, now_ms: int
) -> ObjectChange | Refusal | None:
    """Return what a request does to an object.

    Args:
        request: what is asked for.
        old: the object's head, expired or not; ``None`` when it has none.
        place: where a record of it goes.
        now_ms: milliseconds since 1970.

    Returns:
        The change; why there is none; or ``None`` when there is nothing to do.
    """
    visible = old if old is not None and old.is_visible(now_ms / 1000) else None
    if type(request) is PutRequest:
        if request.expected is not ANY:
            failed = failed_condition(request.key, request.expected, visible)
            if failed is not None:
                return failed
        return _put(request, old, visible, place, now_ms)
    if type(request) is DeleteRequest:
        failed = failed_condition(request.key, request.expected, visible)
        if failed is not None or visible is None:
            return failed
        return _delete(request.key, visible, place, now_ms)
    assert type(request) is ReapRequest
    return _reap(request, old)


def failed_condition(key: ObjectKey, expected: Expected, visible: Head | None) -> Refusal | None:
    """Why an object, of which this is visible, is not as expected; ``None`` if it is."""
    if expected is ANY:
        return None
    current = None if visible is None else visible.sqn
    if current == expected:
        return None
    names = name_text(key.bucket), name_text(key.key)
    condition = SqnIs(*names, expected, name_text(key.subkey))
    return ConditionFailedError(condition=condition, current=current)


def expiry_of(ttl_s: int, now_ms: int) -> int:
    """When what is to stay so long expires, seconds since 1970: not sooner than was asked for."""
    return min(-(-now_ms // 1000) + ttl_s, EXPIRES_S_MAX)


def _put(
    request: PutRequest, old: Head | None, visible: Head | None, place: RecordPlace, now_ms: int
) -> ObjectChange | Refusal:
    key, value, crc, hashed, metadata, index = request[:6]
    encoded, uploaded = request.encoded, request.uploaded
    if index is None:
        before = () if visible is None else visible.entries
        index = tuple(sorted(request.added.union(before) - request.removed))
        encoded = encode_entries(index)
        try:
            check_index(key, index, len(encoded))
        except ObjectLimitError as error:
            return error
    elif encoded is None:
        encoded = encode_entries(index)
    expires_s = request.expires_s
    if request.ttl_s is not None:
        expires_s = expiry_of(request.ttl_s, now_ms)
    modified_ms = now_ms if request.modified_ms is None else request.modified_ms
    previous = 0 if old is None else old.sqn
    stored = len(value)
    size, large = (stored, None) if uploaded is None else (uploaded.size, uploaded.place)
    sqn, number, offset = place
    of_value = (size, hashed, expires_s, key, index, metadata, stored, large)
    header: RecordHeader = _new_tuple(
        RecordHeader, (_STANDARD, sqn, previous, modified_ms, *of_value)
    )
    raw = encode_header(header, encoded)
    length = len(raw) + stored + len(crc)
    of_place = (sqn, previous, number, offset, length, size)
    of_object = (hashed, modified_ms, expires_s, index, metadata, large)
    head: Head = _new_tuple(Head, (*of_place, *of_object))
    row = encode_head(head, encoded)
    rows = _rows(key, old, head, row)
    note = _new_tuple(HeaderNote, (raw, sqn, key_hash(key), length))
    replaced = None if visible is None else visible.sqn
    frame = length + _size(rows) + (0 if uploaded is None else APPEND_BYTES)
    parts = (raw, value, crc)
    return _new_tuple(ObjectChange, (key, parts, note, rows, row, replaced, frame, uploaded))


def _delete(key: ObjectKey, old: Head, place: RecordPlace, now_ms: int) -> ObjectChange:
    header = RecordHeader(
        kind=ValueKind.TOMBSTONE,
        sqn=place.sqn,
        previous=old.sqn,
        modified_ms=now_ms,
        size=0,
        value_hash=hash_of(*_NO_VALUE),
        expires_s=0,
        key=key,
        entries=(),
        metadata=b"",
        stored=0,
    )
    raw = encode_header(header)
    rows = _rows(key, old, None, None)
    return ObjectChange(
        key=key,
        parts=(raw,),
        note=HeaderNote(raw, place.sqn, key_hash(key), len(raw)),
        rows=rows,
        encoded=None,
        replaced=old.sqn,
        size=len(raw) + _size(rows),
    )


def _reap(request: ReapRequest, old: Head | None) -> ObjectChange | None:
    """What has expired goes from the ledger, without a record: its own says when it expires."""
    if old is None or old.expires_s != request.expires_s:
        row = (expiry_key(request.key, request.expires_s), None)
        encoded = None if old is None else encode_head(old)
        return ObjectChange(request.key, (), None, [row], encoded, None, _size([row]))
    rows = _rows(request.key, old, None, None)
    return ObjectChange(request.key, (), None, rows, None, None, _size(rows))


def _rows(
    key: ObjectKey, old: Head | None, new: Head | None, encoded: bytes | None
) -> list[LedgerRow]:
    """Rows that differ between what an object was and what it becomes, which is also ``encoded``.

    The keys of other rows are not even made: they are most of what this would cost.
    """
    rows: list[LedgerRow] = [(head_key(key), encoded)]
    old_s, before = (0, ()) if old is None else (old.expires_s, old.entries)
    new_s, after = (0, ()) if new is None else (new.expires_s, new.entries)
    if before != after or old_s != new_s:
        written: Collection[Pair] = after
        if before:
            kept = set(before).intersection(after)
            gone = [each for each in before if each not in kept]
            rows += [(row_key, None) for row_key in index_keys(key, gone)]
            if old_s == new_s:
                written = [each for each in after if each not in kept]
        value = encode_index_entry(new_s)
        rows += [(row_key, value) for row_key in index_keys(key, written)]
    if old_s != new_s:
        if old_s:
            rows.append((expiry_key(key, old_s), None))
        if new_s:
            rows.append((expiry_key(key, new_s), b""))
    if old is not None and old.large is not None:
        rows += _moved(LargeStatus.LIVE, LargeStatus.DEAD, old.large.number, old)
    if new is not None and new.large is not None:
        rows += _moved(LargeStatus.UPLOADING, LargeStatus.LIVE, new.large.number, new)
    return rows


def rows_between(key: ObjectKey, old: Head | None, new: Head | None) -> tuple[list[LedgerRow], int]:
    """Rows that differ between what an object was and what it becomes, and their bytes."""
    rows = _rows(key, old, new, None if new is None else encode_head(new))
    return rows, _size(rows)


def _moved(before: LargeStatus, after: LargeStatus, number: int, head: Head) -> list[LedgerRow]:
    row = encode_large_row(LargeRow(head.sqn, head.size))
    return [(large_key(before, number), None), (large_key(after, number), row)]


def _size(rows: list[LedgerRow]) -> int:
    size = ENTRY_BYTES * len(rows)
    for key, value in rows:
        size += len(key) + len(value or b"")
    return size
