"""The object ``system/store`` on long-term storage: which store this is, fixed for its life.

It is created exclusively when the store is made, and read whenever it is opened, so that no process
works on another store's chunks or on a format that it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.error_facts import add_facts
from siltstone.core.errors import (
    ChunkExistsError,
    ChunkNotFoundError,
    CorruptDataError,
    StoreError,
    StoreExistsError,
    StoreNotFoundError,
)
from siltstone.core.records.store_manifest import (
    StoreManifest,
    decode_store_manifest,
    encode_store_manifest,
)
from siltstone.core.text import uuid_text
from siltstone.segments.simplified_layout import SIMPLIFIED, holds_simplified

MANIFEST_NAME: Final = "system/store"
COPY_NAME: Final = "system/store-copy"
"""The store manifest at a place that is not a store's yet, as long as bytes are brought there."""
MOVED_NAME: Final = "system/store-moved"
"""The store manifest at an old place that is no longer the store's."""

_BYTES_MAX: Final = 64 * 1024


def create_manifest(storage: ChunkStorage, manifest: StoreManifest) -> None:
    """Make the store on ``storage``.

    Raises:
        StoreExistsError: another process made one meanwhile; nothing was changed.
    """
    try:
        storage.create(MANIFEST_NAME, [encode_store_manifest(manifest)])
    except ChunkExistsError as error:
        raise StoreExistsError("long-term storage holds a store already") from error


def read_manifest(storage: ChunkStorage, name: str = MANIFEST_NAME) -> StoreManifest:
    """Return what ``storage`` says of the store that it holds.

    Args:
        storage: where the store is.
        name: of the manifest.

    Raises:
        StoreNotFoundError: it holds none, or none any more.
        FormatError: a newer version made it.
        CorruptDataError: it is damaged.
    """
    found = read_manifest_at(storage, name)
    if found is None:
        check_not_moved(storage)
        if (simplified := holds_simplified(storage)) is not None:
            raise StoreNotFoundError(
                f"long-term storage holds no store: {SIMPLIFIED}", found=simplified
            )
        raise StoreNotFoundError("long-term storage holds no store", missing=name)
    return found


def check_not_moved(storage: ChunkStorage) -> None:
    """Refuse a place that a store has left: its log belongs to another place now.

    Raises:
        StoreNotFoundError: a switch has taken its name away.
    """
    try:
        storage.stat(MOVED_NAME)
    except ChunkNotFoundError:
        return
    raise StoreNotFoundError(
        "the store was switched to another long-term storage: open it by its new settings; if the "
        "switch was interrupted, repeat it",
        found=MOVED_NAME,
    )


def check_there(storage: ChunkStorage) -> None:
    """Refuse a place that no longer is a store's. Raises ``StoreNotFoundError``."""
    try:
        storage.stat(MANIFEST_NAME)
    except ChunkNotFoundError as error:
        check_not_moved(storage)
        text = "long-term storage holds no store any more"
        raise StoreNotFoundError(text, missing=MANIFEST_NAME) from error


def check_not_left(storage: ChunkStorage) -> None:
    """Say of a place that lacks something whether that is because a switch took the store away.

    Raises:
        StoreNotFoundError: it did. A place that lost its name otherwise is no reason to raise.
    """
    try:
        storage.stat(MANIFEST_NAME)
    except ChunkNotFoundError:
        check_not_moved(storage)


def read_manifest_at(storage: ChunkStorage, name: str) -> StoreManifest | None:
    """The manifest under a name of its own; ``None`` when nothing has it. Raises as above."""
    try:
        length = storage.stat(name).length
        if length > _BYTES_MAX:
            raise CorruptDataError("record is too long", where=name, length=length)
        buffer = bytearray(length)
        count = storage.read_into(name, 0, buffer)
    except ChunkNotFoundError:
        return None  # It may have been taken away between the two calls.
    return decode_store_manifest(memoryview(buffer)[:count], where=name)


def check_uuid(
    manifest: StoreManifest, expected: str | None, place: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Refuse another store than the settings file was made for; ``None`` expects none.

    ``place`` says where it is, for the message.

    Raises:
        StoreError: the two uuids differ.
    """
    if expected is not None and uuid_text(manifest.store_id) != expected:
        error = StoreError(
            "long-term storage holds another store than the settings name",
            found=uuid_text(manifest.store_id),
            expected=expected,
        )
        add_facts(error, place)
        raise error
