"""The names of the objects of collections that consensus makes. Pure functions.

::

    collections/consensus
    collections/<id, 32 hex>/entries/<2^64 - 1 - seqno, 16 hex>
    collections/<id, 32 hex>/rollups/<seqno, 20 digits>-<nonce, 16 hex>

Numbers of entries count down, so that a listing shows the newest first: on a bucket that keeps
versions, names that were deleted are passed over one by one, and those are the oldest.
"""

from __future__ import annotations

import re
from typing import Final

from siltstone.core.errors import CorruptDataError
from siltstone.core.records.collection_entry import Rollup

COLLECTIONS_PREFIX: Final = "collections/"

CHOICE_NAME: Final = "collections/consensus"
"""Which consensus the collections of the store use; it is there before any of them."""

_U64_MAX: Final = 2**64 - 1
_ID: Final = re.compile(r"collections/([0-9a-f]{32})/")
_ENTRY: Final = re.compile(r"[0-9a-f]{16}")
_ROLLUP: Final = re.compile(r"([0-9]{20})-([0-9a-f]{16})")


def collection_prefix(collection_id: bytes) -> str:
    """Return what the names of all objects of a collection begin with."""
    return f"{COLLECTIONS_PREFIX}{collection_id.hex()}/"


def after_collection(collection_id: bytes) -> str:
    """Return a name above all those of a collection, and below those of the next one."""
    return f"{COLLECTIONS_PREFIX}{collection_id.hex()}0"


def entries_prefix(collection_id: bytes) -> str:
    """Return what the names of entries begin with."""
    return f"{collection_prefix(collection_id)}entries/"


def rollups_prefix(collection_id: bytes) -> str:
    """Return what the names of rollups begin with."""
    return f"{collection_prefix(collection_id)}rollups/"


def entry_name(collection_id: bytes, seqno: int) -> str:
    """Return the name of an entry."""
    return f"{entries_prefix(collection_id)}{_U64_MAX - seqno:016x}"


def rollup_name(collection_id: bytes, rollup: Rollup) -> str:
    """Return the name of a rollup."""
    return f"{rollups_prefix(collection_id)}{rollup.seqno:020}-{rollup.nonce:016x}"


def id_of(name: str) -> bytes | None:
    """Return the collection that an object belongs to; ``None`` if it belongs to none."""
    found = _ID.match(name)
    return None if found is None else bytes.fromhex(found[1])


def is_entry(collection_id: bytes, name: str) -> bool:
    """Return whether an object is in the folder of the entries."""
    return name.startswith(entries_prefix(collection_id))


def seqno_of(name: str) -> int:
    """Return the seqno of an entry. Raises ``CorruptDataError`` if it is not the name of one."""
    number = name.rpartition("/")[2]
    if not _ENTRY.fullmatch(number):
        raise CorruptDataError("not the name of an entry of a collection", where=name)
    return _U64_MAX - int(number, 16)


def rollup_key(name: str) -> tuple[int, int]:
    """Return seqno and nonce of a rollup.

    Raises:
        CorruptDataError: it is not the name of one.
    """
    found = _ROLLUP.fullmatch(name.rpartition("/")[2])
    if found is None:
        raise CorruptDataError("not the name of a rollup of a collection", where=name)
    return int(found[1]), int(found[2], 16)
