"""Asking the store where a segment lies: a read-only open of one container, for one question.

Used by the planning, and by a task whose chunk is gone. Claims nothing and writes nothing but a
local index of its own, so it works beside a running writer and beside its like.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from siltstone.container.reader import ReadContainer
from siltstone.container.segment_map import SegmentMap
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import SegmentNotFoundError
from siltstone.core.words import MIB, container_of
from siltstone.spark.options import ReadOptions
from siltstone.spark.ranges import LineRange, check_offsets, mapped_range, plan_ranges
from siltstone.spark.window import Window, cut_window
from siltstone.store.assemble import Assembly, open_storage
from siltstone.store.effective_settings import load_settings
from siltstone.store.manifest import check_uuid, read_manifest

T = TypeVar("T")

WINDOW_BYTES = 64 * MIB
"""How much a task that has to look again asks for at a time."""


def resolve_ranges(options: ReadOptions, cores: int) -> list[LineRange]:
    """Plan a read over the segment as it is now.

    Raises:
        StoreNotFoundError: there is no store.
        SettingsError: the settings file, ``from`` or ``to`` is wrong.
        SegmentNotFoundError: there is no such segment.
        SegmentTruncatedError: the range begins below the readable one.
        CapabilityError: too many bytes are not flushed.
    """

    async def ask(container: ReadContainer) -> list[LineRange]:
        info = await container.info(options.segment)
        start, stop = check_offsets(options, info)
        segment = await container.map(options.segment, *mapped_range(start, stop, info))
        return plan_ranges(options, segment, start, stop, info.length, cores)

    return _ask(options.store, options.segment, ask)


def resolve_window(part: LineRange, offset: int) -> Window:
    """Find the bytes of a range again, from ``offset`` on, as far as a task needs them soon.

    Raises:
        SegmentNotFoundError: the segment was deleted, whether or not its name is used again.
        SegmentTruncatedError: ``offset`` was truncated.
    """
    end = min(part.end, offset + WINDOW_BYTES)

    async def ask(container: ReadContainer) -> SegmentMap:
        return await container.map(part.segment, offset, end)

    segment = _ask(part.store, part.segment, ask)
    if segment.info.segment_id != part.segment_id:
        raise SegmentNotFoundError(
            "the segment was deleted and made anew while it was read", segment=part.segment
        )
    return cut_window(segment, offset, end)


def _ask(store: str, segment: str, ask: Callable[[ReadContainer], Awaitable[T]]) -> T:
    """Open the container of a segment read-only, ask it, and close it."""
    settings = load_settings(store)
    storage = open_storage(settings, SystemEnvironment())
    try:
        manifest = read_manifest(storage)
        check_uuid(manifest, settings.uuid)
    finally:
        storage.close()

    async def run() -> T:
        environment = SystemEnvironment()
        try:
            assembly = Assembly(settings, environment, manifest)
            container = await assembly.open_reader(container_of(segment, manifest.container_count))
            try:
                return await ask(container)
            finally:
                await container.close()
        finally:
            environment.close()

    return asyncio.run(run())
