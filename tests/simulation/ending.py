"""The end of a run: nothing fails any more, everything drains, and what is there is right."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable

from siltstone.core.chunk_names import data_prefix, import_prefix, system_prefix
from siltstone.core.records.task import TaskKind
from tests.simulation.asking import Plans, tag_of
from tests.simulation.facts import State, ViolationError
from tests.simulation.host import Host
from tests.simulation.ledger import Ledger
from tests.simulation.world import World
from tests.support import inside
from tests.support.container.row_checks import all_chunks, check_rows

DAYS_S = 3 * 24 * 3600.0
"""After this time a sweep takes unnamed chunks, and all tasks but those of tombstones are due."""

ROUNDS_MAX = 12
CHECKPOINTS = 4
"""What the two newest checkpoints and the layouts in them name is kept, so it takes some."""

SYSTEM_FILES_MAX = 60

REMEMBERED = (TaskKind.FORGET_TOMBSTONE, TaskKind.CLOSE_IMPORT)
"""Tasks that only forget what a repeat is known by, some time later."""


async def bring_to_an_end(world: World, plans: list[Plans]) -> None:
    """Look at everything as the last owners and a reader, and check all that is left."""
    await _own(world, plans, _first)
    # What the dead left on its way arrives.
    await asyncio.sleep(60)
    for machine in world.machines:
        shutil.rmtree(machine.folder, ignore_errors=True)
    world.clock.now += DAYS_S
    await _own(world, plans, _last)
    # A reader sees the same.
    reader = Host(world, "reader", world.machines[0])
    await reader.read(reader.look_at_segments)


async def _own(world: World, plans: list[Plans], work: Callable[[Host], Awaitable[None]]) -> None:
    host = Host(world, "last", world.machines[0])
    host.start_owner(plans, work, takeover=True)
    await asyncio.wait([host.task])
    host.task.result()
    if host.refusal is not None:
        raise ViolationError(f"the last owner cannot open: {host.refusal!r}") from host.refusal


async def flush_all(host: Host) -> None:
    """Flush until nothing is left; the optimiser adds updates meanwhile."""
    assert host.store is not None
    for _ in range(ROUNDS_MAX):
        await host.process.sleep(5)
        await host.store.flush()
        every = host.store.stats()
        if not any(stats.unflushed_bytes or stats.unflushed_table_bytes for stats in every):
            return
    raise ViolationError(f"something is not flushed: {every}")


async def _first(host: Host) -> None:
    assert host.store is not None
    await _look(host)
    await flush_all(host)
    await _look(host)
    for ledger in host.world.ledgers:
        container = host.container(ledger.index)
        await check_rows(container, host.world.bare_storage(), strict=False)


async def _last(host: Host) -> None:
    assert host.store is not None
    await _look(host)
    _nothing_open(host.world)
    await _retain(host)
    await host.store.replay_garbage()
    async for _ in host.store.sweep(delete=True, all_epochs=True):
        pass
    for ledger in host.world.ledgers:
        await drain(host, ledger)
    await _look(host)
    for stats in host.store.stats():
        if stats.last_error is not None:
            raise ViolationError(f"something fails although nothing fails: {stats.last_error}")


async def _retain(host: Host) -> None:
    """All is old and flushed: nothing is left that a rule of age applies to."""
    assert host.store is not None
    cuts = [cut async for cut in host.store.retain()]
    for ledger in host.world.ledgers:
        for segment in ledger.segments.values():
            rule, info = ledger.rules.must_hold(segment.name), await host.info(segment.name)
            all_is_old = rule is not None and (rule.age_max_s is not None or rule.bytes_max == 0)
            if all_is_old and info.start_offset != info.length:
                raise ViolationError(f"{rule} leaves {segment.name} {info}, cut {cuts}")


async def drain(host: Host, ledger: Ledger) -> None:
    """Nothing is left that is not needed."""
    assert host.store is not None
    index, tag = ledger.index, tag_of(ledger.index, host.world.containers)
    store, container, storage = host.store, host.container(index), host.world.bare_storage()
    rows = inside.parts(container).pipeline.replica.rows
    for _ in range(ROUNDS_MAX):
        await container.checkpoint()
        await store.collect()
        left = [task for task in rows.tasks(2**62) if task.kind not in REMEMBERED]
        if not left:
            break
        # The optimiser makes new garbage meanwhile.
        await host.process.sleep(10)
    else:
        raise ViolationError(f"tasks are left: {left}")
    for number in range(CHECKPOINTS):
        await store.create(f"{tag}end/{number}")
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
    if unnamed := {stat.name for stat in storage.list(data_prefix(index))} - chunk_names:
        raise ViolationError(f"chunks are left that nothing names: {unnamed}")
    await _check_imports(host, index, chunk_names)
    system = [stat.name for stat in storage.list(system_prefix(index))]
    if len(system) > SYSTEM_FILES_MAX:
        raise ViolationError(f"{len(system)} system files are left: {system}")


async def _check_imports(host: Host, index: int, chunk_names: set[str]) -> None:
    """All sessions are closed, so nothing is left below their prefixes but what rows name."""
    assert host.store is not None
    async for _ in host.store.sweep(delete=True):
        pass
    names = {stat.name for stat in host.world.bare_storage().list(import_prefix(index))}
    if names - chunk_names:
        raise ViolationError(f"imports left chunks: {names - chunk_names}")


async def _look(host: Host) -> None:
    """Look at everything twice: the second look has to agree with what the first one showed."""
    for application in host.applications:
        for _ in range(2):
            await application.look_at_all()


def _nothing_open(world: World) -> None:
    """No process is left that could make an open attempt happen, so all is known."""
    for segment in (segment for ledger in world.ledgers for segment in ledger.segments.values()):
        seen = [append for append in segment.appends if not append.hidden]
        for attempt in (segment.create, segment.seal, segment.end, *seen):
            if attempt is not None and attempt.state is State.OPEN:
                raise ViolationError(f"it is not known what became of: {attempt.what}")
