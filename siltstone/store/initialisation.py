"""Making a new store: all of it, or nothing that stays."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import ChunkError, Outcome, StoreError, StoreExistsError
from siltstone.core.hooks import load_chunk_storage
from siltstone.core.records.store_manifest import StoreManifest
from siltstone.store.arguments import check_offset
from siltstone.store.manifest import (
    CONTAINERS_MAX,
    create_manifest,
    uuid_text,
)
from siltstone.store.settings_file import FILE_NAME
from siltstone.store.settings_template import (
    CHUNKS_FOLDER,
    INDEX_FOLDER,
    LOG_FOLDER,
    settings_text,
)
from siltstone.store.store import open_store

FOLDERS: Final = (CHUNKS_FOLDER, LOG_FOLDER, INDEX_FOLDER)


def init_store(folder: Path | str, *, containers: int = 1) -> Path:
    """Make a store in ``folder`` and return its settings file.

    The settings file comes last: a folder that has one holds a whole store, whose containers were
    opened once. What was made before a failure is removed again.

    Args:
        folder: made when it is missing; it may hold other things.
        containers: fixed for the life of the store; more of them share the work of more processes.

    Raises:
        StoreExistsError: a store, or something in the folders of one, is here already.
        StoreError: the folder can not be written.
        ValueError: ``containers`` is below 1 or over 4,096.
    """
    if not 1 <= check_offset(containers, what="containers") <= CONTAINERS_MAX:
        raise ValueError(f"containers must be between 1 and {CONTAINERS_MAX}, not {containers}")
    environment = SystemEnvironment()
    manifest = StoreManifest(
        store_id=environment.uuid(),
        container_count=containers,
        created_ms=int(environment.time() * 1000),
    )
    place = Path(folder).expanduser().absolute()
    try:
        return _make(place, manifest)
    except OSError as error:
        raise StoreError(
            f"no store can be made here: {error.strerror}", path=error.filename or place
        ) from error


def _make(place: Path, manifest: StoreManifest) -> Path:
    _refuse_used(place)
    settings = place / FILE_NAME
    draft = place / f".{FILE_NAME}.{manifest.store_id.hex()}"
    with _removed_on_failure() as made:
        for folder in (place, *(place / name for name in FOLDERS)):
            missing = [path for path in (folder, *folder.parents) if not path.exists()]
            for path in reversed(missing):
                path.mkdir()
                made.append(path)
        made.append(draft)
        _write_durably(draft, settings_text(uuid_text(manifest.store_id)))
        with closing(load_chunk_storage("nfs", {"path": str(place / CHUNKS_FOLDER)})) as storage:
            if next(iter(storage.list()), None) is not None:
                raise StoreExistsError("long-term storage is not empty")
            create_manifest(storage, manifest)
        with _emptied_on_failure(place):
            open_store(draft).close()
            try:
                settings.hardlink_to(draft)  # exclusive: of two makers one wins
            except FileExistsError as error:
                raise StoreExistsError("there is a store here already", path=settings) from error
        draft.unlink()
        _sync_folder(place)
    return settings


def _refuse_used(place: Path) -> None:
    if place.exists() and not place.is_dir():
        raise StoreExistsError("this is not a folder", path=place)
    if (place / FILE_NAME).exists():
        raise StoreExistsError("there is a store here already", path=place / FILE_NAME)
    for name in FOLDERS:
        folder = place / name
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise StoreExistsError("a folder that a store needs is in use", path=folder)


@contextmanager
def _emptied_on_failure(place: Path) -> Iterator[None]:
    """Empty the folders of a store that is ours for certain, when the body fails."""
    try:
        yield
    except BaseException:
        for name in FOLDERS:
            for path in (place / name).iterdir():
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
        raise


@contextmanager
def _removed_on_failure() -> Iterator[list[Path]]:
    """Remove what the body made, newest first, when it fails; what is not empty stays."""
    made: list[Path] = []
    try:
        yield made
    except BaseException as error:
        if not (isinstance(error, ChunkError) and error.outcome is Outcome.UNKNOWN):
            for path in reversed(made):
                with suppress(OSError):  # the failure above is the one to tell
                    if path.is_dir():
                        path.rmdir()
                    else:
                        path.unlink()
        raise


def _write_durably(path: Path, text: str) -> None:
    with path.open("x", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
