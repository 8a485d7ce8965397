"""The entry point of the log ``memory``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from siltstone.core.fenced_log import FencedLog
from siltstone.core.hooks import checked_settings, hookimpl

NAME = "memory"


@hookimpl
def siltstone_fenced_log(
    name: str, settings: Mapping[str, Any], container: int
) -> FencedLog | None:
    """Build the memory log of one container, if it is the one that is meant."""
    if name != NAME:
        return None
    from siltstone.tier1.memory.fenced_log import MemoryFencedLog
    from siltstone.tier1.memory.settings import MemoryLogSettings

    checked = checked_settings(NAME, settings, MemoryLogSettings)
    return MemoryFencedLog(checked.name, container)


@hookimpl
def siltstone_settings(name: str) -> type[BaseModel] | None:
    """Return what checks the settings, if it is this log that is meant."""
    if name != NAME:
        return None
    from siltstone.tier1.memory.settings import MemoryLogSettings

    return MemoryLogSettings
