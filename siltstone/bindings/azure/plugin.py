"""The entry point of the binding ``azure``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.hooks import checked_settings, hookimpl

NAME = "azure"


@hookimpl
def siltstone_chunk_storage(name: str, settings: Mapping[str, Any]) -> ChunkStorage | None:
    """Build the chunk storage of a container, if it is the one that is meant, and look at it.

    Raises:
        SettingsError: settings are wrong, or name a container that is not there.
        ChunkError: the service refused to list the container, or did not answer.
    """
    if name != NAME:
        return None
    from siltstone.bindings.azure.settings import AzureSettings

    checked = checked_settings(NAME, settings, AzureSettings)
    from siltstone.bindings.azure.chunk_storage import open_container

    return open_container(checked)


@hookimpl
def siltstone_settings(name: str) -> type[BaseModel] | None:
    """Return what checks the settings, if it is this binding that is meant."""
    if name != NAME:
        return None
    from siltstone.bindings.azure.settings import AzureSettings

    return AzureSettings
