"""The background optimiser of a container: what it merges and moves, and when it does nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.container.compact.optimiser import Optimiser
from siltstone.core.chunk_names import data_prefix
from siltstone.core.constants import KIB
from siltstone.core.errors import ChunkUnavailableError
from tests.support import inside
from tests.support.container.container_world import Owner, World, pattern, with_settings, world

pytestmark = pytest.mark.virtual_time

WRITE_ONCE = Profile(append=False, concat=False, seal=False)
QUICK = with_settings(
    optimiser_interval_s=10.0,
    optimiser_chunks_min=2,
    relocation_chunk_bytes_min=1,
    flush_age_s=1_000.0,
)
BY_HAND = with_settings(
    optimiser_interval_s=10**6,
    optimiser_chunks_min=2,
    relocation_chunk_bytes_min=1,
    flush_age_s=1_000.0,
)


def optimiser(owner: Owner) -> Optimiser:
    return inside.parts(owner.container).optimiser


def quiet(operation: str, name: str) -> None:
    """Let every call through."""


async def lengths(owner: Owner, name: str) -> list[int]:
    return [info.length for info in await owner.container.chunks(name)]


async def flushed(owner: Owner, name: str, sizes: list[int]) -> bytes:
    """Append and flush, once for each size; on storage without appends each makes a chunk."""
    whole = b""
    for index, size in enumerate(sizes):
        part = pattern(index + len(name), size)
        await owner.container.append(name, part)
        await owner.container.flush(name)
        whole += part
    return whole


async def emptied(there: World, owner: Owner) -> None:
    """Carry out every garbage task."""
    await owner.container.flush()
    await there.environment.sleep(20)
    await owner.container.flush()
    await owner.container.collect()


@pytest.mark.parametrize("profile", [WRITE_ONCE, Profile(appends_max=1)])
async def test_small_chunks_are_merged_in_the_background(profile: Profile) -> None:
    async with world(profile=profile, settings=QUICK) as there:
        owner = await there.open()
        await owner.container.create("a")
        whole = await flushed(owner, "a", [100] * 12)
        assert await lengths(owner, "a") == [100] * 12
        await there.environment.sleep(15)
        assert await lengths(owner, "a") == [1_200]
        assert await owner.container.read("a", 0, 2_000) == whole
        await emptied(there, owner)
        assert len(there.names(data_prefix(0))) == 1
        await there.check(owner)
        await owner.container.close()
        again = await there.open()
        assert await again.container.read("a", 0, 2_000) == whole
        await again.container.close()


async def test_chunks_of_closed_epochs_are_merged_and_the_open_one_is_not() -> None:
    async with world(settings=BY_HAND) as there:
        whole = b""
        for number in range(4):
            owner = await there.open()
            await owner.container.create("a", exist_ok=True)
            whole += await flushed(owner, "a", [100 + number])
            if number < 3:
                await owner.container.close()
        assert await lengths(owner, "a") == [100, 101, 102, 103]
        assert await optimiser(owner).round() == 1
        assert await lengths(owner, "a") == [303, 103]
        whole += await flushed(owner, "a", [50])
        assert await lengths(owner, "a") == [303, 153]
        assert await owner.container.read("a", 0, 999) == whole
        await there.check(owner)
        await owner.container.close()


async def test_a_truncated_head_is_moved_and_its_chunk_freed() -> None:
    async with world(settings=QUICK) as there:
        owner = await there.open()
        await owner.container.create("a")
        whole = await flushed(owner, "a", [10_000])
        await owner.container.truncate("a", 7_000)
        await there.environment.sleep(1)
        assert await lengths(owner, "a") == [10_000], "30 % are still alive"
        await owner.container.truncate("a", 9_000)
        await there.environment.sleep(1)
        assert await lengths(owner, "a") == [1_000], "at once, not with the next round"
        assert await owner.container.read("a", 9_000, 9_999) == whole[9_000:]
        await emptied(there, owner)
        assert len(there.names(data_prefix(0))) == 1
        await there.check(owner)
        await owner.container.close()


async def test_a_move_that_failed_is_made_up_for() -> None:
    async with world(settings=QUICK, profile=Profile(concat=False)) as there:
        owner = await there.open()
        await owner.container.create("a")
        whole = await flushed(owner, "a", [10_000])

        def refuse(operation: str, name: str) -> None:
            if operation in ("create", "read_into") and name.startswith("data/"):
                raise ChunkUnavailableError("no answer", chunk=name, operation=operation)

        owner.storage.before = refuse
        await owner.container.truncate("a", 9_000)
        await there.environment.sleep(1)
        assert await lengths(owner, "a") == [10_000]
        assert "no answer" in str(owner.container.stats().last_error)
        owner.storage.before = quiet
        await there.environment.sleep(30)
        assert await lengths(owner, "a") == [1_000]
        assert owner.container.stats().last_error is None
        assert await owner.container.read("a", 9_000, 9_999) == whole[9_000:]
        await there.check(owner)
        await owner.container.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "rounds"),
    [
        ({}, [8, 0]),
        ({"optimiser_bytes": 1_000}, [2, 2, 2, 2, 0]),
        ({"optimiser_requests": 6}, [1, 1]),
        ({"optimiser_enabled": False}, [0]),
        ({"optimiser_small_bytes": 99}, [0]),
        ({"optimiser_chunks_min": 6}, [0]),
    ],
)
async def test_a_round_keeps_to_its_budget(changes: dict[str, object], rounds: list[int]) -> None:
    settings = with_settings(
        optimiser_interval_s=10**6, **{"optimiser_chunks_min": 2, "flush_age_s": 10**3, **changes}
    )
    async with world(settings=settings, profile=WRITE_ONCE) as there:
        owner = await there.open()
        for name in "abcdefgh":
            await owner.container.create(name)
            await flushed(owner, name, [100] * 5)
        assert [await optimiser(owner).round() for _ in rounds] == rounds
        await there.check(owner)
        await owner.container.close()


async def test_the_cursor_passes_over_what_fails() -> None:
    async with world(settings=BY_HAND, profile=WRITE_ONCE) as there:
        owner = await there.open()
        for name in ("bad", "good"):
            await owner.container.create(name)
            await flushed(owner, name, [100] * 3)

        def refuse(operation: str, name: str) -> None:
            if operation == "read_into" and "/bad/" in name:
                raise ChunkUnavailableError("no answer", chunk=name, operation=operation)

        owner.storage.before = refuse
        with pytest.raises(ChunkUnavailableError):
            await optimiser(owner).round()
        assert await optimiser(owner).round() == 1
        assert await lengths(owner, "good") == [300]
        assert await lengths(owner, "bad") == [100] * 3
        owner.storage.before = quiet
        assert await optimiser(owner).round() == 1
        await there.check(owner)
        await owner.container.close()


async def test_nothing_is_rewritten_under_back_pressure() -> None:
    settings = with_settings(
        optimiser_interval_s=10**6,
        optimiser_chunks_min=2,
        unflushed_bytes_max=10_000,
        flush_bytes=10**6,
        flush_age_s=10**6,
    )
    async with world(settings=settings, profile=WRITE_ONCE) as there:
        owner = await there.open()
        await owner.container.create("a")
        await flushed(owner, "a", [100] * 3)
        pressure = inside.parts(owner.container).pressure
        pressure.add(10_000)
        assert await optimiser(owner).round() == 0
        pressure.release(10_000)
        assert await optimiser(owner).round() == 1
        await owner.container.close()


def _truncate(owner: Owner) -> object:
    return owner.container.truncate("a", 150)


def _delete(owner: Owner) -> object:
    return owner.container.delete("a")


def _append(owner: Owner) -> object:
    async def more() -> None:
        await owner.container.append("a", b"more")
        await owner.container.flush("a")

    return more()


@pytest.mark.parametrize("change", [_truncate, _delete, _append])
def test_whatever_happens_meanwhile(change: Callable[[Owner], object]) -> None:
    """At each call of a merge something else changes the segment; every invariant holds."""
    for number in range(1, 6):
        with world(settings=BY_HAND, profile=WRITE_ONCE) as there:

            async def test(there: World = there, number: int = number) -> None:
                owner = await there.open()
                await owner.container.create("a")
                whole = await flushed(owner, "a", [100] * 3)
                calls = 0
                loop = asyncio.get_running_loop()
                work: list[asyncio.Task[None]] = []

                def now(operation: str, name: str) -> None:
                    nonlocal calls
                    if name.startswith("data/") and operation in ("read_into", "create"):
                        calls += 1
                        if calls == number:
                            loop.call_soon_threadsafe(
                                lambda: work.append(loop.create_task(change(owner)))  # type: ignore[arg-type]
                            )

                owner.storage.before = now
                await optimiser(owner).round()
                owner.storage.before = quiet
                await there.environment.sleep(1)
                await asyncio.gather(*work)
                await owner.container.collect()
                if change is not _delete:
                    info = await owner.container.info("a")
                    wanted = whole + (b"more" if change is _append and work else b"")
                    found = await owner.container.read("a", info.start_offset, 9_999)
                    assert found == wanted[info.start_offset :]
                await emptied(there, owner)
                await there.check(owner)
                await owner.container.close()

            there.run(test())


async def test_a_reader_keeps_its_bytes_while_chunks_are_merged_and_deleted() -> None:
    async with world(settings=QUICK, profile=WRITE_ONCE) as there:
        owner = await there.open()
        await owner.container.create("a")
        whole = await flushed(owner, "a", [100] * 12)
        await owner.container.flush()
        reader = await there.open_reader()
        assert await reader.read("a", 0, 9_999) == whole
        await there.environment.sleep(15)
        await emptied(there, owner)
        assert len(there.names(data_prefix(0))) == 1
        assert await reader.read("a", 0, 9_999) == whole
        await reader.close()
        await owner.container.close()


async def test_a_round_looks_at_a_bounded_part_of_many_extents() -> None:
    async with world(settings=BY_HAND, profile=WRITE_ONCE) as there:
        owner = await there.open()
        patch = pytest.MonkeyPatch()
        with patch.context() as patched:
            patched.setattr("siltstone.container.compact.optimiser.ROWS_PER_SLICE", 7)
            patched.setattr("siltstone.container.compact.optimiser.PAGES_PER_ROUND", 2)
            whole = {}
            for name in ("a", "b", "c"):
                await owner.container.create(name)
                whole[name] = await flushed(owner, name, [100] * 10)
            made = [await optimiser(owner).round() for _ in range(12)]
            assert sum(made) >= 3
            for name, content in whole.items():
                assert await owner.container.read(name, 0, 9_999) == content
                assert len(await lengths(owner, name)) <= 3
        await there.check(owner)
        await owner.container.close()


@pytest.mark.slow
def test_crash_at_each_call_of_a_merge() -> None:
    for number in range(1, 6):
        with world(settings=BY_HAND, profile=WRITE_ONCE) as there:

            async def test(there: World = there, number: int = number) -> None:
                owner = await there.open()
                await owner.container.create("a")
                whole = await flushed(owner, "a", [100] * 3 + [16 * KIB])
                calls = 0
                reached = asyncio.Event()
                loop = asyncio.get_running_loop()

                def stop(operation: str, name: str) -> None:
                    nonlocal calls
                    if name.startswith("data/"):
                        calls += 1
                        if calls >= number:
                            loop.call_soon_threadsafe(reached.set)

                owner.storage.before = stop
                rounding = asyncio.create_task(optimiser(owner).round())
                waiting = asyncio.create_task(reached.wait())
                await asyncio.wait([rounding, waiting], return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                await there.crash(owner)
                rounding.cancel()
                await asyncio.gather(rounding, return_exceptions=True)
                again = await there.open()
                assert await again.container.read("a", 0, 99_999) == whole
                await optimiser(again).round()
                assert await lengths(again, "a") == [300, 16 * KIB]
                assert await again.container.read("a", 0, 99_999) == whole
                await there.check(again)
                await again.container.close()

            there.run(test())
