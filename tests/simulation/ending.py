"""The end of a run: nothing fails any more, everything drains, and what is there is right."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable

from siltstone.core.chunk_names import data_prefix, system_prefix
from siltstone.core.records.task import TaskKind
from tests.simulation.asking import Plans
from tests.simulation.host import Host
from tests.simulation.ledger import State, ViolationError
from tests.simulation.looking import Look, look
from tests.simulation.world import World
from tests.unit.container.row_checks import all_chunks, check_rows

DAYS_S = 3 * 24 * 3600.0
"""After so long a sweep takes what nobody names, and every task but those of tombstones is due."""

ROUNDS_MAX = 12
CHECKPOINTS = 4
"""What the two newest checkpoints and the layouts in them name is kept, so it takes some."""

SYSTEM_FILES_MAX = 60


async def bring_to_an_end(world: World, plans: Plans) -> None:
    """Look at everything as the last owners and a reader, and check all that is left."""
    await _own(world, plans, _first)
    # What the dead left on its way arrives.
    await asyncio.sleep(60)
    for machine in world.machines:
        shutil.rmtree(machine.folder, ignore_errors=True)
    world.clock.now += DAYS_S
    await _own(world, plans, _last)
    await _read(world)


async def _own(world: World, plans: Plans, work: Callable[[Host], Awaitable[None]]) -> None:
    host = Host(world, "last", world.machines[0])
    host.start_owner(plans, work, takeover=True)
    await asyncio.wait([host.task])
    host.task.result()
    if host.refusal is not None:
        raise ViolationError(f"the last owner can not open: {host.refusal!r}") from host.refusal


async def _first(host: Host) -> None:
    assert host.store is not None
    await _look(host)
    for _ in range(ROUNDS_MAX):
        await host.process.sleep(5)
        await host.store.flush()
        (stats,) = host.store.stats()
        # The optimiser adds updates meanwhile.
        if not stats.unflushed_bytes and not stats.unflushed_table_bytes:
            break
    else:
        raise ViolationError(f"something is not flushed: {stats}")
    await _look(host)
    await check_rows(host.container, host.world.bare_storage(), strict=False)


async def _last(host: Host) -> None:
    assert host.store is not None
    store, container, storage = host.store, host.container, host.world.bare_storage()
    await _look(host)
    _nothing_open(host.world)
    await store.replay_garbage()
    async for _ in store.sweep(delete=True, all_epochs=True):
        pass
    rows = container._parts.pipeline.replica.rows
    for _ in range(ROUNDS_MAX):
        await container.checkpoint()
        await store.collect()
        left = [task for task in rows.tasks(2**62) if task.kind is not TaskKind.FORGET_TOMBSTONE]
        if not left:
            break
        # The optimiser makes new garbage meanwhile.
        await host.process.sleep(10)
    else:
        raise ViolationError(f"tasks are left: {left}")
    for number in range(CHECKPOINTS):
        await store.create(f"end/{number}")
        await container.checkpoint()
    for attempt in range(ROUNDS_MAX):
        try:
            await check_rows(container, storage, strict=True)
        except AssertionError:
            # The optimiser may be in the middle of a chunk.
            if attempt == ROUNDS_MAX - 1:
                raise
            await host.process.sleep(2)
        else:
            break
    # The optimiser's garbage may be on its way out: its task names it until it is gone.
    chunk_names = {chunk.name for chunk in all_chunks(rows).values()}
    chunk_names |= {task.name for task in rows.tasks(2**62) if task.kind is TaskKind.DELETE_CHUNK}
    if unnamed := {stat.name for stat in storage.list(data_prefix(0))} - chunk_names:
        raise ViolationError(f"chunks are left that nothing names: {unnamed}")
    system = [stat.name for stat in storage.list(system_prefix(0))]
    if len(system) > SYSTEM_FILES_MAX:
        raise ViolationError(f"{len(system)} system files are left: {system}")
    await _look(host)
    (stats,) = store.stats()
    if stats.last_error is not None:
        raise ViolationError(f"something fails although nothing fails: {stats.last_error}")


async def _look(host: Host) -> None:
    """Look at everything twice: what the first look taught, the second one has to agree with."""
    assert host.application is not None
    for _ in range(2):
        await host.application.look_at_all()


def _nothing_open(world: World) -> None:
    """Nobody is left who could make an open attempt happen, so all is known."""
    for segment in world.ledger.segments.values():
        attempts = [segment.create, segment.seal, segment.end, *segment.appends]
        for attempt in attempts:
            if attempt is not None and attempt.state is State.OPEN:
                raise ViolationError(f"nobody knows what became of: {attempt.what}")


async def _read(world: World) -> None:
    """A reader sees the same."""
    host = Host(world, "reader", world.machines[0])

    async def work(who: Look) -> None:
        assert host.store is not None
        for segment in list(world.ledger.segments.values()):
            await look(who, host.store.segment(segment.name), segment)

    host.start_reader(work)
    await asyncio.wait([host.task])
    host.task.result()
    if host.refusal is not None:
        raise ViolationError(f"a reader can not open: {host.refusal!r}") from host.refusal
