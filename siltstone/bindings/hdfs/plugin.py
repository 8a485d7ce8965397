"""The entry point of the binding ``hdfs``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.hooks import checked_settings, hookimpl

NAME = "hdfs"


@hookimpl
def siltstone_chunk_storage(name: str, settings: Mapping[str, Any]) -> ChunkStorage | None:
    """Build the chunk storage of a folder, if it is the one that is meant, and look at the folder.

    Raises:
        SettingsError: settings are wrong.
        ChunkError: the service refused, or did not answer.
    """
    if name != NAME:
        return None
    from siltstone.bindings.hdfs.settings import HdfsSettings

    checked = checked_settings(NAME, settings, HdfsSettings)
    from siltstone.bindings.hdfs.chunk_storage import open_folder

    return open_folder(checked)


@hookimpl
def siltstone_settings(name: str) -> type[BaseModel] | None:
    """Return what checks the settings, if it is this binding that is meant."""
    if name != NAME:
        return None
    from siltstone.bindings.hdfs.settings import HdfsSettings

    return HdfsSettings
