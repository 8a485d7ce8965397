"""The entry point of the binding ``memory``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.hooks import checked_settings, hookimpl

NAME = "memory"


@hookimpl
def siltstone_chunk_storage(name: str, settings: Mapping[str, Any]) -> ChunkStorage | None:
    """Build a chunk storage in memory, if it is the one that is meant."""
    if name != NAME:
        return None
    from siltstone.bindings.memory.bucket import Bucket, shared_bucket
    from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage, Profile
    from siltstone.bindings.memory.settings import MemorySettings

    checked = checked_settings(NAME, settings, MemorySettings)
    profile = Profile(**checked.model_dump(exclude={"name"}))
    bucket = Bucket() if checked.name is None else shared_bucket(checked.name)
    return MemoryChunkStorage(bucket, profile)


@hookimpl
def siltstone_settings(name: str) -> type[BaseModel] | None:
    """Return what checks the settings, if it is this binding that is meant."""
    if name != NAME:
        return None
    from siltstone.bindings.memory.settings import MemorySettings

    return MemorySettings
