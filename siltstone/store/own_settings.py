"""What an open store was opened with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.container.models.settings import ContainerSettings
from siltstone.core.metrics import NO_METRICS, Metrics
from siltstone.store.settings.objects_section import ObjectsSection
from siltstone.store.store_assembly import Assembly

if TYPE_CHECKING:
    from siltstone.store.async_store import AsyncStore
    from siltstone.store.settings.effective import EffectiveSettings


def own_settings(store: AsyncStore) -> EffectiveSettings | None:
    """Its settings; ``None`` for a store that was put together without a file of them."""
    assembly = store._parts
    return assembly.settings if isinstance(assembly, Assembly) else None


def append_deadline_s(store: AsyncStore) -> float:
    """How long an append waits for room, in seconds."""
    settings = own_settings(store)
    return (settings.container if settings else ContainerSettings()).append_deadline_s


def keyspace_settings(store: AsyncStore) -> ObjectsSection:
    """How keyspaces are used; without a file of settings they do nothing by themselves."""
    settings = own_settings(store)
    return ObjectsSection(compact="manual", head_checks=0) if settings is None else settings.objects


def metrics_of(store: AsyncStore, name: str) -> Metrics:
    """Where measurements go of what has this name, with those of its container."""
    assembly = store._parts
    if not isinstance(assembly, Assembly):
        return NO_METRICS
    return assembly.new_metrics(store.container_index(name))
