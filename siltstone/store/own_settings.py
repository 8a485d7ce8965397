"""What an open store was opened with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.store.store_assembly import Assembly

if TYPE_CHECKING:
    from siltstone.store.async_store import AsyncStore
    from siltstone.store.settings.effective import EffectiveSettings


def own_settings(store: AsyncStore) -> EffectiveSettings | None:
    """Its settings; ``None`` for a store that was put together without a file of them."""
    assembly = store._parts
    return assembly.settings if isinstance(assembly, Assembly) else None
