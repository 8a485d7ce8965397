"""What readers get: heads, and values after each was compared with its head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from siltstone.core.errors import CorruptDataError, FormatError
from siltstone.objects.changes import name_text
from siltstone.objects.errors import LostObjectError
from siltstone.objects.records.value_record import ValueKind, decode_record

if TYPE_CHECKING:
    from siltstone.objects.records.head import Head
    from siltstone.objects.records.keys import ObjectKey

READS_MAX = 3
"""How often a head is looked up for one value: each time its segment was gone meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectHead:
    """What is known of an object without its value.

    Names are text: what is no UTF-8 is in surrogates, as in names of files.

    Attributes:
        bucket: of the object.
        key: its name in the bucket.
        tag: of its kind.
        sqn: number of the change that made it what it is.
        size: bytes of the value.
        metadata: what the caller noted.
        index: by field its terms, in order.
        modified: when it was changed, seconds since 1970.
        expires: when it expires, seconds since 1970; ``None`` for never.
        value_hash: 8 bytes.
    """

    bucket: str
    key: str
    tag: str
    sqn: int
    size: int
    metadata: bytes
    index: dict[str, tuple[str, ...]]
    modified: float
    expires: int | None
    value_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """An object with its value.

    Attributes:
        head: what is known of it.
        value: its bytes.
    """

    head: ObjectHead
    value: bytes


def public_head(key: ObjectKey, head: Head) -> ObjectHead:
    """What users see of a head."""
    index: dict[str, tuple[str, ...]] = {}
    for field, term in head.entries:
        name = name_text(field)
        index[name] = (*index.get(name, ()), name_text(term))
    return ObjectHead(
        bucket=name_text(key.bucket),
        key=name_text(key.key),
        tag=key.tag.decode(),
        sqn=head.sqn,
        size=head.size,
        metadata=head.metadata,
        index=index,
        modified=head.modified_ms / 1000,
        expires=head.expires_s or None,
        value_hash=head.value_hash,
    )


def value_of_record(key: ObjectKey, head: Head, record: bytes, *, where: str) -> bytes:
    """Return the value in the record that a head names.

    Raises:
        LostObjectError: the bytes are not that record.
    """
    try:
        header, value = decode_record(record, where=where)
    except (CorruptDataError, FormatError) as error:
        raise lost(key, head, where, str(error)) from error
    if (
        header.kind is not ValueKind.STANDARD
        or (header.sqn, header.key) != (head.sqn, key)
        or (header.value_hash, header.size) != (head.value_hash, head.size)
    ):
        raise lost(key, head, where, "another record is there")
    return value


def lost(key: ObjectKey, head: Head, where: str, reason: str) -> LostObjectError:
    """The error for an object whose bytes are damaged or gone."""
    return LostObjectError(
        f"value is lost: {reason}",
        where=where,
        bucket=name_text(key.bucket),
        key=name_text(key.key),
        sqn=head.sqn,
    )
