"""The end of a story of a keyspace: all is there, and nothing is left that nothing names."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import TYPE_CHECKING, cast

from siltstone.objects.async_keyspace import AsyncKeyspace
from siltstone.objects.async_keyspaces import restore_async
from siltstone.objects.errors import CompactionBusyError
from siltstone.objects.open_spaces import open_space
from siltstone.objects.rebuild_space import rebuild_space
from siltstone.objects.records.keys import LargeStatus
from siltstone.objects.records.space_rows import ValueStatus
from siltstone.objects.space_names import space_names
from tests.simulation.ending import DAYS_S, drain, flush_all
from tests.simulation.facts import ViolationError
from tests.simulation.host import Host
from tests.simulation.keyspaces.clients import SpaceClients
from tests.simulation.keyspaces.facts import Key, SeenHead, seen_head
from tests.simulation.keyspaces.host import KeyspaceHost, checked_rows
from tests.simulation.keyspaces.looks import TAGS
from tests.simulation.keyspaces.rows import SpaceRows
from tests.simulation.keyspaces.world import NAMES, PLACE, SPACE
from tests.support import inside
from tests.support.container.row_checks import check_rows
from tests.support.objects.large_check import lying as lying_large
from tests.support.objects.value_replay import lying, replay

if TYPE_CHECKING:
    from tests.simulation.keyspaces.world import KeyspaceWorld, MadeBackup

UPKEEP_S = 30.0
"""Longer than what nothing needs stays."""

RESTORED_MAX = 2


async def bring_to_an_end(world: KeyspaceWorld) -> None:
    """Look at everything as the last owners do, and check all that is left.

    Raises:
        ViolationError: something is not as it should be.
    """
    await _own(world, _first)
    # What the dead left on its way arrives.
    await asyncio.sleep(60)
    for machine in world.machines:
        shutil.rmtree(machine.folder, ignore_errors=True)
    world.clock.now += DAYS_S
    await _own(world, _last)


async def _own(world: KeyspaceWorld, work: Callable[[Host], Awaitable[None]]) -> None:
    host = KeyspaceHost(world, world.machines[0], "last")
    host.start_owner([], work, takeover=True)
    await asyncio.wait([host.task])
    host.task.result()
    if host.refusal is not None:
        raise ViolationError(f"the last owner cannot open: {host.refusal!r}") from host.refusal


async def _space(host: Host) -> AsyncKeyspace:
    """The keyspace, made if no owner had time for that."""
    clients = cast("SpaceClients", host.applications[0])
    for _ in range(2):
        space = await clients.keyspace()
        if space is not None:
            return space
    raise ViolationError("the keyspace does not open, and nothing fails")


async def _first(host: Host) -> None:
    assert host.store is not None
    world = cast("KeyspaceWorld", host.world)
    space = await _space(host)
    await look_at_all(world, space)
    await flush_all(host)
    await look_at_all(world, space)
    await check_rows(host.container(0), world.bare_storage(), strict=False)
    for backup in world.chance.sample(world.backups, min(RESTORED_MAX, len(world.backups))):
        await _restore(host, world, backup)


async def _last(host: Host) -> None:
    assert host.store is not None
    world = cast("KeyspaceWorld", host.world)
    space = await _space(host)
    await look_at_all(world, space)
    await _quiet(host, world, space)
    before = await look_at_all(world, space)
    report = await rebuild_space(host.store, NAMES, None, {})
    if report.doubtful or report.unnamed or report.unknown:
        raise ViolationError(f"a rebuild finds damage: {report}")
    space = AsyncKeyspace(await open_space(host.store, NAMES, world.limits, world.objects))
    after = await look_at_all(world, space)
    mine = {key: head for key, head in after.items() if not head.expires_s}
    if mine != {key: head for key, head in before.items() if not head.expires_s}:
        raise ViolationError(f"a rebuild made {after} of {before}")
    await _quiet(host, world, space)
    await look_at_all(world, space)
    await host.store.replay_garbage()
    async for _ in host.store.sweep(delete=True, all_epochs=True):
        pass
    await drain(host, world.ledgers[0])
    for stats in host.store.stats():
        if stats.last_error is not None:
            raise ViolationError(f"something fails although nothing fails: {stats.last_error}")


async def _quiet(host: Host, world: KeyspaceWorld, space: AsyncKeyspace) -> None:
    """Nothing is worth a compaction any more, and nothing lies there that nothing names."""
    assert host.store is not None
    opened = inside.open_space(space)
    for _ in range(50):
        try:
            report = await space.compact()
        except CompactionBusyError:  # it compacts by itself
            await host.process.sleep(1)
            continue
        if not report.run:
            break
    else:
        raise ViolationError("compactions do not come to an end")
    if report.unreadable:
        raise ViolationError(f"a compaction finds damage: {report}")
    await host.process.sleep(UPKEEP_S)
    rows = _rows(host)
    statuses = {row.status for row in rows.manifest[:-1]}
    if statuses - {ValueStatus.SEALED}:
        raise ViolationError(f"footers are not written: {rows.manifest}")
    if rows.tasks or rows.large(LargeStatus.DEAD) or rows.large(LargeStatus.UPLOADING):
        raise ViolationError(f"tasks are left: {rows.tasks} {rows.large(LargeStatus.DEAD)}")
    named = {row.number for row in rows.manifest}
    left = await lying(opened)
    # A segment that a roll made, and whose commit failed: the next roll takes it.
    if left - named - {rows.state.next_number} or named - left:
        raise ViolationError(f"value segments {sorted(left)}, named {sorted(named)}")
    large = await lying_large(host.store, NAMES)
    if large != rows.large(LargeStatus.LIVE):
        raise ViolationError(f"large values {sorted(large)} are left")
    await _check_records(world, space)
    await _check_counts(host, space)


def _rows(host: Host) -> SpaceRows:
    found = checked_rows(inside.parts(host.container(0)).pipeline.replica)
    assert found is not None, "it is there"
    return found


async def _check_records(world: KeyspaceWorld, space: AsyncKeyspace) -> None:
    """Every record is whole; what a rebuild would find is what is there."""
    try:
        seen = await replay(inside.open_space(space))
    except AssertionError as error:
        raise ViolationError(f"records and rows do not fit: {error}") from error
    for key, head in seen.heads.items():
        value = seen.records[head.sqn][1]
        change = world.space.changes[int(head.metadata)]
        if sha256(value).hexdigest() != change.digest:
            raise ViolationError(f"{key}: another value in its record")
    newest = {header.key: (sqn, header) for sqn, (header, _) in sorted(seen.records.items())}
    for key, head in seen.heads.items():
        if newest[key][0] != head.sqn:
            raise ViolationError(f"{key} has SQN {head.sqn}, its newest record is {newest[key]}")
    if findings := [each async for each in space.check(deep=True)]:
        raise ViolationError(f"a check of a quiet keyspace finds {findings}")


async def _check_counts(host: Host, space: AsyncKeyspace) -> None:
    """What the keyspace tells of itself is what its rows have."""
    await space.reap()
    now_s, info, rows = host.process.time(), await space.stat(), _rows(host)
    heads = [head for head in rows.heads.values() if head.is_visible(now_s)]
    counted = (
        sum(len(head.entries) for head in heads),
        sum(head.size for head in heads),
        sum(head.large is not None for head in heads),
    )
    told = (info.index_entries, info.value_bytes, info.large)
    if (info.objects, *told) != (len(heads), *counted) or info.waiting:
        raise ViolationError(f"{info} of {len(heads)} objects, {counted}")
    if info.next_sqn != rows.state.next_sqn or info.expired:
        raise ViolationError(f"{info} of {rows.state}")
    segments = [(each.first_sqn, each.records) for each in info.segments]
    manifest = [(row.first_sqn, row.records) for row in rows.manifest[:-1]]
    if segments != [*manifest, (rows.state.first_sqn, rows.state.records)]:
        raise ViolationError(f"{segments} are told of {rows.manifest}")


async def look_at_all(
    world: KeyspaceWorld, space: AsyncKeyspace, end: int | None = None
) -> dict[Key, SeenHead]:
    """Read every object, and compare it with what is known of it, or was below an SQN."""
    ledger, now_s = world.space, inside.open_space(space).parts.store.environment.time()
    heads: dict[Key, SeenHead] = {}
    for tag in TAGS:
        async for each in space.objects(tag=tag):
            head = seen_head(each.head)
            heads[head.key] = head
            ledger.changes[head.number].check_value(each.value)
    if end is None:
        ledger.seen_all(heads, ledger.keys, ledger.least(10**9), now_s)
    else:
        if late := [head for head in heads.values() if head.sqn >= end]:
            raise ViolationError(f"changes after {end} are there: {late}")
        ledger.seen_all(heads, ledger.keys, {}, now_s, end=end)
    return heads


async def _restore(host: Host, world: KeyspaceWorld, backup: MadeBackup) -> None:
    """A backup has all that was there when it was made."""
    assert host.store is not None
    if backup.lineage != world.space.lineage:
        return
    name = f"restored-{backup.generation}"
    report = await restore_async(host.store, name, PLACE, generation=backup.generation)
    world.trace.note("story", f"restored generation {backup.generation}: {report}")
    if report.doubtful or report.unnamed or report.unknown:
        raise ViolationError(f"a restored keyspace has damage: {report}")
    names = space_names(name)
    space = AsyncKeyspace(await open_space(host.store, names, world.limits, world.objects))
    if dict(inside.open_space(space).parts.space.tags) != dict(SPACE.tags):
        raise ViolationError("a restored keyspace has other tags")
    await look_at_all(world, space, end=backup.sqn + 1)
