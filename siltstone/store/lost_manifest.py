"""A store whose object ``system/store`` is missing or damaged: what it must have said."""

from __future__ import annotations

import re
import uuid
from contextlib import suppress

from siltstone.container.models.recovery_report import RecoveryReport
from siltstone.core.checksums import crc32c
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import container_of
from siltstone.core.environment import Environment
from siltstone.core.errors import (
    ChunkExistsError,
    ChunkNotFoundError,
    CorruptDataError,
    StoreExistsError,
    StoreNotFoundError,
)
from siltstone.core.records.store_manifest import StoreManifest
from siltstone.core.storage.optional_verbs import uri_of
from siltstone.store.manifest import MANIFEST_NAME, check_not_moved, create_manifest

_FOLDERS = ("system/c", "data/c", "import/c")
_CONTAINER = re.compile(
    r"(?:(?:system|data)/c([0-9]{1,4})/e[0-9]{20}|import/c([0-9]{1,4})/[0-9a-f]{16})/"
)


def stand_in(
    storage: ChunkStorage, settings_uuid: str | None, environment: Environment
) -> StoreManifest:
    """Return the manifest of the store that files of containers on ``storage`` are of.

    Args:
        storage: long-term storage.
        settings_uuid: what the settings file says; ``None`` when it says nothing.
        environment: gives the time that stands for the unknown time of creation.

    Raises:
        StoreNotFoundError: there are no such files, nothing says which store it was, or it was
            switched to another place.
        ChunkError: long-term storage failed.
    """
    check_not_moved(storage)
    highest = highest_container(storage)
    if highest < 0:
        raise StoreNotFoundError("long-term storage holds no store", missing=MANIFEST_NAME)
    if settings_uuid is None:
        raise StoreNotFoundError(
            "neither long-term storage nor the settings say the uuid of the store",
            missing=MANIFEST_NAME,
        )
    return StoreManifest(
        store_id=uuid.UUID(settings_uuid).bytes,
        container_count=highest + 1,
        created_ms=int(environment.time() * 1000),
    )


def highest_container(storage: ChunkStorage) -> int:
    """Return the highest index of a container that has files on ``storage``; -1 without any."""
    return max(_highest(storage, folder) for folder in _FOLDERS)


def _highest(storage: ChunkStorage, folder: str) -> int:
    """The highest container that has files below ``folder``, one call for each; -1 without any."""
    highest = -1
    start_after = ""
    while True:
        names = (stat.name for stat in storage.list(folder, start_after))
        match = next(filter(None, map(_CONTAINER.match, names)), None)
        if match is None:
            return highest
        number = match[1] or match[2]
        highest = max(highest, int(number))
        # The character after the slash: all that lies below this container is before it.
        start_after = f"{folder}{number}0"


def check_count(reports: list[RecoveryReport], count: int) -> None:
    """Check by the names of segments that a store has this many containers.

    Raises:
        CorruptDataError: a segment lies in a container that its name does not lead to.
    """
    for report in reports:
        for segment in report.segments:
            if container_of(segment.name, count) != report.container:
                raise CorruptDataError(
                    "containers of the store are missing, so it cannot be told how many it had",
                    where=MANIFEST_NAME,
                    segment=segment.name,
                    container=report.container,
                    found=count,
                )


def write_anew(storage: ChunkStorage, manifest: StoreManifest) -> None:
    """Write the manifest; what is damaged there is kept next to it, if it has any byte.

    May be repeated after a failure.

    Raises:
        ChunkError: long-term storage failed.
        StoreExistsError: another process wrote one meanwhile; or a folder has its name.
    """
    try:
        length = storage.stat(MANIFEST_NAME).length
    except ChunkNotFoundError:
        pass
    else:
        damaged = bytearray(length)
        if length:
            storage.read_into(MANIFEST_NAME, 0, damaged)
            with suppress(ChunkExistsError):  # a try before this one kept it
                storage.create(f"{MANIFEST_NAME}-damaged-{crc32c(damaged):08x}", [damaged])
        storage.delete(MANIFEST_NAME)
    try:
        create_manifest(storage, manifest)
    except StoreExistsError as error:
        with suppress(ChunkNotFoundError):
            storage.stat(MANIFEST_NAME)
            raise
        raise StoreExistsError(
            f"a folder is in the place of {MANIFEST_NAME}: move it away, then recover again",
            where=uri_of(storage, MANIFEST_NAME),
        ) from error
