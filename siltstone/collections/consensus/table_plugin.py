"""The entry point of the consensus ``table``: what checks its settings, and what refuses a path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.consensus import Consensus
from siltstone.core.environment import Environment
from siltstone.core.errors import CollectionError
from siltstone.core.hooks import checked_settings, hookimpl

TABLE = "table"
"""The consensus in a table of the store, for the process that owns it."""


@hookimpl
def siltstone_consensus(
    name: str, settings: Mapping[str, Any], storage: ChunkStorage, environment: Environment
) -> Consensus | None:
    """Refuse: a path is no store that is owned.

    Raises:
        CollectionError: if it is this consensus that is meant.
    """
    if name != TABLE:
        return None
    checked_settings(TABLE, settings, _no_settings())
    raise CollectionError(
        "collections of this store are in a table of its owner: open the store there, or anywhere "
        "with read_only=True to read them, and give it to open_collections in place of the path",
        consensus=TABLE,
    )


@hookimpl
def siltstone_settings(name: str) -> type[BaseModel] | None:
    """Return what checks the settings, if it is this consensus that is meant."""
    return _no_settings() if name == TABLE else None


def _no_settings() -> type[BaseModel]:
    class TableConsensusSettings(BaseModel, extra="forbid", hide_input_in_errors=True):
        """There are none: all that it needs is the store itself."""

    return TableConsensusSettings
