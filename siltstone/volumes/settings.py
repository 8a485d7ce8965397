"""The settings of a client: ``volumes.yaml`` in its folder, and the place that it names."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import yaml
from pydantic import Field, ValidationError

from siltstone.core.errors import SettingsError
from siltstone.core.posix import SystemFileCalls, make_folder, sync_folder
from siltstone.store.settings.file import read_settings_file
from siltstone.store.settings.plugin_options import first_of, validation_errors
from siltstone.store.settings.sections import Section, Text
from siltstone.store.settings.unit_types import PositiveTime, Size
from siltstone.store.site import write_durably
from siltstone.volumes.records.state_rows import SyncDirection

FILE_NAME: Final = "volumes.yaml"


class Durability(StrEnum):
    """What a local commit outlives when it returns."""

    POWER = "power"
    PROCESS = "process"


class ClientSettings(Section):
    """The whole file."""

    place: Text = Field(
        description="folder, or settings file with the section long_term_storage, that the volumes "
        "are pushed to and pulled from; a relative path begins at the folder of this file"
    )
    sync: SyncDirection = Field(
        default=SyncDirection.BOTH,
        description="which way sync moves commits of volumes that are made from now on: disabled, "
        "push, pull or both",
    )
    interval: PositiveTime | None = Field(
        default=None,
        description="time between two syncs of all volumes in the background; without it there "
        "are none",
    )
    durability: Durability = Field(
        default=Durability.POWER,
        description="power: a commit is on disk when it returns; process: it outlives the end of "
        "the process, and a loss of power may take the last commits, which a push makes safe",
    )
    cache: Size | None = Field(
        default=None,
        description="the most bytes of pages of each volume that stay in the folder although the "
        "place has them, in about; without it all of them stay",
    )
    level: Annotated[int, Field(ge=1, le=19)] = Field(
        default=3, description="level of zstd's compression of what is pushed"
    )


def read_settings(folder: Path) -> ClientSettings | None:
    """Read the settings of a client; ``None`` if the folder has none.

    Raises:
        SettingsError: the file is wrong; the message names file, line and key.
    """
    file = folder / FILE_NAME
    if not file.is_file():
        return None
    text = read_settings_file(file, os.environ)
    try:
        return ClientSettings.model_validate(text.values)
    except ValidationError as error:
        raise first_of(validation_errors(text, error, ClientSettings)) from error


def write_settings(folder: Path, place: str) -> ClientSettings:
    """Make the settings file of a new client, durably. Raises ``SettingsError``."""
    calls = SystemFileCalls()
    settings = ClientSettings(place=place)
    draft = folder / f"{FILE_NAME}.draft"
    try:
        make_folder(calls, str(folder))
        draft.unlink(missing_ok=True)  # of a client that died
        write_durably(draft, yaml.safe_dump({"place": place}))
        draft.rename(folder / FILE_NAME)
        sync_folder(calls, str(folder))
    except OSError as error:
        raise SettingsError(f"{folder}: {error.strerror}") from error
    return settings
