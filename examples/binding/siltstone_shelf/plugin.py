"""The entry point of the binding ``shelf``, and its settings.

A binding imports its service's client library inside the hook: users who do not use the binding
need not have the library.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.hooks import hookimpl, settings_error

NAME = "shelf"


class ShelfSettings(BaseModel):
    """The section ``shelf`` of the settings file.

    Attributes:
        path: the file.
        deadline_s: seconds that a call waits for other writers.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    path: str = Field(min_length=1)
    deadline_s: float = Field(default=30.0, gt=0)


@hookimpl
def siltstone_chunk_storage(name: str, settings: Mapping[str, Any]) -> ChunkStorage | None:
    """Build a shelf, if the name is that of the shelf."""
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
    """Return the model, so that errors in settings name the line, if the name is the shelf's."""
    return ShelfSettings if name == NAME else None
