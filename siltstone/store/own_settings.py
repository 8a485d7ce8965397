"""What an open store was opened with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.core.metrics import NO_METRICS, Metrics
from siltstone.store.settings.model import ObjectsSection
from siltstone.store.store_assembly import Assembly

if TYPE_CHECKING:
    from siltstone.store.async_store import AsyncStore
    from siltstone.store.settings.effective import EffectiveSettings


def own_settings(store: AsyncStore) -> EffectiveSettings | None:
    """Its settings; ``None`` for a store that was put together without a file of them."""
    assembly = store._parts
    return assembly.settings if isinstance(assembly, Assembly) else None


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
