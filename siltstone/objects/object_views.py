"""What readers get: heads, and values after each was compared with its head."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from siltstone.core.constants import Buffer
from siltstone.core.errors import CorruptDataError, FormatError
from siltstone.objects.changes import name_text
from siltstone.objects.errors import LostObjectError
from siltstone.objects.records.head import decode_head
from siltstone.objects.records.keys import decode_head_key
from siltstone.objects.records.value_record import value_of_change

if TYPE_CHECKING:
    from siltstone.objects.records.head import Head, HeadFields
    from siltstone.objects.records.keys import ObjectKey

READS_MAX = 3
"""How often a head is looked up for one value: each time its segment was gone meanwhile."""


class ObjectHead:
    """What is known of an object without its value.

    Names are text: what is no UTF-8 is in surrogates, as in names of files. They are decoded when
    they are looked at, since a fold goes through millions of heads.

    Args:
        key: of the object, or that of its row.
        head: of the object, or the value of its row.
        fields: of the head, where it is the value of a row. Key and value are checked ones then.
    """

    __slots__ = ("_fields", "_found_head", "_found_key")

    def __init__(
        self, key: ObjectKey | bytes, head: Head | bytes, fields: HeadFields | None = None
    ) -> None:
        self._found_key = key
        self._found_head = head
        # Those of a head are its first ones.
        self._fields: HeadFields = head if fields is None else fields  # type: ignore[assignment]

    @property
    def _key(self) -> ObjectKey:
        key = self._found_key
        if type(key) is bytes:
            key = self._found_key = decode_head_key(key)
        return key  # type: ignore[return-value]

    @property
    def _head(self) -> Head:
        head = self._found_head
        if type(head) is bytes:
            head = self._found_head = decode_head(head, where=f"{self._fields[0]}")
        return head  # type: ignore[return-value]

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
        return self._fields[0]

    @property
    def size(self) -> int:
        """Bytes of the value."""
        return self._fields[5]

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
        return self._fields[7] / 1000

    @property
    def expires(self) -> int | None:
        """When it expires, seconds since 1970; ``None`` for never."""
        return self._fields[8] or None

    @property
    def value_hash(self) -> bytes:
        """Eight bytes by which values are compared."""
        return self._fields[6]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """An object with its value.

    Attributes:
        head: what is known of it.
        value: its bytes.
    """

    head: ObjectHead
    value: bytes


def value_of_record(
    key: ObjectKey, head: Head | HeadFields, record: Buffer, *, where: str
) -> bytes:
    """Return the value in the record that a head, or its first fields, names.

    Raises:
        LostObjectError: the bytes are not that record.
    """
    try:
        return value_of_change(record, key, head[0], head[5], head[6], where=where)
    except (CorruptDataError, FormatError) as error:
        raise lost(key, head, where, str(error)) from error


NoteLoss = Callable[["ObjectKey", LostObjectError], None]
"""Told an object whose value is lost."""


def forget_loss(key: ObjectKey, error: LostObjectError) -> None:
    """Note nothing."""


def lost(key: ObjectKey, head: Head | HeadFields, where: str, reason: str) -> LostObjectError:
    """The error for an object whose bytes are damaged or gone."""
    return LostObjectError(
        f"value is lost: {reason}",
        where=where,
        bucket=name_text(key.bucket),
        key=name_text(key.key),
        sqn=head[0],
    )
