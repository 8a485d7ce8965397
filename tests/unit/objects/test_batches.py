"""Requests of a keyspace: their order, their conditions, and what becomes of them at the end."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from siltstone.container.models.segments import Append, Put
from siltstone.core.environment import Pool
from siltstone.core.errors import (
    BackPressureError,
    ClosedError,
    ConditionFailedError,
    CorruptDataError,
    FencedError,
    OutcomeUnknownError,
    ReadOnlyError,
    StorageFullError,
)
from siltstone.objects.async_keyspace import AsyncKeyspace
from siltstone.objects.errors import KeyspaceExistsError
from siltstone.objects.evaluation import SqnIs
from siltstone.objects.ledger import Ledger
from siltstone.objects.records.keys import STATE
from siltstone.objects.value_segments import RollLimits
from siltstone.store.handles.async_segment import AsyncSegment
from siltstone.testing.faults.faulty_fenced_log import FaultPlan
from siltstone.testing.virtual_time import jittered
from tests.support import inside
from tests.support.container.container_world import World, with_settings
from tests.support.objects.space_check import look
from tests.support.objects.space_world import NAMES, Opened, open_owner, open_reader

pytestmark = pytest.mark.virtual_time

FULL = StorageFullError("injected: full")


@asynccontextmanager
async def a_keyspace(
    plan: FaultPlan | None = None, *, latency_s: float = 0.0
) -> AsyncIterator[tuple[Opened, AsyncKeyspace]]:
    """A new keyspace whose segments do not roll."""
    async with World(latency=jittered(latency_s)) as world:
        opened = await open_owner(world, plan=plan)
        await opened.make()
        yield opened, await opened.keyspace(RollLimits())


async def test_what_a_put_returned_for_is_read_at_once() -> None:
    async with a_keyspace(latency_s=0.01) as (_, photos):
        for number in range(20):
            put = await photos.put("b", "k", bytes(number), metadata=b"%d" % number)
            found = await photos.get("b", "k")
            assert found is not None
            assert (found.value, found.head.sqn) == (bytes(number), put.sqn)
            assert await photos.head("b", "k") == found.head


async def test_changes_that_nobody_awaits_take_effect_in_the_order_of_their_calls() -> None:
    async with a_keyspace(latency_s=0.01) as (opened, photos):
        puts = [photos.put("b", f"k{number % 7}", b"%d" % number) for number in range(500)]
        removed = photos.delete("b", "k3")
        again = photos.put("b", "k3", b"again")
        assert [put.sqn for put in await asyncio.gather(*puts)] == list(range(1, 501))
        assert (await puts[499]).replaced == 493
        assert await removed == 501
        assert (await again).replaced is None
        seen = await look(opened.store, NAMES)
        assert {key.key: each.value for key, each in seen.objects.items()} == {
            b"k%d" % key: b"again" if key == 3 else b"%d" % max(range(key, 500, 7))
            for key in range(7)
        }


async def test_a_request_sees_those_before_it_and_readers_see_what_is_durable() -> None:
    async with a_keyspace(latency_s=0.1) as (_, photos):
        first = photos.put("b", "k", b"1")
        await some_steps()
        assert not first.done(), "it is in flight"
        second = photos.put("b", "k", b"2", expected=1)
        await some_steps()
        third = photos.delete("b", "k", expected=2)
        assert await photos.head("b", "k") is None
        assert (await first).replaced is None
        assert (await second).replaced == 1
        assert await third == 3
        assert await photos.head("b", "k") is None


async def test_what_was_filled_is_on_its_way_to_the_log_before_callers_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_keyspace(latency_s=0.1) as (opened, photos):
        first = photos.put("b", "k", b"1")
        await some_steps()
        second = photos.put("b", "k", b"2")
        await some_steps()
        environment, seen = opened.store.environment, []
        run_blocking = environment.run_blocking

        def noted(pool: Pool, call: Callable[[], Any]) -> Awaitable[Any]:
            seen.append(pool.name.partition("-")[0])
            return run_blocking(pool, call)

        monkeypatch.setattr(environment, "run_blocking", noted)
        first.add_done_callback(lambda _: seen.append("told"))
        assert (await second).replaced == 1
        assert seen == ["log", "told"]


async def test_a_defect_of_a_batch_is_told_to_all_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("injected")

    for broken_one in ("space_meter.SpaceMeter.committed", "batches.tell"):
        async with a_keyspace(latency_s=0.1) as (_, photos):
            first = photos.put("b", "k", b"1")
            await some_steps()
            second = photos.put("b", "k", b"2")
            await some_steps()
            with monkeypatch.context() as patched:
                patched.setattr(f"siltstone.objects.{broken_one}", broken)
                for each in (first, second, photos.put("b", "k", b"3")):
                    with pytest.raises(CorruptDataError, match="batches ended"):
                        await each


async def test_a_defect_after_a_commit_that_failed_is_told_to_all_who_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("injected")

    plan = FaultPlan()
    async with a_keyspace(plan, latency_s=0.1) as (_, photos):
        await photos.put("b", "k", b"1")
        plan.fail("append", applied=False)
        first = photos.put("b", "k", b"2")
        await some_steps()
        second = photos.put("b", "k", b"3")
        with monkeypatch.context() as patched:
            patched.setattr("siltstone.objects.batches.BatchWriter._told", broken)
            assert await all_told("batches ended", first, second)


async def test_a_defect_while_a_batch_takes_a_request_is_told_to_its_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("injected")

    async with a_keyspace(latency_s=0.1) as (_, photos):
        monkeypatch.setattr("siltstone.objects.batch.ChangeBatch.add", broken)
        puts = [photos.put("b", "k", b"1"), photos.put("b", "k", b"2")]
        assert await all_told("batches ended", *puts)


async def all_told(message: str, *puts: asyncio.Future[Any]) -> bool:
    """Whether each of these fails so, and none waits for ever."""
    done, _ = await asyncio.wait(puts, timeout=60)
    return len(done) == len(puts) and all(message in str(each.exception()) for each in done)


async def some_steps() -> None:
    for _ in range(8):
        await asyncio.sleep(0)


async def test_a_condition_that_fails_says_what_the_object_has() -> None:
    async with a_keyspace() as (_, photos):
        put = await photos.put("b", "k", b"1", expected=None)
        with pytest.raises(ConditionFailedError) as failed:
            await photos.put("b", "k", b"2", expected=None)
        assert failed.value.condition == SqnIs("b", "k", None)
        assert failed.value.current == put.sqn
        with pytest.raises(ConditionFailedError) as failed:
            await photos.delete("b", "other", expected=7)
        assert failed.value.condition == SqnIs("b", "other", 7)
        assert failed.value.current is None
        found = await photos.get("b", "k")
        assert found is not None
        assert found.value == b"1"


async def test_a_refusal_is_told_only_after_what_it_rests_on_is_durable() -> None:
    plan = FaultPlan()
    async with a_keyspace(plan) as (_, photos):
        plan.fail("append", applied=False)
        put = photos.put("b", "k", b"1")
        await asyncio.sleep(0)
        refused = photos.put("b", "k", b"2", expected=None)
        absent = photos.delete("b", "other")
        results = await asyncio.gather(put, refused, absent, return_exceptions=True)
        assert isinstance(results[0], OutcomeUnknownError)
        assert not isinstance(results[1], ConditionFailedError), "the object may not be there"


async def test_a_delete_of_what_is_absent_takes_no_sqn() -> None:
    async with a_keyspace() as (opened, photos):
        assert await photos.delete("b", "k") is None
        assert await photos.delete("b", "k", expected=None) is None
        assert (await photos.put("b", "k", b"")).sqn == 1
        assert await photos.delete("b", "k") == 2
        assert await photos.delete("b", "k") is None
        assert (await look(opened.store, NAMES)).state.next_sqn == 3


async def test_a_caller_that_is_cancelled_takes_nobody_with_it() -> None:
    async with a_keyspace(latency_s=0.01) as (_, photos):
        puts = [photos.put("b", f"k{number}", b"v") for number in range(10)]
        for put in puts[::2]:
            put.cancel()
        assert [(await put).sqn for put in puts[1::2]] == [2, 4, 6, 8, 10]
        assert [(await photos.put("b", "next", b"")).sqn] == [11]


async def test_the_bytes_of_a_request_are_its_own() -> None:
    async with a_keyspace() as (_, photos):
        value, metadata, terms = bytearray(b"value"), bytearray(b"note"), ["oslo"]
        put = photos.put("b", "k", value, metadata=metadata, index={"city": terms})
        value[:], metadata[:], terms[:] = b"other", b"else", ["rome"]
        await put
        found = await photos.get("b", "k")
        assert found is not None
        assert (found.value, found.head.metadata) == (b"value", b"note")
        assert found.head.index == {"city": ("oslo",)}


async def test_handles_share_one_open_keyspace() -> None:
    async with a_keyspace(latency_s=0.01) as (opened, photos):
        other = await opened.keyspace()
        results = await asyncio.gather(
            *(
                handle.put("b", "k", b"%d" % number)
                for number in range(20)
                for handle in (photos, other)
            )
        )
        assert sorted(result.sqn for result in results) == list(range(1, 41))
        await look(opened.store, NAMES)


async def test_a_second_create_is_refused_and_leaves_nothing() -> None:
    async with a_keyspace() as (opened, photos):
        await photos.put("b", "k", b"1")
        await opened.store.segment(NAMES.value_segment(1)).seal()
        await opened.store.segment(NAMES.value_segment(1)).delete()
        with pytest.raises(KeyspaceExistsError):
            await opened.make()
        assert [info.name async for info in opened.store.list(NAMES.values)] == []


async def test_a_closed_store_settles_what_was_asked_for() -> None:
    async with a_keyspace(latency_s=0.01) as (opened, photos):
        puts = [photos.put("b", f"k{number}", b"v") for number in range(300)]
        await opened.store.close()
        assert [(await put).sqn for put in puts] == list(range(1, 301))
        with pytest.raises(ClosedError):
            photos.put("b", "k", b"")
        with pytest.raises(ClosedError):
            await photos.head("b", "k")
        opened = await open_owner(opened.world)
        await opened.keyspace()
        assert (await look(opened.store, NAMES)).state.next_sqn == 301


async def test_a_closed_store_does_not_stay_in_memory() -> None:
    async with a_keyspace() as (opened, photos):
        await photos.put("b", "k", b"v")
        await opened.store.close()
        store = weakref.ref(opened.store)
        opened.spaces.clear()
        del opened.store, photos
        await asyncio.sleep(0)
        gc.collect()
        assert store() is None


async def test_a_store_that_is_read_only_changes_nothing() -> None:
    async with a_keyspace() as (opened, photos):
        await photos.put("b", "k", b"1")
        reader = await open_reader(opened.world)
        shown = await reader.keyspace()
        found = await shown.get("b", "k")
        assert found is not None
        assert found.value == b"1"
        for change in (partial(shown.put, "b", "k", b"2"), partial(shown.delete, "b", "k")):
            with pytest.raises(ReadOnlyError):
                change()
        with pytest.raises(ReadOnlyError):
            await shown.reap()
        await reader.store.close()


@pytest.mark.parametrize("step", ["manifest", "info"])
async def test_a_reader_opens_while_the_owner_rolls(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner goes on between two looks of the reader, which sees that."""
    async with World() as world:
        opened = await open_owner(world)
        await opened.make()
        photos = await opened.keyspace(RollLimits(records=2))
        await photos.put("b", "k0", b"0")
        reader = await open_reader(world)
        owner: type[Any] = Ledger if step == "manifest" else AsyncSegment
        inner = getattr(owner, step)

        async def later(self: Any) -> Any:
            monkeypatch.undo()
            for number in range(1, 6):
                await photos.put("b", f"k{number}", b"%d" % number)
            await inside.slots(reader.store)[0].container.refresh()  # type: ignore[attr-defined]
            return await inner(self)

        monkeypatch.setattr(owner, step, later)
        shown = await reader.keyspace()
        found = await shown.get("b", "k5")
        assert found is not None
        assert found.value == b"5"
        await reader.store.close()


async def test_a_put_that_finds_no_room_changes_nothing() -> None:
    plan = FaultPlan()
    async with a_keyspace(plan) as (opened, photos):
        await photos.put("b", "k", b"1")
        plan.fail("append", applied=False, error=FULL)
        with pytest.raises(StorageFullError):
            await photos.put("b", "k", b"2")
        assert (await look(opened.store, NAMES)).state.next_sqn == 2
        await opened.world.environment.sleep(5)
        assert (await photos.put("b", "k", b"3")).sqn == 2


async def test_a_put_under_back_pressure_waits_and_then_fails_without_a_trace() -> None:
    settings = with_settings(
        unflushed_bytes_max=40_000, append_deadline_s=5.0, storage_deadline_s=3.0
    )
    async with World(settings=settings) as world:
        opened = await open_owner(world)
        await opened.make()
        photos = await opened.keyspace(RollLimits())
        storage = opened.parts.owners[-1].storage
        storage.before = _refusing
        results = []
        for number in range(10):
            try:
                results.append(await photos.put("b", f"k{number}", bytes(9_000)))
            except BackPressureError:
                break
        assert len(results) < 10
        assert results[-1].pause
        assert not results[0].pause
        storage.before = lambda operation, name: None
        await world.environment.sleep(60)
        assert (await photos.put("b", "next", b"")).sqn == len(results) + 1
        seen = await look(opened.store, NAMES)
        assert len(seen.objects) == len(results) + 1


def _refusing(operation: str, name: str) -> None:
    raise FULL


async def test_an_unknown_outcome_is_told_and_the_keyspace_goes_on() -> None:
    for applied in (True, False):
        plan = FaultPlan()
        async with a_keyspace(plan) as (opened, photos):
            await photos.put("b", "k", b"1")
            plan.fail("append", applied=applied)
            with pytest.raises(OutcomeUnknownError):
                await photos.put("b", "k", b"2")
            await opened.world.environment.sleep(30)
            put = await photos.put("b", "k", b"3")
            assert (put.sqn, put.replaced) == ((3, 2) if applied else (2, 1))
            await look(opened.store, NAMES)


async def test_an_owner_that_was_taken_over_writes_nothing_more() -> None:
    async with a_keyspace() as (opened, photos):
        await photos.put("b", "k", b"1")
        newer = await open_owner(opened.world, takeover=True, index="newer")
        shown = await newer.keyspace()
        assert (await shown.put("b", "k", b"2")).sqn == 2
        late = [photos.put("b", f"k{number}", b"late") for number in range(3)]
        results = await asyncio.gather(*late, return_exceptions=True)
        assert {type(result) for result in results} == {FencedError}
        with pytest.raises(FencedError):
            await photos.put("b", "k", b"later")
        await opened.store.close()
        assert (await shown.put("b", "k", b"3")).sqn == 3
        seen = await look(newer.store, NAMES)
        assert [each.value for each in seen.objects.values()] == [b"3"]


async def test_what_something_else_wrote_to_the_rows_is_seen() -> None:
    """A change of the state by something else makes a batch begin again, and a roll too."""
    async with a_keyspace() as (opened, photos):
        await photos.put("b", "k", b"1")
        for _ in range(3):
            await touch(opened)
            await photos.put("b", "k", b"2")
        inside.value_segments(inside.open_space(photos))._limits = RollLimits(records=1)
        await touch(opened)
        assert (await photos.put("b", "k", b"3")).replaced == 4
        await look(opened.store, NAMES)


async def test_what_is_evaluated_anew_keeps_its_order() -> None:
    """The batch in flight fails when the next one is full and more requests wait."""
    async with a_keyspace(latency_s=0.1) as (opened, photos):
        await photos.put("b", "k", b"1")
        await touch(opened)
        first = photos.put("b", "k", b"2")
        await some_steps()
        puts = [photos.put("b", f"k{number % 2}", bytes(1_000_000)) for number in range(30)]
        results = await asyncio.gather(first, *puts)
        assert [result.sqn for result in results] == list(range(2, 33))


async def touch(opened: Opened) -> None:
    """Write the state as it is, so that its version is another one."""
    found = await opened.store.table(NAMES.ledger).get(STATE)
    assert found is not None
    await opened.store.commit([Put(NAMES.ledger, STATE, found.value)])


async def test_bytes_of_somebody_else_in_a_value_segment_stop_changes() -> None:
    async with a_keyspace() as (opened, photos):
        await photos.put("b", "k", b"1")
        await opened.store.commit([Append(NAMES.value_segment(1), b"foreign")])
        with pytest.raises(CorruptDataError, match="something else writes"):
            await photos.put("b", "k", b"2")
        found = await photos.get("b", "k")
        assert found is not None
        assert found.value == b"1"
        await opened.store.close()
        opened = await open_owner(opened.world)
        with pytest.raises(CorruptDataError, match="something else appended"):
            await opened.keyspace()


async def test_large_and_many_objects_fit_in_their_batches() -> None:
    async with a_keyspace() as (opened, photos):
        terms = [f"term-{number:04}" for number in range(1_500)]
        puts = [
            photos.put("b", f"k{number}", bytes(1_000_000), index={"f": terms})
            for number in range(5)
        ]
        puts += [photos.put("b", f"k{number}", b"", index={"f": terms[1:]}) for number in range(5)]
        puts.append(photos.put("b", "large", bytes(4 * 2**20), metadata=bytes(65_536)))
        puts.append(photos.put("b", "larger", bytes(4 * 2**20 + 1)))
        results = await asyncio.gather(*puts, return_exceptions=True)
        assert [result for result in results if isinstance(result, BaseException)] == []
        seen = await look(opened.store, NAMES)
        in_records = {key.key: each.head.large is None for key, each in seen.objects.items()}
        assert (in_records[b"large"], in_records[b"larger"]) == (True, False)


async def test_objects_of_another_tag_are_other_objects() -> None:
    async with a_keyspace() as (_, photos):
        await photos.put("b", "k", b"o", index={"f": ["t"]})
        await photos.put("b", "k", b"x", tag="x", index={"f": ["t"]})
        assert await photos.delete("b", "k") == 3
        found = await photos.get("b", "k", tag="x")
        assert found is not None
        assert (found.value, found.head.tag) == (b"x", "x")
        assert await photos.get("b", "k") is None
