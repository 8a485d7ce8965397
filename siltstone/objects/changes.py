"""What an application asks for, checked and with bytes of its own: the requests of one object.

Pure. Names are bytes, or text in UTF-8; what is no UTF-8 is told as file names are, with surrogates
(``os.fsdecode``), and taken so.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from siltstone.core.bytes_like import as_bytes
from siltstone.core.whole_number import whole_number
from siltstone.objects.errors import ObjectLimitError
from siltstone.objects.records.keys import (
    INDEX_KEY_BYTES,
    IndexEntry,
    ObjectKey,
    Pair,
    encode_entries,
    index_keys,
)
from siltstone.objects.records.limits import (
    FIELD_BYTES_MAX,
    INDEX_BYTES_MAX,
    METADATA_BYTES_MAX,
    NAME_BYTES_MAX,
    VALUE_BYTES_MAX,
)
from siltstone.objects.records.value_record import encode_value_sum

if TYPE_CHECKING:
    from typing import SupportsIndex

    from siltstone.core.bytes_like import BytesLike
    from siltstone.objects.records.large_place import LargePlace

Name = bytes | str
"""A bucket, key, field or term."""

Terms = Mapping[str, Iterable[Name]] | Mapping[bytes, Iterable[Name]]
"""By field its terms."""

Spec = tuple[str, Name, Name]
"""``add`` or ``remove``, a field and a term."""

_ONE_NAME: Final = (str, bytes)
_NO_ENTRIES: Final = frozenset[Pair]()
_new_tuple = tuple.__new__
"""Of a named tuple: a third of what its own name takes."""

STANDARD: Final = "o"
"""The tag of objects that are given none."""

HASH_BYTES: Final = 8
_LENGTH: Final = struct.Struct("<I")
_NO_METADATA: Final = blake2b(_LENGTH.pack(0), digest_size=HASH_BYTES)
"""What ``hash_after`` is of none; never updated, only copied."""
TTL_S_MAX: Final = 2**31
"""Most seconds until an object expires: 68 years."""


class Unset(Enum):
    """An argument that was not given."""

    ANY = "any"
    """Whatever the object is."""


Expected = int | None | Literal[Unset.ANY]
"""The SQN that an object must have; ``None`` means that it must be absent."""

ANY: Final = Unset.ANY
"""The same object, without looking for it in its class."""


class UploadedValue(NamedTuple):
    """A large value whose segment has all bytes but the last few, which the commit appends.

    Attributes:
        place: where it lies.
        size: its bytes.
        segment: name of the segment.
        length: what the segment has, in bytes.
        last: what it lacks.
        version: of the row that says that it is being uploaded.
    """

    place: LargePlace
    size: int
    segment: str
    length: int
    last: bytes
    version: int


class PutRequest(NamedTuple):
    """An object is to be what this says.

    Attributes:
        key: of the object.
        value: its bytes; none of an uploaded one.
        value_crc: what follows them in the record.
        value_hash: 8 bytes; none as long as a value over ``VALUE_BYTES_MAX`` was not looked at.
        metadata: what the caller notes.
        entries: all of its index, in order; ``None`` when ``specs`` say what changes.
        added: entries to add to those of the object before.
        removed: entries to take from them.
        expected: what the object must be.
        ttl_s: seconds until it expires; ``None`` for never.
        uploaded: a large value; ``None`` means that it is ``value``.
        expires_s: when it expires without ``ttl_s``, seconds since 1970; 0 for never.
        modified_ms: when it was changed, milliseconds since 1970; ``None`` for now.
        encoded: what ``encode_entries`` makes of ``entries``; ``None`` where that is not known.
    """

    key: ObjectKey
    value: bytes
    value_crc: bytes
    value_hash: bytes
    metadata: bytes
    entries: tuple[Pair, ...] | None
    added: frozenset[Pair]
    removed: frozenset[Pair]
    expected: Expected
    ttl_s: int | None
    uploaded: UploadedValue | None = None
    expires_s: int = 0
    modified_ms: int | None = None
    encoded: bytes | None = None


@dataclass(slots=True, kw_only=True)
class DeleteRequest:
    """An object is to be absent.

    Attributes:
        key: of the object.
        expected: what the object must be.
    """

    key: ObjectKey
    expected: Expected


@dataclass(slots=True, kw_only=True)
class ReapRequest:
    """What is left of an object that has expired is to go.

    Attributes:
        key: of the object.
        expires_s: when it expired, seconds since 1970.
    """

    key: ObjectKey
    expires_s: int


@dataclass(slots=True)
class NumberRequest:
    """A number is wanted for a value segment that is no roll."""


Request = PutRequest | DeleteRequest | ReapRequest
"""What is asked for one object."""


def name_bytes(name: Name, *, what: str, most: int = NAME_BYTES_MAX, least: int = 1) -> bytes:
    """Return a name as bytes.

    Raises:
        TypeError: neither bytes nor text.
        ValueError: text with surrogates that stand for no byte.
        ObjectLimitError: too short or too long.
    """
    if isinstance(name, str):
        try:
            raw = name.encode()  # takes half the time
        except UnicodeEncodeError:
            raw = _escaped_bytes(name, what)
    else:
        raw = as_bytes(name, what=what)
    if not least <= len(raw) <= most:
        raise ObjectLimitError(f"a {what} has {least} to {most} bytes", length=len(raw))
    return raw


def _escaped_bytes(name: str, what: str) -> bytes:
    try:
        return name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise ValueError(f"a {what} has a surrogate that stands for no byte") from error


def name_text(raw: bytes) -> str:
    """Return a name as text, from which ``name_bytes`` makes the same bytes."""
    try:
        return raw.decode()  # takes half the time
    except UnicodeDecodeError:
        return raw.decode("utf-8", "surrogateescape")


def object_key(tag: str, bucket: Name, key: Name) -> ObjectKey:
    """Return the key of an object. Raises like ``name_bytes``."""
    names = name_bytes(bucket, what="bucket"), name_bytes(key, what="key")
    return _new_tuple(ObjectKey, (tag.encode(), *names, b""))


def hash_of(value: bytes, metadata: bytes) -> bytes:
    """BLAKE2b of 8 bytes, of the metadata after its length and of the value."""
    found = hash_after(metadata)
    found.update(value)
    return found.digest()


def hash_after(metadata: bytes) -> blake2b:
    """What ``hash_of`` is of the metadata, to be continued with the value."""
    if not metadata:
        return _NO_METADATA.copy()
    found = blake2b(_LENGTH.pack(len(metadata)), digest_size=HASH_BYTES)
    found.update(metadata)
    return found


def check_expected(expected: Expected | SupportsIndex) -> Expected:
    """Return what an object must be. Raises ``TypeError`` for what is no SQN."""
    if expected is ANY or expected is None:
        return expected
    return whole_number(expected, what="expected")


def check_ttl(ttl_s: SupportsIndex | None) -> int | None:
    """Return how long an object is to stay. Raises ``TypeError`` and ``ValueError``."""
    if ttl_s is None:
        return None
    seconds = whole_number(ttl_s, what="ttl_s")
    if not 1 <= seconds <= TTL_S_MAX:
        raise ValueError(f"ttl_s is 1 to {TTL_S_MAX} seconds, not {seconds}")
    return seconds


def put_request(
    key: ObjectKey,
    value: BytesLike,
    *,
    metadata: BytesLike = b"",
    index: Terms | None = None,
    specs: Iterable[Spec] | None = None,
    expected: Expected | SupportsIndex = ANY,
    ttl_s: SupportsIndex | None = None,
    value_hash: BytesLike | None = None,
) -> PutRequest:
    """Return what a put asks for.

    Raises:
        ObjectLimitError: a part is too long.
        TypeError, ValueError: an argument is something else.
    """
    raw = as_bytes(value, what="value")
    noted = as_bytes(metadata, what="metadata")
    if len(noted) > METADATA_BYTES_MAX:
        raise ObjectLimitError(
            f"metadata has at most {METADATA_BYTES_MAX} bytes", length=len(noted)
        )
    entries: tuple[Pair, ...] | None = None
    encoded: bytes | None = None
    added = removed = _NO_ENTRIES
    if specs is None:
        entries = index_entries(index)
        encoded = encode_entries(entries)
        check_index(key, entries, len(encoded))
    elif index is not None:
        raise ValueError("an index is given as a whole or by specs, not both")
    else:
        added, removed = spec_entries(specs)
    large = len(raw) > VALUE_BYTES_MAX  # it is looked at while it is uploaded
    if value_hash is None:
        hashed = b"" if large else hash_of(raw, noted)
    else:
        hashed = as_bytes(value_hash, what="value_hash")
        if len(hashed) != HASH_BYTES:
            raise ValueError(f"a value hash has {HASH_BYTES} bytes, not {len(hashed)}")
    crc = b"" if large else encode_value_sum(raw)
    of_value = (raw, crc, hashed, noted)
    what = (entries, added, removed, check_expected(expected), check_ttl(ttl_s))
    return _new_tuple(PutRequest, (key, *of_value, *what, None, 0, None, encoded))


def with_value(request: PutRequest, value: bytes, *, hashed: bool) -> PutRequest:
    """Return the same put of another value, whose hash is the one there unless it is ``hashed``."""
    value_hash = hash_of(value, request.metadata) if hashed else request.value_hash
    crc = encode_value_sum(value)
    return request._replace(value=value, value_crc=crc, value_hash=value_hash)


def index_entries(index: Terms | None) -> tuple[Pair, ...]:
    """Return the entries of an index, in order, each once. Raises like ``name_bytes``.

    Raises:
        TypeError: it is no mapping, or the terms of a field are one name.
    """
    if index is None:
        return ()
    if not isinstance(index, Mapping):
        raise TypeError(f"an index has terms by field, which {type(index).__name__} has not")
    found: list[Pair] = []
    for field, terms in index.items():
        if isinstance(terms, _ONE_NAME):
            raise TypeError(f"terms of {field!r} are a list of them, not one")
        name = _known_field(field)
        found += [(name, _term(term)) for term in terms]
    found.sort()
    before = None
    for entry in found:
        if entry == before:  # a set of them takes longer to make
            return tuple(dict.fromkeys(found))
        before = entry
    return tuple(found)


def _field(field: Name) -> bytes:
    return name_bytes(field, what="field", most=FIELD_BYTES_MAX)


@lru_cache(maxsize=1_024)
def _known_field(field: Name) -> bytes:
    """``_field`` of what can be the key of a mapping."""
    return _field(field)


def _term(term: Name) -> bytes:
    if type(term) is str and len(term) <= NAME_BYTES_MAX and term.isascii():
        return term.encode()  # the plain case, without a call
    return name_bytes(term, what="term", least=0)


def spec_entries(specs: Iterable[Spec]) -> tuple[frozenset[IndexEntry], frozenset[IndexEntry]]:
    """Return what specs add and what they remove; a later spec of the same entry wins.

    Raises:
        ValueError: a spec is neither ``add`` nor ``remove``.
    """
    last: dict[IndexEntry, str] = {}
    for spec in specs:
        try:
            verb, field, term = spec
        except (TypeError, ValueError) as error:
            raise ValueError("a spec is 'add' or 'remove', a field and a term") from error
        if verb not in ("add", "remove"):
            raise ValueError(f"a spec is 'add' or 'remove', not {verb!r}")
        last[IndexEntry(_field(field), _term(term))] = verb
    return (
        frozenset(entry for entry, verb in last.items() if verb == "add"),
        frozenset(entry for entry, verb in last.items() if verb == "remove"),
    )


def check_index(key: ObjectKey, entries: Collection[Pair], encoded: int) -> None:
    """Refuse more than the index rows of an object may have.

    Args:
        key: of the object.
        entries: of its index.
        encoded: bytes of what ``encode_entries`` makes of them.

    Raises:
        ObjectLimitError: there are more.
    """
    tag, bucket, name, _ = key
    names = 2 * (len(tag) + len(bucket) + len(name))
    if len(entries) * (names + INDEX_KEY_BYTES) + 2 * encoded <= INDEX_BYTES_MAX:
        return  # whatever has to be escaped: almost always
    size = sum(map(len, index_keys(key, entries)))
    if size > INDEX_BYTES_MAX:
        raise ObjectLimitError(
            f"keys of the index rows of an object have at most {INDEX_BYTES_MAX} bytes",
            length=size,
        )
