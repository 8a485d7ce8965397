"""Long-term storage as a worker opens it: that of the store that the driver means, or none."""

from __future__ import annotations

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.store.manifest import MANIFEST_NAME, check_uuid, read_manifest
from siltstone.store.store_assembly import storage_of


def worker_store(
    path: str, uuid: str, rate: int | None = None, name: str = MANIFEST_NAME
) -> ChunkStorage:
    """Return a client of the long-term storage of a store.

    On another machine the path of a settings file may lead elsewhere, and what is not there would
    look like damage.

    Args:
        path: of the settings file.
        uuid: of the store.
        rate: bytes a second that it moves at most, both ways together; ``None`` for no limit.
        name: of the manifest; ``COPY_NAME`` in a store that is being made.

    Raises:
        StoreNotFoundError: there is no settings file, or no store where it says.
        StoreError: another store is there.
        SettingsError: the settings file is wrong.
        ChunkError: long-term storage did not answer.
    """
    storage = storage_of(path, rate)
    try:
        check_uuid(read_manifest(storage, name), uuid)
    except BaseException:
        storage.close()
        raise
    return storage
