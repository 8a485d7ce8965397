"""Making a store whose containers do not begin empty. A try that died is gone on with.

While it is made, its settings lie beside their place under a name that says what it is made from,
and long-term storage has no store manifest. So nobody opens it, and a repeat knows what is its own.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import ChunkExistsError, StoreError, StoreExistsError
from siltstone.core.first_look import first_look
from siltstone.core.posix import SystemFileCalls, sync_folder
from siltstone.core.records.store_manifest import StoreManifest, encode_store_manifest
from siltstone.store.assemble import Assembly
from siltstone.store.effective_settings import load_settings
from siltstone.store.initialisation import (
    Site,
    make_folders,
    refuse_used,
    removed_on_failure,
    storage_at,
    write_durably,
)
from siltstone.store.manifest import MANIFEST_NAME, read_manifest
from siltstone.store.settings_file import FILE_NAME
from siltstone.store.store import open_store

_DRAFT: Final = f".{FILE_NAME}.from-"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewStore:
    """A store that is being made.

    Attributes:
        assembly: gives its logs and clients of its long-term storage.
        settings: its settings file for now.
        store_id: of the store, 16 bytes; the same in each try.
        lengths: of the objects that an earlier try has brought, by name.
    """

    assembly: Assembly
    settings: Path
    store_id: bytes
    lengths: dict[str, int]


def fill_store(site: Site, origin: str, containers: int, fill: Callable[[NewStore], None]) -> Path:
    """Make a store by ``fill`` and return its settings file.

    Args:
        site: where; its folders and its long-term storage must be empty, but for what an earlier
            try with the same ``origin`` has left.
        origin: what the store is made from, as a part of a file name.
        containers: of the store.
        fill: brings what the store is to hold; it finds what an earlier try brought.

    Raises:
        StoreExistsError: a store, or something else, is here already.
        StoreError: the folder can not be written, or an earlier try was another one.
        SettingsError: the options of ``site`` are wrong.
        ChunkError: long-term storage refused, or did not answer.
    """
    environment = SystemEnvironment()
    try:
        draft, store_id = _draft(site, origin, environment)
        manifest = StoreManifest(
            store_id=store_id,
            container_count=containers,
            created_ms=int(environment.time() * 1000),
        )
        with closing(Assembly(load_settings(draft), environment, manifest)) as assembly:
            with closing(storage_at(draft)) as storage:
                lengths = _own(storage, store_id)
            fill(NewStore(assembly=assembly, settings=draft, store_id=store_id, lengths=lengths))
        with closing(storage_at(draft)) as storage:
            _state(storage, manifest)
        open_store(draft).close()
        settings = site.place / FILE_NAME
        try:
            settings.hardlink_to(draft)
        except FileExistsError as error:
            raise StoreExistsError("there is a store here already", path=settings) from error
        draft.unlink()
        sync_folder(SystemFileCalls(), str(site.place))
        return settings
    except OSError as error:
        raise StoreError(
            f"no store can be made here: {error.strerror}", path=error.filename or site.place
        ) from error
    finally:
        environment.close()


def _draft(site: Site, origin: str, environment: SystemEnvironment) -> tuple[Path, bytes]:
    """The settings file of an earlier try, or a new one; and the id of the store in it."""
    place = site.place
    if first_look(place, (place / FILE_NAME).exists):
        raise StoreExistsError("there is a store here already", path=place / FILE_NAME)
    drafts = sorted(place.glob(f"{_DRAFT}*")) if place.is_dir() else []
    for draft in drafts:
        made_from, _, store = draft.name[len(_DRAFT) :].rpartition(".")
        if made_from != origin:
            raise StoreExistsError(
                "something else was begun here and is not finished; remove all of it first",
                path=draft,
            )
        store_id = bytes.fromhex(store)
        if draft.read_text(encoding="utf-8") != site.settings_text(store_id):
            raise StoreError("the try before had other options", path=draft)
        return draft, store_id
    refuse_used(site)
    store_id = environment.uuid()
    draft = place / f"{_DRAFT}{origin}.{store_id.hex()}"
    first = place / f".{FILE_NAME}.{store_id.hex()}"
    with removed_on_failure() as made:
        make_folders(site, made)
        made.append(first)
        write_durably(first, site.settings_text(store_id))
        with closing(storage_at(first)) as storage:
            if next(iter(storage.list()), None) is not None:
                raise StoreExistsError("long-term storage is not empty")
        # From here on what lies there is ours.
        first.rename(draft)
        sync_folder(SystemFileCalls(), str(place))
    return draft, store_id


def _own(storage: ChunkStorage, store_id: bytes) -> dict[str, int]:
    """What an earlier try has brought; another store in its place is refused."""
    lengths = {found.name: found.length for found in storage.list()}
    if MANIFEST_NAME in lengths and read_manifest(storage).store_id != store_id:
        raise StoreExistsError("long-term storage holds another store")
    return lengths


def _state(storage: ChunkStorage, manifest: StoreManifest) -> None:
    """Make the store one that can be opened."""
    try:
        storage.create(MANIFEST_NAME, [encode_store_manifest(manifest)])
    except ChunkExistsError as error:
        if read_manifest(storage).store_id != manifest.store_id:
            raise StoreExistsError("long-term storage holds another store") from error
