"""The end of a story: all drains, every fact is there, and nothing is left that nothing names."""

from __future__ import annotations

import asyncio

from siltstone.collections.async_collection import AsyncCollection
from siltstone.collections.async_collections import AsyncCollections
from siltstone.collections.consensus.object_names import entry_name, rollup_name
from siltstone.collections.place import CollectionPlace
from siltstone.collections.state.part_names import names_in, part_key
from siltstone.collections.state_progress import advanced
from siltstone.core.errors import CollectionNotFoundError, SinceError
from siltstone.core.records.collection_state import CollectionState
from tests.simulation.collections.ledger import CollectionLedger
from tests.simulation.collections.world import CollectionWorld
from tests.simulation.collections.writers import come_of
from tests.simulation.facts import ViolationError

QUIET_S = 5 * 86_400.0
"""All leases have ended, whatever clock they were renewed by."""

ROLLUPS_MAX = 3
"""The floor, what made it, and the one before, which goes with the next entry."""

LOOKS = 5
DROPPED = 0.2


async def bring_to_an_end(world: CollectionWorld) -> None:
    """Look at every collection as a process does that comes after all others.

    Raises:
        ViolationError: something is not as it should be.
    """
    process = world.process("auditor", in_steps=False)
    place = world.calm_place(process)
    await process.start(_audit(world, place))


async def _audit(world: CollectionWorld, place: CollectionPlace) -> None:
    collections = AsyncCollections(place)
    await asyncio.sleep(QUIET_S)
    for ledger in world.ledgers.values():
        try:
            gusts = await collections.collection(ledger.name)
        except CollectionNotFoundError:
            if ledger.is_there:
                raise ViolationError(f"{ledger.name} is gone") from None
            continue
        await _look_back(world, ledger, gusts)
        await _tidy(world, ledger, gusts)
        await _look_back(world, ledger, gusts)
        if world.chance.random() < DROPPED:
            await collections.drop(ledger.name)
            if names := [name for name in _names(world, gusts.id) if "/parts/" in name]:
                raise ViolationError(f"a dropped collection left {names}")
    await collections.collect()
    await collections.sweep()
    async for finding in collections.check(deep=True):
        if "half" not in finding.message and "no name" not in finding.message:
            raise ViolationError(f"{finding}")
    await collections.close()


async def _look_back(
    world: CollectionWorld, ledger: CollectionLedger, gusts: AsyncCollection
) -> None:
    """Read all history that there is, and all rows at some times."""
    known = ledger.known()
    info = await gusts.info()
    ledger.told(info, known)
    assert info.upper is not None, "nothing finishes it"
    if not info.upper:
        return
    stream = await gusts.subscribe(until=info.upper)
    is_first = True
    async for changes in stream:
        if is_first:
            ledger.first_rows(changes.to_arrow(), info.since)
            is_first = False
        else:
            ledger.read_changes(changes.to_arrow(), changes.lower, changes.upper)
    chosen = [world.chance.randint(info.since, info.upper - 1) for _ in range(LOOKS)]
    for as_of in [info.since, *chosen, info.upper - 1]:
        snapshot = await gusts.snapshot(as_of)
        ledger.read_rows(await snapshot.to_arrow(), as_of)
    for attempt in ledger.attempts:
        if attempt.is_told and attempt.upper is not None and attempt.upper > info.upper:
            raise ViolationError(f"{attempt} is beyond the upper {info.upper}")
    if info.since:
        try:
            await gusts.snapshot(info.since - 1)
        except SinceError as error:
            ledger.refused_time(error.as_of, error.since)
        else:
            raise ViolationError(f"rows before the since {info.since} are shown")


async def _tidy(world: CollectionWorld, ledger: CollectionLedger, gusts: AsyncCollection) -> None:
    """Nobody holds anything any more: what is left is what the newest state names."""
    for name in list(ledger.bookmarks):
        await (await gusts.bookmark(name)).remove()
    for _ in range(2):
        attempt = ledger.attempt(world.chance)
        attempt.go = []
        attempt.tries += 1
        done = await gusts.append(come_of(attempt))
        ledger.acknowledged_appends((attempt,), done.time, done.upper, ledger.known())
    ledger.bookmarks.clear()
    info = await gusts.info()
    assert info.upper is not None, "nothing finishes it"
    if ledger.keeps is not None and info.since < info.upper - ledger.keeps:
        raise ViolationError(f"the since {info.since} stays below the history {ledger.keeps}")
    if info.readers:
        raise ViolationError(f"leases do not end: {info.readers}")
    await gusts.compact()
    await gusts.settle()
    for _ in range(2):
        await asyncio.sleep(world.garbage_delay_s + 1)
        await gusts.append()
        await gusts.settle()
        await gusts.collect()
        await gusts.sweep()
        await gusts.settle()
    _check_objects(world, await _newest(world, gusts))


async def _newest(world: CollectionWorld, gusts: AsyncCollection) -> CollectionState:
    """The state as an open reads it."""
    place = gusts._place
    opened = await place.ask(lambda: place.consensus.open(gusts.id))
    assert opened is not None, "it is there"
    return advanced(None, opened)[0]


def _check_objects(world: CollectionWorld, state: CollectionState) -> None:
    """Compare the objects that are there with those that the newest state names.

    Raises:
        ViolationError: there are others, or some are missing.
    """
    wanted = {rollup_name(state.id, rollup) for rollup in state.rollups.values()}
    for batch in state.batches.items:
        wanted |= {part_key(state.id, name) for name in names_in(batch)}
    wanted |= {entry_name(state.id, seqno) for seqno in range(state.floor + 1, state.seqno + 1)}
    wanted.add(entry_name(state.id, 1))
    # These go when the entry that made the floor is not the newest one any more.
    oldest = min(state.rollups)
    old = {entry_name(state.id, seqno) for seqno in range(oldest + 1, state.floor + 1)}
    found = set(_names(world, state.id))
    if wanted - found or found - wanted - old or len(state.rollups) > ROLLUPS_MAX:
        raise ViolationError(
            f"missing {sorted(wanted - found)}, left {sorted(found - wanted - old)}, "
            f"rollups {sorted(state.rollups)}, collected {state.collected} of {state.seqno}"
        )


def _names(world: CollectionWorld, collection_id: bytes) -> list[str]:
    prefix = f"collections/{collection_id.hex()}/"
    return [stat.name for stat in world.bare_storage().list(prefix)]
