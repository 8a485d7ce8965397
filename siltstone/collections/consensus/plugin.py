"""The entry point of the consensus ``objects``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.consensus import Consensus
from siltstone.core.environment import Environment
from siltstone.core.hooks import checked_settings, hookimpl

OBJECTS = "objects"
"""The consensus that needs nothing but long-term storage."""


@hookimpl
def siltstone_consensus(
    name: str, settings: Mapping[str, Any], storage: ChunkStorage, environment: Environment
) -> Consensus | None:
    """Build a consensus over objects of long-term storage, if it is the one that is meant."""
    if name != OBJECTS:
        return None
    from siltstone.collections.consensus.objects import ObjectConsensus

    checked_settings(OBJECTS, settings, _no_settings())
    return ObjectConsensus(storage, environment)


@hookimpl
def siltstone_settings(name: str) -> type[BaseModel] | None:
    """Return what checks the settings, if it is this consensus that is meant."""
    return _no_settings() if name == OBJECTS else None


def _no_settings() -> type[BaseModel]:
    class ObjectConsensusSettings(BaseModel, extra="forbid", hide_input_in_errors=True):
        """There are none: all that it needs is long-term storage."""

    return ObjectConsensusSettings
