"""What readers get: heads, and values after each was compared with its head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from siltstone.core.constants import Buffer
from siltstone.core.errors import CorruptDataError, FormatError
from siltstone.objects.changes import name_text
from siltstone.objects.errors import LostObjectError
from siltstone.objects.records.value_record import value_of_change

if TYPE_CHECKING:
    from siltstone.objects.records.head import Head
    from siltstone.objects.records.keys import ObjectKey

READS_MAX = 3
"""How often a head is looked up for one value: each time its segment was gone meanwhile."""


class ObjectHead:
    """What is known of an object without its value.

    Names are text: what is no UTF-8 is in surrogates, as in names of files. They are decoded when
    they are looked at, since a fold goes through millions of heads.
    """

    __slots__ = ("_head", "_key")

    def __init__(self, key: ObjectKey, head: Head) -> None:
        self._key = key
        self._head = head

    def __repr__(self) -> str:
        return (
            f"ObjectHead(bucket={self.bucket!r}, key={self.key!r}, tag={self.tag!r},"
            f" sqn={self.sqn}, size={self.size})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ObjectHead):
            return NotImplemented
        return (self._key, self._head) == (other._key, other._head)

    def __hash__(self) -> int:
        return hash((self._key, self._head))

    @property
    def bucket(self) -> str:
        """The bucket of the object."""
        return name_text(self._key.bucket)

    @property
    def key(self) -> str:
        """Its name in the bucket."""
        return name_text(self._key.key)

    @property
    def tag(self) -> str:
        """The tag of its kind."""
        return name_text(self._key.tag)

    @property
    def subkey(self) -> str:
        """Its name below the key, in a keyspace of heads only; else empty."""
        return name_text(self._key.subkey)

    @property
    def sqn(self) -> int:
        """Number of the change that made it what it is."""
        return self._head.sqn

    @property
    def size(self) -> int:
        """Bytes of the value."""
        return self._head.size

    @property
    def metadata(self) -> bytes:
        """What the caller noted; the value of an entry in a keyspace of heads only."""
        return self._head.metadata

    @property
    def index(self) -> dict[str, tuple[str, ...]]:
        """By field its terms, in order."""
        index: dict[str, tuple[str, ...]] = {}
        for field, term in self._head.entries:
            name = name_text(field)
            index[name] = (*index.get(name, ()), name_text(term))
        return index

    @property
    def modified(self) -> float:
        """When it was changed, seconds since 1970."""
        return self._head.modified_ms / 1000

    @property
    def expires(self) -> int | None:
        """When it expires, seconds since 1970; ``None`` for never."""
        return self._head.expires_s or None

    @property
    def value_hash(self) -> bytes:
        """Eight bytes by which values are compared."""
        return self._head.value_hash


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """An object with its value.

    Attributes:
        head: what is known of it.
        value: its bytes.
    """

    head: ObjectHead
    value: bytes


def value_of_record(key: ObjectKey, head: Head, record: Buffer, *, where: str) -> bytes:
    """Return the value in the record that a head names.

    Raises:
        LostObjectError: the bytes are not that record.
    """
    try:
        return value_of_change(record, key, head.sqn, head.size, head.value_hash, where=where)
    except (CorruptDataError, FormatError) as error:
        raise lost(key, head, where, str(error)) from error


def lost(key: ObjectKey, head: Head, where: str, reason: str) -> LostObjectError:
    """The error for an object whose bytes are damaged or gone."""
    return LostObjectError(
        f"value is lost: {reason}",
        where=where,
        bucket=name_text(key.bucket),
        key=name_text(key.key),
        sqn=head.sqn,
    )
