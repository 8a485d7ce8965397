"""Making a new store: all of it, or nothing that stays."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from siltstone.core.chunk_care import delete_many
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import (
    ChunkError,
    Outcome,
    SettingsError,
    SiltstoneError,
    StoreError,
    StoreExistsError,
)
from siltstone.core.first_look import first_look
from siltstone.core.hooks import load_chunk_storage
from siltstone.core.posix import SystemFileCalls, sync_folder
from siltstone.core.records.store_manifest import StoreManifest
from siltstone.core.uuid_text import uuid_text
from siltstone.store.arguments import check_offset
from siltstone.store.assemble import with_deadline
from siltstone.store.effective_settings import load_settings
from siltstone.store.manifest import CONTAINERS_MAX, create_manifest
from siltstone.store.plugin_options import first_of, option_errors
from siltstone.store.settings_file import FILE_NAME
from siltstone.store.settings_template import (
    CHUNKS_BESIDE,
    CHUNKS_FOLDER,
    INDEX_FOLDER,
    LOG_BESIDE,
    LOG_FOLDER,
    settings_text,
)
from siltstone.store.store import open_store


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where a store is made.

    Attributes:
        place: the folder of the settings file.
        folders: names of those in it that the store needs.
        binding: that of long-term storage.
        options: what stands under its name.
        log: the tier-1 log.
        log_options: what stands under its name.
    """

    place: Path
    folders: tuple[str, ...]
    binding: str
    options: Mapping[str, Any] = field(repr=False)
    log: str
    log_options: Mapping[str, Any] = field(repr=False)

    def settings_text(self, store_id: bytes) -> str:
        """The settings file of the store."""
        return settings_text(
            uuid_text(store_id), self.binding, self.options, self.log, self.log_options
        )


def site_of(
    folder: Path | str,
    *,
    binding: str = "nfs",
    options: Mapping[str, Any] | None = None,
    log: str = "file",
    log_options: Mapping[str, Any] | None = None,
) -> Site:
    """Say where a store is to be made; see ``init_store``. Looks at nothing.

    Raises:
        ValueError: ``options`` are missing.
    """
    if options is None and binding != "nfs":
        raise ValueError(f"the binding {binding!r} needs options")
    if log_options is None and log != "file":
        raise ValueError(f"the log {log!r} needs options")
    chosen, log_chosen = dict(options or {}), dict(log_options or {})
    beside = {
        CHUNKS_FOLDER: binding == "nfs" and "path" not in chosen,
        LOG_FOLDER: log == "file" and "path" not in log_chosen,
        INDEX_FOLDER: True,
    }
    return Site(
        place=Path(folder).expanduser().absolute(),
        folders=tuple(name for name, is_beside in beside.items() if is_beside),
        binding=binding,
        options={**CHUNKS_BESIDE, **chosen} if beside[CHUNKS_FOLDER] else chosen,
        log=log,
        log_options={**LOG_BESIDE, **log_chosen} if beside[LOG_FOLDER] else log_chosen,
    )


def init_store(
    folder: Path | str,
    *,
    containers: int = 1,
    binding: str = "nfs",
    options: Mapping[str, Any] | None = None,
    log: str = "file",
    log_options: Mapping[str, Any] | None = None,
) -> Path:
    """Make a store in ``folder`` and return its settings file.

    The settings file comes last: a folder that has one holds a whole store, whose containers were
    opened once. What was made before a failure is removed again.

    Args:
        folder: made when it is missing; it may hold other things.
        containers: fixed for the life of the store; more of them share the work of more processes.
        binding: name of the binding that speaks to long-term storage.
        options: its settings, written as they are, so ``${NAME}`` stands for a variable there too;
            without a ``path`` the binding ``nfs`` has its folder beside the settings, and ``None``
            is for it alone.
        log: name of the tier-1 log.
        log_options: its settings, likewise, of which the log ``file`` needs none.

    Raises:
        StoreExistsError: a store, or something in its folders or storage, is here already.
        StoreError: the folder can not be written.
        SettingsError: there is no such binding or log, or its options are wrong.
        LogError: the log refused, or did not answer; ``LogLostError`` when it is in use.
        ChunkError: long-term storage refused, or did not answer.
        ValueError: ``containers`` is below 1 or over 4,096, or ``options`` are missing.
    """
    containers = check_offset(containers, what="containers")
    if not 1 <= containers <= CONTAINERS_MAX:
        raise ValueError(f"containers must be between 1 and {CONTAINERS_MAX}, not {containers}")
    site = site_of(folder, binding=binding, options=options, log=log, log_options=log_options)
    environment = SystemEnvironment()
    manifest = StoreManifest(
        store_id=environment.uuid(),
        container_count=containers,
        created_ms=int(environment.time() * 1000),
    )
    try:
        return _make(site, manifest)
    except OSError as error:
        raise StoreError(
            f"no store can be made here: {error.strerror}", path=error.filename or site.place
        ) from error


def _make(site: Site, manifest: StoreManifest) -> Path:
    place = site.place
    first_look(place, lambda: refuse_used(site))
    settings = place / FILE_NAME
    draft = place / f".{FILE_NAME}.{manifest.store_id.hex()}"
    with removed_on_failure() as made:
        make_folders(site, made)
        made.append(draft)
        write_durably(draft, site.settings_text(manifest.store_id))
        with _named_as(draft, settings), closing(storage_at(draft)) as storage:
            if next(iter(storage.list()), None) is not None:
                raise StoreExistsError("long-term storage is not empty")
            create_manifest(storage, manifest)
        with _named_as(draft, settings), _emptied_on_failure(site, draft):
            open_store(draft).close()
            try:
                settings.hardlink_to(draft)  # exclusive: of two makers one wins
            except FileExistsError as error:
                raise StoreExistsError("there is a store here already", path=settings) from error
        draft.unlink()
        sync_folder(SystemFileCalls(), str(place))
    return settings


def storage_at(settings: Path) -> ChunkStorage:
    """A client of the long-term storage that a settings file names."""
    effective = load_settings(settings)
    binding, options = effective.binding, effective.binding_options
    if errors := option_errors(effective.text, "long_term_storage", binding, options):
        raise first_of(errors)
    storage = load_chunk_storage(binding, options)
    return with_deadline(storage, SystemEnvironment(), effective.container)


def make_folders(site: Site, made: list[Path]) -> None:
    """Make the folders of a store that are missing, and note which ones."""
    for folder in (site.place, *(site.place / name for name in site.folders)):
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        for path in reversed(missing):
            path.mkdir()
            made.append(path)


def refuse_used(site: Site) -> None:
    """Refuse folders that hold something. Raises ``StoreExistsError``."""
    place = site.place
    if place.exists() and not place.is_dir():
        raise StoreExistsError("this is not a folder", path=place)
    if (place / FILE_NAME).exists():
        raise StoreExistsError("there is a store here already", path=place / FILE_NAME)
    for name in site.folders:
        folder = place / name
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise StoreExistsError("a folder that a store needs is in use", path=folder)


@contextmanager
def _named_as(draft: Path, settings: Path) -> Iterator[None]:
    """Name the settings file in what is wrong with its draft."""
    try:
        yield
    except SettingsError as error:
        raise SettingsError(str(error).replace(str(draft), str(settings))) from error


@contextmanager
def _emptied_on_failure(site: Site, settings: Path) -> Iterator[None]:
    """Empty folders and storage of a store that is ours for certain, when the body fails."""
    try:
        yield
    except BaseException:
        if CHUNKS_FOLDER not in site.folders:
            with suppress(SiltstoneError), closing(storage_at(settings)) as storage:
                delete_many(storage, [found.name for found in storage.list()])
        for name in site.folders:
            for path in (site.place / name).iterdir():
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
        raise


@contextmanager
def removed_on_failure() -> Iterator[list[Path]]:
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


def write_durably(path: Path, text: str) -> None:
    """Make a file that was not there."""
    with path.open("x", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
