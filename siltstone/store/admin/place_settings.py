"""A place on long-term storage that holds no store, such as one for backups, and its settings.

It is a folder, or a settings file of which only the section ``long_term_storage`` is there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from siltstone.container.models.settings import ContainerSettings
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.environment import Environment
from siltstone.core.errors import SettingsError
from siltstone.core.hooks import load_chunk_storage
from siltstone.core.storage.first_look import first_look
from siltstone.core.storage.retries import Retries, RetryingChunkStorage
from siltstone.store.settings.effective import resolved_options
from siltstone.store.settings.file import FILE_NAME, read_settings_file
from siltstone.store.settings.model import LongTermStorage
from siltstone.store.settings.plugin_options import first_of, option_errors, validation_errors
from siltstone.store.settings.sections import Section
from siltstone.store.store_assembly import paced, with_deadline

_DEFAULTS: Final = ContainerSettings()


class PlaceSettings(Section):
    """The whole file."""

    long_term_storage: LongTermStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where something other than a store is kept.

    Attributes:
        path: what a person wrote, absolute, for messages and for workers.
        binding: name of the binding.
        options: what it gets; may hold secrets.
        attempts: how often a call without an answer is tried that may be repeated.
    """

    path: str
    binding: str
    options: Mapping[str, Any] = field(repr=False)
    attempts: int = _DEFAULTS.storage_attempts


def find_place(path: Path | str) -> Place:
    """Say what ``path`` stands for: a settings file, or a folder, which need not be there yet.

    Raises:
        SettingsError: the file is wrong, or this is the folder of a store.
        StoreError: the path does not answer.
    """
    found = Path(path).expanduser().absolute()
    if not first_look(found, found.is_file):
        if (found / FILE_NAME).exists():
            raise SettingsError(f"{found}: this is the folder of a store, choose one next to it")
        return Place(path=str(found), binding="nfs", options={"path": str(found)})
    text = read_settings_file(found, os.environ)
    try:
        settings = PlaceSettings.model_validate(text.values)
    except ValidationError as error:
        raise first_of(validation_errors(text, error, PlaceSettings)) from error
    binding = settings.long_term_storage.binding
    options = resolved_options(settings.long_term_storage, found.parent)
    if errors := option_errors(text, "long_term_storage", binding, options):
        raise first_of(errors)
    return Place(
        path=str(found),
        binding=binding,
        options=options,
        attempts=settings.long_term_storage.attempts,
    )


def open_place(
    place: Place, environment: Environment, *, rate: int | None = None, make: bool = False
) -> ChunkStorage:
    """Return a client of a place.

    Args:
        place: which one.
        environment: gives time and waits.
        rate: bytes a second that it moves at most, both ways together; ``None`` without a limit.
        make: make the folder of the binding ``nfs`` if it is not there.

    Raises:
        SettingsError: there is no such binding, its options are wrong, or there is no folder.
        StoreError: the folder does not answer.
    """
    if place.binding == "nfs" and place.path == place.options.get("path"):
        first_look(place.path, partial(_check_folder, Path(place.path), make=make))
    retries = Retries(
        attempts=place.attempts, deadline_s=_DEFAULTS.storage_deadline_s / 2, throttled=True
    )
    storage = with_deadline(
        RetryingChunkStorage(
            load_chunk_storage(place.binding, place.options), environment, retries
        ),
        environment,
        _DEFAULTS,
    )
    return storage if rate is None else paced(storage, environment, rate)


def _check_folder(folder: Path, *, make: bool) -> None:
    if make:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SettingsError(f"{folder}: {error.strerror}") from error
    elif not folder.is_dir():
        raise SettingsError(f"{folder}: there is no such folder")
