"""The entry point of the binding ``shelf``, and what a person may set for it.

Whatever a binding needs of its service's client library is imported inside the hook: who does not
use the binding need not have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import SettingsError
from siltstone.core.hooks import hookimpl

NAME = "shelf"
KEYS = frozenset({"path", "deadline_s"})
DEADLINE_S = 30.0


@hookimpl
def siltstone_chunk_storage(name: str, settings: Mapping[str, Any]) -> ChunkStorage | None:
    """Build a shelf, if it is the one that is meant."""
    if name != NAME:
        return None
    from siltstone_shelf.shelf import Shelf

    unknown = sorted(set(settings) - KEYS)
    if unknown:
        raise SettingsError(f"{NAME}.{unknown[0]}: no such setting")
    path, deadline_s = settings.get("path"), settings.get("deadline_s", DEADLINE_S)
    if not isinstance(path, str) or not path:
        raise SettingsError(f"{NAME}.path: a file is needed")
    if not isinstance(deadline_s, int | float) or not deadline_s > 0:
        raise SettingsError(f"{NAME}.deadline_s: a number of seconds above 0")
    return Shelf(path, float(deadline_s))
