"""Value segments: when one ends, what its footer says, and what a crash leaves of a roll."""

from __future__ import annotations

import asyncio

import pytest

from siltstone.container.models.segments import Put
from siltstone.core.errors import CorruptDataError, LostDataError, OutcomeUnknownError
from siltstone.objects.records.footer import encode_footer, note_of
from siltstone.objects.records.keys import manifest_key
from siltstone.objects.records.space_rows import ValueStatus, encode_manifest_row
from siltstone.objects.records.value_record import encode_header
from siltstone.objects.value_segments import RollLimits
from siltstone.testing.faults.faulty_fenced_log import FaultPlan
from tests.support import inside
from tests.support.container.container_world import World
from tests.support.objects.space_check import SeenSpace, look
from tests.support.objects.space_world import NAMES, SMALL, Opened, open_owner, open_reader

pytestmark = pytest.mark.virtual_time

SEALED, ROLLING, ACTIVE = ValueStatus.SEALED, ValueStatus.ROLLING, ValueStatus.ACTIVE


async def made(world: World, plan: FaultPlan | None = None) -> Opened:
    opened = await open_owner(world, plan=plan)
    await opened.make()
    return opened


def statuses(seen: SeenSpace) -> list[ValueStatus]:
    return [row.status for row in seen.manifest]


async def test_a_segment_ends_with_a_number_of_records_or_of_bytes() -> None:
    async with World() as world:
        opened = await made(world)
        photos = await opened.keyspace(RollLimits(length=1_000, records=5))
        for number in range(11):
            await photos.put("b", f"k{number}", b"")
        for number in range(3):
            await photos.put("b", f"large{number}", bytes(600))
        await world.environment.sleep(1)
        seen = await look(opened.store, NAMES)
        assert [row.records for row in seen.manifest[:-1]] == [5, 5, 3]
        assert statuses(seen) == [SEALED, SEALED, SEALED, ACTIVE]
        await opened.store.close()


async def test_a_closed_keyspace_writes_no_more_footers() -> None:
    """Value segments become full while it settles what was asked for before."""
    async with World(latency=lambda *_: 0.01) as world:
        opened = await made(world)
        keyspace = await opened.keyspace(SMALL)
        space = inside.open_space(keyspace)
        puts = [keyspace.put("b", f"k{number}", b"v") for number in range(30)]
        await space.close()
        assert all(put.done() for put in puts)
        assert [task for task in inside.space_tasks(space) if not task.done()] == []
        assert len((await look(opened.store, NAMES)).manifest) == 6


async def test_a_footer_has_several_pieces() -> None:
    async with World() as world:
        opened = await made(world)
        photos = await opened.keyspace(RollLimits(records=9))
        puts = [
            photos.put("b", f"k{number}", bytes(100), metadata=bytes(30_000)) for number in range(9)
        ]
        await asyncio.gather(*puts)
        await photos.put("b", "next", b"")
        await world.environment.sleep(1)
        seen = await look(opened.store, NAMES)
        assert statuses(seen) == [SEALED, ACTIVE]
        assert seen.manifest[0].footer_end - seen.manifest[0].length > 9 * 30_000
        await opened.store.close()


async def test_a_footer_is_whole_after_the_container_was_opened_again() -> None:
    """Notes of what was acknowledged before, and records of an unknown outcome, are in it."""
    for applied in (True, False):
        plan = FaultPlan()
        async with World() as world:
            opened = await made(world, plan)
            photos = await opened.keyspace(RollLimits(records=6))
            for number in range(3):
                await photos.put("b", f"k{number}", b"v")
            plan.fail("append", applied=applied)
            with pytest.raises(OutcomeUnknownError):
                await photos.put("b", "k3", b"v")
            await world.environment.sleep(20)
            for number in range(4, 8):
                await photos.put("b", f"k{number}", b"v")
            await world.environment.sleep(5)
            seen = await look(opened.store, NAMES)
            assert statuses(seen) == [SEALED, ACTIVE]
            await opened.store.close()


async def test_a_roll_of_unknown_outcome_gets_its_footer_without_a_new_opening() -> None:
    for applied in (True, False):
        plan = FaultPlan()
        async with World() as world:
            opened = await made(world, plan)
            photos = await opened.keyspace(RollLimits(records=2))
            await photos.put("b", "k0", b"v")
            await photos.put("b", "k1", b"v")
            plan.fail("append", number=2, applied=applied)  # the first makes the next segment
            with pytest.raises(OutcomeUnknownError):
                await photos.put("b", "k2", b"v")
            await world.environment.sleep(20)
            assert (await photos.put("b", "k2", b"v")).sqn == 3
            await world.environment.sleep(5)
            assert statuses(await look(opened.store, NAMES)) == [SEALED, ACTIVE]
            await opened.store.close()


async def test_a_footer_is_written_once_a_closed_container_is_open_again() -> None:
    """The call that fails is one of the footer, and the container stays closed for a while."""
    for number in range(3, 8):
        plan = FaultPlan()
        async with World() as world:
            opened = await made(world, plan)
            photos = await opened.keyspace(RollLimits(records=2))
            await photos.put("b", "k0", b"v")
            await photos.put("b", "k1", b"v")
            plan.fail("append", number=number, applied=number % 2 == 0)
            stay_closed(plan, 6)
            await asyncio.gather(photos.put("b", "k2", b"v"), return_exceptions=True)
            await world.environment.sleep(200)
            assert statuses(await look(opened.store, NAMES)) == [SEALED, ACTIVE], number
            await opened.store.close()


def stay_closed(plan: FaultPlan, attempts: int) -> None:
    """Let so many attempts fail to open the container again."""
    for number in range(1, attempts + 1):
        plan.fail("claim", number=number, applied=False)


async def test_what_has_expired_goes_once_a_closed_container_is_open_again() -> None:
    plan = FaultPlan()
    async with World() as world:
        opened = await made(world, plan)
        photos = await opened.keyspace(RollLimits())
        await photos.put("b", "k", b"v", ttl_s=1)
        await world.environment.sleep(55)
        plan.fail("append", applied=False)
        stay_closed(plan, 12)
        with pytest.raises(OutcomeUnknownError):
            await photos.put("b", "other", b"v")
        await world.environment.sleep(6)
        assert opened.store.stats()[0].error is not None, "closed when the round begins"
        await world.environment.sleep(300)
        assert (await look(opened.store, NAMES)).objects == {}
        await opened.store.close()


@pytest.mark.parametrize("steps", range(0, 120, 6))
async def test_a_crash_at_any_step_of_a_roll_leaves_a_whole_keyspace(steps: int) -> None:
    async with World() as world:
        opened = await made(world)
        photos = await opened.keyspace()
        for number in range(5):
            await photos.put("b", f"k{number}", bytes(100))
        rolls = photos.put("b", "next", b"v")
        for _ in range(steps):
            await asyncio.sleep(0)
        acknowledged = rolls.done()
        await opened.die()
        opened = await open_owner(world, takeover=True)
        photos = await opened.keyspace()
        seen = await look(opened.store, NAMES)
        assert len(seen.objects) >= 5 + acknowledged
        put = await photos.put("b", "more", b"v")
        assert put.sqn == seen.state.next_sqn
        await world.environment.sleep(5)
        assert statuses(await look(opened.store, NAMES)) == [SEALED, ACTIVE]
        await opened.store.close()


@pytest.mark.parametrize("percent", [0, 1, 50, 99, 100])
async def test_a_footer_goes_on_where_it_stands(percent: int) -> None:
    """Of a footer any part is there; the next owner writes the rest, and only that."""
    async with World() as world:
        opened = await made(world)
        photos = await opened.keyspace(RollLimits())
        for number in range(3):
            await photos.put("b", f"k{number}", bytes(50))
        footer = footer_of(await look(opened.store, NAMES))
        await half_rolled(opened, footer[: len(footer) * percent // 100])
        await opened.die()
        opened = await open_owner(world, takeover=True)
        photos = await opened.keyspace()
        await photos.put("b", "k3", bytes(50))
        await world.environment.sleep(1)
        seen = await look(opened.store, NAMES)
        assert statuses(seen) == [SEALED, ACTIVE]
        assert seen.manifest[0].footer_end == seen.manifest[0].length + len(footer)
        await opened.store.close()


def footer_of(seen: SeenSpace) -> bytes:
    """The footer of the first segment."""
    notes = [note_of(encode_header(header), header) for _, _, header, _ in seen.records.values()]
    return encode_footer(notes, start=seen.state.length, as_of=0, where="test")


async def half_rolled(opened: Opened, footer: bytes) -> None:
    """Roll, and write this much of the footer, as an owner that dies does."""
    space = inside.open_space(opened.spaces[-1])
    segments = inside.value_segments(space)
    segments._begin = lambda work: work.close()
    state = await space.parts.ledger.state()
    assert state is not None
    await segments.roll(state)
    if footer:
        await opened.store.segment(NAMES.value_segment(1)).append(footer)


async def test_a_foreign_end_of_a_full_segment_is_no_footer() -> None:
    async with World() as world:
        opened = await made(world)
        photos = await opened.keyspace(RollLimits())
        await photos.put("b", "k", b"v")
        await half_rolled(opened, bytes(10_000))
        await opened.die()
        opened = await open_owner(world, takeover=True)
        photos = await opened.keyspace()
        await photos.put("b", "k2", b"v")
        await world.environment.sleep(300)
        assert statuses(await look(opened.store, NAMES)) == [ROLLING, ACTIVE]
        found = await photos.get("b", "k")
        assert found is not None
        assert found.value == b"v"
        await opened.store.close()


async def test_a_keyspace_of_which_a_segment_is_gone_does_not_open() -> None:
    async with World() as world:
        opened = await made(world)
        await (await opened.keyspace()).put("b", "k", b"v")
        await opened.store.segment(NAMES.value_segment(1)).seal()
        await opened.store.segment(NAMES.value_segment(1)).delete()
        reader = await open_reader(world)
        with pytest.raises(LostDataError, match="gone"):
            await reader.keyspace()
        await reader.store.close()
        await opened.die()
        opened = await open_owner(world, takeover=True)
        with pytest.raises(LostDataError, match="gone"):
            await opened.keyspace()
        await opened.store.close()


async def test_rows_that_disagree_do_not_open() -> None:
    async with World() as world:
        opened = await made(world)
        photos = await opened.keyspace(RollLimits())
        await photos.put("b", "k", b"v")
        row = (await look(opened.store, NAMES)).manifest[0]
        other = encode_manifest_row(type(row)(number=7, status=ACTIVE, first_sqn=row.first_sqn))
        await opened.store.commit([Put(NAMES.ledger, manifest_key(row.first_sqn), other)])
        await opened.die()
        opened = await open_owner(world, takeover=True)
        with pytest.raises(CorruptDataError, match="disagree"):
            await opened.keyspace(SMALL)
        await opened.store.close()
