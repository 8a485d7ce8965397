"""The entry point of the log ``file``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from siltstone.core.fenced_log import FencedLog
from siltstone.core.hooks import checked_settings, hookimpl

NAME = "file"


@hookimpl
def siltstone_fenced_log(
    name: str, settings: Mapping[str, Any], container: int
) -> FencedLog | None:
    """Build the file log of one container, if it is the one that is meant."""
    if name != NAME:
        return None
    from siltstone.tier1.file.fenced_log import FileFencedLog
    from siltstone.tier1.file.settings import FileLogSettings

    checked = checked_settings(NAME, settings, FileLogSettings)
    return FileFencedLog(
        os.path.expanduser(checked.path), container, file_bytes=int(checked.file_bytes)
    )


@hookimpl
def siltstone_settings(name: str) -> type[BaseModel] | None:
    """Return what checks the settings, if it is this log that is meant."""
    if name != NAME:
        return None
    from siltstone.tier1.file.settings import FileLogSettings

    return FileLogSettings
