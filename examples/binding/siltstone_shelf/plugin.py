"""The entry point of the binding ``shelf``, and what a person may set for it.

Whatever a binding needs of its service's client library is imported inside the hook: who does not
use the binding need not have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.hooks import hookimpl, settings_error

NAME = "shelf"


class ShelfSettings(BaseModel):
    """What stands under ``shelf`` in the settings file.

    Attributes:
        path: the file.
        deadline_s: seconds that a call waits for others who write.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    path: str = Field(min_length=1)
    deadline_s: float = Field(default=30.0, gt=0)


@hookimpl
def siltstone_chunk_storage(name: str, settings: Mapping[str, Any]) -> ChunkStorage | None:
    """Build a shelf, if it is the one that is meant."""
    if name != NAME:
        return None
    from siltstone_shelf.shelf import Shelf

    try:
        checked = ShelfSettings.model_validate(dict(settings))
    except ValidationError as error:
        raise settings_error(NAME, error.errors(), ShelfSettings) from error
    return Shelf(checked.path, checked.deadline_s)


@hookimpl
def siltstone_settings(name: str) -> type[BaseModel] | None:
    """Let wrong settings be told with their line, if it is the shelf that is meant."""
    return ShelfSettings if name == NAME else None
