"""Asking the store where a segment lies: a read-only open of one container, for one question.

Used by planning, and by a task whose chunk is gone or whose record is longer than was planned.
Claims nothing and writes nothing but a local index of its own, so it works beside a running writer
and beside its like.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from siltstone.container.reader import ReadContainer
from siltstone.container.segment_map import SegmentMap
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import SegmentNotFoundError
from siltstone.core.words import MIB, container_of
from siltstone.pipelines.window import Window, cut_window
from siltstone.store.assemble import assembled

T = TypeVar("T")

WINDOW_BYTES: Final = 64 * MIB
"""How much a task that has to look again asks for at a time."""


def ask_container(store: str, segment: str, ask: Callable[[ReadContainer], Awaitable[T]]) -> T:
    """Open the container of a segment read-only, ask it, and close it."""

    async def run() -> T:
        environment = SystemEnvironment()
        try:
            assembly = assembled(store, environment)
            index = container_of(segment, assembly.manifest.container_count)
            container = await assembly.open_reader(index)
            try:
                return await ask(container)
            finally:
                await container.close()
        finally:
            environment.close()

    return asyncio.run(run())


def find_window(store: str, segment: str, segment_id: int, offset: int, end: int) -> Window:
    """Find bytes of a segment again, from ``offset`` on, as far as a task needs them soon.

    Args:
        store: the settings file.
        segment: its name.
        segment_id: its id.
        offset: the first byte.
        end: where the reading ends.

    Raises:
        SegmentNotFoundError: the segment was deleted, whether or not its name is used again.
        SegmentTruncatedError: ``offset`` was truncated.
    """
    stop = min(end, offset + WINDOW_BYTES)

    async def ask(container: ReadContainer) -> SegmentMap:
        return await container.map(segment, offset, stop)

    found = ask_container(store, segment, ask)
    if found.info.segment_id != segment_id:
        raise SegmentNotFoundError(
            "the segment was deleted and made anew while it was read", segment=segment
        )
    return cut_window(found, offset, stop)
