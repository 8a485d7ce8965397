"""The entry point of the binding ``s3``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.hooks import checked_settings, hookimpl

NAME = "s3"


@hookimpl
def siltstone_chunk_storage(name: str, settings: Mapping[str, Any]) -> ChunkStorage | None:
    """Build the chunk storage of a bucket, if it is the one that is meant, and look at the bucket.

    Raises:
        SettingsError: settings are wrong, or name a bucket or region that is not there.
        ChunkError: the service refused to list the bucket, or did not answer.
    """
    if name != NAME:
        return None
    from siltstone.bindings.s3.settings import S3Settings

    checked = checked_settings(NAME, settings, S3Settings)
    from siltstone.bindings.s3.chunk_storage import open_bucket

    return open_bucket(checked)


@hookimpl
def siltstone_settings(name: str) -> type[BaseModel] | None:
    """Return what checks the settings, if it is this binding that is meant."""
    if name != NAME:
        return None
    from siltstone.bindings.s3.settings import S3Settings

    return S3Settings
