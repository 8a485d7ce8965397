"""Where a new store is made: its folder, and the settings file that it will have."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.environment import SystemEnvironment
from siltstone.core.error_facts import add_facts
from siltstone.core.errors import ChunkError, Outcome, StoreExistsError
from siltstone.core.hooks import load_chunk_storage
from siltstone.core.text import uuid_text
from siltstone.store.settings.effective import load_settings, storage_place
from siltstone.store.settings.file import FILE_NAME
from siltstone.store.settings.plugin_options import first_of, option_errors
from siltstone.store.settings.template import (
    CHUNKS_BESIDE,
    CHUNKS_FOLDER,
    INDEX_FOLDER,
    LOG_BESIDE,
    LOG_FOLDER,
    settings_text,
)
from siltstone.store.store_assembly import with_deadline


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

    def settings_text(self, store_id: bytes, made_from: str | None = None) -> str:
        """The settings file of the store; see ``made_from_of`` for what it was made from."""
        return settings_text(
            uuid_text(store_id), self.binding, self.options, self.log, self.log_options, made_from
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


def storage_at(settings: Path) -> ChunkStorage:
    """A client of the long-term storage that a settings file names."""
    effective = load_settings(settings)
    binding, options = effective.binding, effective.binding_options
    if errors := option_errors(effective.text, "long_term_storage", binding, options):
        raise first_of(errors)
    try:
        storage = load_chunk_storage(binding, options)
    except ChunkError as error:
        add_facts(error, storage_place(options, None))
        raise
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
