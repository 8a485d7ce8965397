"""The verb: look at a store whose metadata is gone, and bring what is left into a new one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from siltstone.collections.any_collection import has_collections
from siltstone.container.boot.storage_layers import bridged
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import CorruptDataError, StoreError, StoreNotFoundError
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.text import uuid_text
from siltstone.migration.salvage.discovery import look_at_container
from siltstone.migration.salvage.loader import bring
from siltstone.migration.salvage.report import (
    LeftOut,
    SalvagedSegment,
    SalvagedTable,
    SalvageReport,
)
from siltstone.migration.salvage.verdicts import judged, target_name
from siltstone.store.lost_manifest import highest_container
from siltstone.store.manifest import check_uuid, read_manifest
from siltstone.store.opening import open_async_store
from siltstone.store.settings.effective import EffectiveSettings, load_settings
from siltstone.store.store_assembly import open_storage


def salvage_store(path: Path | str, into: Path | str | None = None) -> SalvageReport:
    """Say what chunks give back of each segment of a store, and bring that into a new store.

    Tier 1 is asked for nothing. The newest metadata that can be built gives the segments that a
    checkpoint proves; where that is not the newest state, or there is none, names and lengths of
    chunks say what else there is. In the new store they are sealed, below ``salvage/``; a segment
    with gaps becomes one for each run between them, so no byte stands next to another one that it
    did not follow. A table becomes one as well, with a line of JSON for each key. Retention rules
    and writers are not brought: the report says what they are. The older store is only read.

    May be killed and repeated: a repeated run continues with what is there.

    Args:
        path: settings file of the older store, or its folder.
        into: that of the new store, which no other process may own; ``None`` only looks.

    Raises:
        FormatError: a newer version wrote the store.
        StoreError: both are the same store.
        StoreInUseError: an owner is at work, and drops what is looked at.
        StoreNotFoundError: there is nothing that is part of a store.
        SegmentExistsError: the new store has a segment of such a name that is not of this salvage.
        CorruptDataError: chunks changed meanwhile.
        ChunkError: long-term storage failed; repeat the call.
    """
    settings = load_settings(path)
    environment = SystemEnvironment()
    with closing(environment), closing(open_storage(settings, environment)) as storage:
        count, store_id = _containers(settings, storage)
        if not count:
            raise StoreNotFoundError("long-term storage holds nothing of a store")
        with TemporaryDirectory("-siltstone") as lines:
            salvage = _salvage(settings, range(count), store_id, into, environment, Path(lines))
            report = asyncio.run(salvage)
            return replace(report, has_left_collections=has_collections(storage))


def _containers(settings: EffectiveSettings, storage: ChunkStorage) -> tuple[int, str]:
    """How many containers there are at least, and the uuid of the store if it is known."""
    count, store_id = 0, settings.uuid or ""
    try:
        manifest = read_manifest(storage)
    except (StoreNotFoundError, CorruptDataError):
        pass
    else:
        check_uuid(manifest, settings.uuid)
        count, store_id = manifest.container_count, uuid_text(manifest.store_id)
    return max(count, highest_container(storage) + 1), store_id


async def _salvage(
    settings: EffectiveSettings,
    containers: Sequence[int],
    store_id: str,
    into: Path | str | None,
    environment: SystemEnvironment,
    lines: Path,
) -> SalvageReport:
    storage = bridged(open_storage(settings, environment), environment, settings.container)
    try:
        report = await _look(settings, containers, storage, environment, lines)
        if into is None:
            return report
        store = await open_async_store(into)
        try:
            if store.uuid == store_id:
                raise StoreError("a store cannot be salvaged into itself", uuid=store_id)
            copied, done = await bring(report.segments, report.tables, storage, store)
            await store.flush()
        finally:
            await store.close()
        return replace(report, copied=copied, done=done)
    finally:
        await storage.close()


async def _look(
    settings: EffectiveSettings,
    containers: Iterable[int],
    storage: AsyncChunkStorage,
    environment: SystemEnvironment,
    lines: Path,
) -> SalvageReport:
    segments: list[SalvagedSegment] = []
    tables: list[SalvagedTable] = []
    doubts: dict[int, tuple[str, ...]] = {}
    taken: set[str] = set()
    left: list[LeftOut] = []
    for container in containers:
        look = await look_at_container(container, storage, environment, settings.container, lines)
        if look.doubts:
            doubts[container] = look.doubts
        segments += (_named(judged(evidence), taken) for evidence in look.evidence)
        tables += look.tables
        if look.left_out is not None:
            left.append(look.left_out)
    # After all segments, so that no name of one depends on a table's.
    tables = [
        replace(table, target=target_name(f"{table.name}.table", None, taken)) for table in tables
    ]
    return SalvageReport(
        segments=tuple(segments), tables=tuple(tables), doubts=doubts, left_out=tuple(left)
    )


def _named(segment: SalvagedSegment, taken: set[str]) -> SalvagedSegment:
    several = len(segment.targets) > 1
    targets = tuple(
        replace(target, name=target_name(segment.name, target.offset if several else None, taken))
        for target in segment.targets
    )
    return replace(segment, targets=targets)
