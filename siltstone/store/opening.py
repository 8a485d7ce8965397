"""Opening a whole store: all its containers, or those that were asked for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from siltstone.core.bounded_calls import off_loop
from siltstone.core.environment import Environment, SystemEnvironment
from siltstone.core.errors import SiltstoneError
from siltstone.core.storage.uncancellable import run_whole
from siltstone.store.async_store import AsyncStore
from siltstone.store.handles.arguments import check_offset
from siltstone.store.handles.container_slot import ContainerSlot
from siltstone.store.handles.stand_ins import read_only_container
from siltstone.store.store_assembly import OPEN_POOL, Assembly, assembled

_log = logging.getLogger(__name__)


Recover = Literal["read-only"]
"""How a store whose tier 1 is gone may be opened, without writing anything."""


async def open_async_store(
    path: Path | str,
    *,
    read_only: bool = False,
    takeover: bool = False,
    containers: Sequence[int] | None = None,
    recover: Recover | None = None,
    environment: Environment | None = None,
) -> AsyncStore:
    """Open the store whose settings file, or folder, is ``path``.

    Args:
        path: a settings file, or the folder that holds ``siltstone.yaml``.
        read_only: claim nothing and write nothing; works while an owner runs.
        takeover: claim although a live owner is known; it is fenced and stops.
        containers: indexes of those to open, so that several processes share the others; ``None``
            means all. Names of the others are refused, and listings leave them out.
        recover: ``"read-only"`` shows what long-term storage alone holds, as of the last flush of
            the tables: tier 1 is asked for nothing, and may be gone. Where long-term storage is
            damaged as well, the newest state that can be built is shown. ``store.stats()`` warns of
            what is missing, segment by segment where that is known. Implies ``read_only``.
        environment: gives time, randomness and threads; ``None`` means the real world.

    Raises:
        ValueError: there is no such container, or none is asked for.
        StoreNotFoundError: there is no settings file, or no store on long-term storage.
        SettingsError: the settings file is wrong.
        StoreInUseError: a live owner holds a container; or, with ``recover``, it changed what was
            looked at, each of several times.
        FormatError: a newer version made the store.
        LogLostError: the log is not the one that the store was written with.
        LogError: the log refused, or did not answer.
        StoreError: a folder of this machine does not answer, such as that of the settings file.
        ChunkError: long-term storage refused, or did not answer.
        CorruptDataError: what a container begins with is damaged or gone; see ``recover``.
        CapabilityError: long-term storage or the log cannot do what a store needs.
    """
    if recover not in (None, "read-only"):
        raise ValueError(f"recover is 'read-only' or None, not {recover!r}")
    read_only = read_only or recover is not None
    if read_only and takeover:
        raise ValueError("read_only and takeover exclude each other: a reader claims nothing")
    world = SystemEnvironment() if environment is None else environment
    try:
        assemble = partial(assembled, path, world, without_manifest=recover is not None)
        assembly = await run_whole(world, OPEN_POOL, assemble, Assembly.close)
        slots: tuple[ContainerSlot, ...] = ()
        try:
            slots = await open_containers(
                assembly,
                read_only=read_only,
                takeover=takeover,
                containers=containers,
                without_log=recover is not None,
            )
            if not read_only:
                await run_whole(world, OPEN_POOL, assembly.expose)
        except BaseException:
            try:
                await _close_all(slots)
            finally:
                assembly.close()
            raise
    except BaseException:
        if environment is None:
            await off_loop(world.close)
        raise
    return AsyncStore(
        assembly, slots, read_only=read_only, closes=world if environment is None else None
    )


def _chosen(containers: Sequence[int] | None, count: int) -> list[int]:
    if containers is None:
        return list(range(count))
    chosen = sorted({check_offset(index, what="container") for index in containers})
    if not chosen or chosen[-1] >= count:
        raise ValueError(f"containers are some of 0 to {count - 1}, not {list(containers)}")
    return chosen


async def open_containers(
    assembly: Assembly,
    *,
    read_only: bool,
    takeover: bool,
    containers: Sequence[int] | None = None,
    without_log: bool = False,
) -> tuple[ContainerSlot, ...]:
    """Open containers, all at once; when one fails, close the others and raise its error."""
    indexes = _chosen(containers, assembly.manifest.container_count)
    # Next to the results: a caller that is cancelled just as they are there does not get them.
    slots: dict[int, ContainerSlot] = {}

    async def one(index: int) -> None:
        if read_only:
            reader = await assembly.open_reader(index, without_log=without_log)
            slots[index] = ContainerSlot(index, read_only_container(reader), reader.stats().epoch)
        else:
            owner = await assembly.open_owner(index, takeover=takeover)
            slots[index] = ContainerSlot(index, owner, owner.epoch)

    try:
        results = await asyncio.gather(*(one(index) for index in indexes), return_exceptions=True)
        if failure := next((result for result in results if result is not None), None):
            raise failure
    except BaseException:
        await _close_all(slots.values())
        raise
    return tuple(slots[index] for index in indexes)


async def _close_all(slots: Iterable[ContainerSlot]) -> None:
    """Close what no caller will hold; each to its end, even if the caller is cancelled again."""

    async def one(slot: ContainerSlot) -> None:
        try:
            await slot.container.close()
        except (SiltstoneError, OSError) as error:
            _log.warning("container %d did not close cleanly: %s", slot.index, error)

    await asyncio.gather(*(one(slot) for slot in slots))
