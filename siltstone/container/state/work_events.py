"""What wakes the background work of an owner."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from siltstone.container.models.settings import ContainerSettings
from siltstone.container.state.replica import FlushThresholds
from siltstone.core.chunk_storage import Capabilities


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkEvents:
    """Each is set where such work may be due, from the replay on.

    Attributes:
        flush: the flush of segments.
        table_flush: the flush of the table log.
        garbage: the collection of garbage.
    """

    flush: asyncio.Event = field(default_factory=asyncio.Event)
    table_flush: asyncio.Event = field(default_factory=asyncio.Event)
    garbage: asyncio.Event = field(default_factory=asyncio.Event)

    def flush_thresholds(
        self, settings: ContainerSettings, capabilities: Capabilities
    ) -> FlushThresholds:
        """When the replica of an owner is to set them."""
        return FlushThresholds(
            segment_bytes=settings.resolved(capabilities).size_bytes,
            on_segment=self.flush.set,
            table_bytes=settings.table_flush_bytes,
            on_table=self.table_flush.set,
        )
