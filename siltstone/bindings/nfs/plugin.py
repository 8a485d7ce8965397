"""The entry point of the binding ``nfs``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.hooks import checked_settings, hookimpl

NAME = "nfs"


@hookimpl
def siltstone_chunk_storage(name: str, settings: Mapping[str, Any]) -> ChunkStorage | None:
    """Build the chunk storage of a folder, if it is the one that is meant."""
    if name != NAME:
        return None
    from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
    from siltstone.bindings.nfs.settings import NfsSettings

    checked = checked_settings(NAME, settings, NfsSettings)
    return NfsChunkStorage(checked.path)


@hookimpl
def siltstone_settings(name: str) -> type[BaseModel] | None:
    """Return what checks the settings, if it is this binding that is meant."""
    if name != NAME:
        return None
    from siltstone.bindings.nfs.settings import NfsSettings

    return NfsSettings
