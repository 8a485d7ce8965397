"""Entries of keyspaces that have heads only: what a caller asks for, and what it does. Pure.

An entry is a head whose metadata is its value. It has no record, no place and no index.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from siltstone.core.bytes_like import as_bytes
from siltstone.objects.changes import (
    Expected,
    Name,
    check_expected,
    check_ttl,
    hash_of,
    name_bytes,
    object_key,
)
from siltstone.objects.errors import ObjectLimitError
from siltstone.objects.evaluation import (
    LedgerRow,
    Refusal,
    expiry_of,
    failed_condition,
    rows_between,
)
from siltstone.objects.records.head import Head
from siltstone.objects.records.keys import ObjectKey
from siltstone.objects.records.limits import METADATA_BYTES_MAX, SUBKEY_BYTES_MAX
from siltstone.objects.records.space_rows import ENTRY_TAG

if TYPE_CHECKING:
    from typing import Any, SupportsIndex

Conditions = (
    Mapping[tuple[str, str, str], int | None]
    | Mapping[tuple[bytes, bytes, bytes], int | None]
    | Mapping[tuple[Name, Name, Name], int | None]
)
"""By bucket, key and subkey the SQN that an entry must have; ``None`` for absence."""

ENTRIES_MAX: Final = 10_000
"""Most entries of one call: their rows are made without a pause."""


ENTRY_HELD_BYTES: Final = 400
"""About what an entry takes in memory in addition to its names and its value."""


@dataclass(frozen=True, slots=True)
class EntriesResult:
    """What an ``mput`` did.

    Attributes:
        sqn: number of the change, which all its entries have.
        pause: whether the caller should slow down: tier 1 holds three quarters of what it may. The
            change is durable all the same.
    """

    sqn: int
    pause: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EntriesRequest:
    """Entries are to be what this says, all or none.

    Attributes:
        values: the value of each; ``None`` removes the entry.
        hashes: of each value, 8 bytes.
        expected: what entries must be, changed ones or others.
        looked_up: keys whose heads are needed for that.
        ttl_s: seconds until those with a value expire; ``None`` for never.
        expires_s: when they expire instead, seconds since 1970; 0 for never.
        modified_ms: when they were changed, milliseconds since 1970; ``None`` for now.
    """

    values: Mapping[ObjectKey, bytes | None]
    hashes: Mapping[ObjectKey, bytes]
    expected: Mapping[ObjectKey, Expected]
    looked_up: frozenset[ObjectKey]
    ttl_s: int | None = None
    expires_s: int = 0
    modified_ms: int | None = None

    @property
    def held_bytes(self) -> int:
        """About how many bytes of memory its entries hold."""
        size = 0
        for key, value in self.values.items():
            size += ENTRY_HELD_BYTES + sum(map(len, key)) + len(value or b"")
        return size


class EntriesChange(NamedTuple):
    """What a request for entries does.

    Attributes:
        rows: of the ledger, in order.
        heads: of all its entries afterwards; ``None`` when one is absent.
        size: about how many bytes it takes of a frame.
    """

    rows: list[LedgerRow]
    heads: dict[ObjectKey, Head | None]
    size: int


def entry_key(bucket: Name, key: Name, subkey: Name) -> ObjectKey:
    """Return the key of an entry. Raises like ``name_bytes``."""
    below = name_bytes(subkey, what="subkey", most=SUBKEY_BYTES_MAX, least=0)
    return object_key(ENTRY_TAG, bucket, key)._replace(subkey=below)


def entries_request(
    specs: Iterable[tuple[Any, ...]],
    *,
    looks_up: bool,
    expected: Conditions | None = None,
    ttl_s: SupportsIndex | None = None,
) -> EntriesRequest:
    """Return what an ``mput`` asks for.

    Args:
        specs: ``add`` or ``remove``, bucket, key, subkey and value, which ``remove`` may leave out.
            The last spec of an entry counts.
        looks_up: whether heads before the change are looked at.
        expected: by bucket, key and subkey the SQN of an entry; ``None`` for absence.
        ttl_s: seconds until what is added expires.

    Raises:
        ObjectLimitError: a part is too short or too long, or there are too many entries.
        TypeError, ValueError: an argument is something else.
    """
    values: dict[ObjectKey, bytes | None] = {}
    for spec in specs:
        key, value = _entry(spec)
        values[key] = value
        if len(values) > ENTRIES_MAX:
            raise ObjectLimitError(f"an mput has at most {ENTRIES_MAX} entries")
    if not values:
        raise ValueError("an mput needs at least one entry")
    conditions = {entry_key(*name): check_expected(sqn) for name, sqn in (expected or {}).items()}
    if len(conditions) > ENTRIES_MAX:
        raise ObjectLimitError(f"an mput has at most {ENTRIES_MAX} conditions")
    return EntriesRequest(
        values=values,
        hashes={key: hash_of(b"", value) for key, value in values.items() if value is not None},
        expected=conditions,
        looked_up=frozenset((*values, *conditions)) if looks_up else frozenset(),
        ttl_s=check_ttl(ttl_s),
    )


def _entry(spec: Any) -> tuple[ObjectKey, bytes | None]:
    verb, *names = spec if isinstance(spec, tuple) and spec else (None,)
    if verb == "remove" and (len(names) == 3 or (len(names) == 4 and names[3] is None)):
        return entry_key(*names[:3]), None
    if verb != "add" or len(names) != 4:
        raise ValueError(
            "an entry is 'add', bucket, key, subkey and value, or 'remove' without a value"
        )
    value = as_bytes(names[3], what="value")
    if len(value) > METADATA_BYTES_MAX:
        raise ObjectLimitError(
            f"the value of an entry has at most {METADATA_BYTES_MAX} bytes", length=len(value)
        )
    return entry_key(*names[:3]), value


def evaluate_entries(
    request: EntriesRequest, olds: Mapping[ObjectKey, Head | None], sqn: int, now_ms: int
) -> EntriesChange | Refusal:
    """Return what a request does to its entries, or why it does nothing.

    Args:
        request: what is asked for.
        olds: the head of each key that is looked up, expired or not.
        sqn: number of the change.
        now_ms: milliseconds since 1970.
    """
    for key, expected in request.expected.items():
        old = olds[key]
        visible = old if old is not None and old.is_visible(now_ms / 1000) else None
        failed = failed_condition(key, expected, visible)
        if failed is not None:
            return failed
    expires_s = request.expires_s
    if request.ttl_s is not None:
        expires_s = expiry_of(request.ttl_s, now_ms)
    modified_ms = now_ms if request.modified_ms is None else request.modified_ms
    rows: list[LedgerRow] = []
    heads: dict[ObjectKey, Head | None] = {}
    size = 0
    for key, value in request.values.items():
        old = olds.get(key)
        head = None
        if value is not None:
            head = Head(
                sqn=sqn,
                previous=0 if old is None else old.sqn,
                number=0,
                offset=0,
                length=0,
                size=0,
                value_hash=request.hashes[key],
                modified_ms=modified_ms,
                expires_s=expires_s,
                entries=(),
                metadata=value,
            )
        heads[key] = head
        changed, length = rows_between(key, old, head)
        rows += changed
        size += length
    return EntriesChange(rows, heads, size)
