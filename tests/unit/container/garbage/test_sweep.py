"""The sweep: remains of a crash are found and go; named, young or foreign chunks stay."""

from __future__ import annotations

from contextlib import suppress

import pytest

from siltstone.container.garbage.sweep_plan import SweepPage, chunk_name_parts, plan_epochs
from siltstone.container.garbage.sweeper import PAGE, START_S
from siltstone.container.models.garbage import SweepFinding
from siltstone.core.chunk_names import data_chunk, data_prefix
from siltstone.core.errors import (
    ChunkUnavailableError,
    Outcome,
    OutcomeUnknownError,
    SiltstoneError,
)
from siltstone.core.records.epoch_row import EpochRow
from siltstone.core.records.pin import Pin, encode_pin
from tests.support import inside
from tests.support.container.container_world import Owner, World, pattern, with_settings, world

pytestmark = pytest.mark.virtual_time

DAY = 24 * 3600.0
SETTINGS = with_settings(garbage_delay_s=0.0, garbage_interval_s=5.0)


async def later(made: World, seconds: float) -> None:
    """Let time jump, as in a pause of the whole machine; second by second, days take minutes."""
    made.environment.clock.now += seconds
    await made.environment.sleep(1)


async def first_life(made: World) -> None:
    """Leave an epoch with one chunk that counts."""
    owner = await made.open()
    await owner.container.create("a")
    await owner.container.append("a", pattern(1, 3_000))
    await owner.container.flush()
    await owner.container.close()


async def orphans(made: World) -> set[str]:
    """Let an owner die between the create of a chunk and the frame that would have named it."""
    owner = await made.open()
    await owner.container.create("a", exist_ok=True)
    await owner.container.append("a", pattern(1, 3_000))
    await owner.container.flush()
    await owner.container.create("b", exist_ok=True)
    await owner.container.append("b", pattern(2, 3_000))
    before = set(made.names(data_prefix(0)))

    def dies(operation: str, name: str) -> None:
        if operation == "create" and name.startswith(data_prefix(0)):
            inside.parts(owner.container).pipeline.fail(OutcomeUnknownError("the process is dead"))
            raise ChunkUnavailableError(
                "the process is dead", chunk=name, operation=operation, outcome=Outcome.UNKNOWN
            )

    owner.storage.after = dies
    with suppress(SiltstoneError):
        await owner.container.flush("b")
    await made.crash(owner)
    return set(made.names(data_prefix(0))) - before


async def swept(owner: Owner, *, delete: bool, all_epochs: bool = False) -> list[SweepFinding]:
    found = owner.container.garbage.sweep(delete=delete, all_epochs=all_epochs)
    return [finding async for finding in found]


def kinds(found: list[SweepFinding]) -> dict[str, str]:
    return {finding.name: finding.kind for finding in found}


def unnamed(made: World) -> str:
    """Plant what a zombie's late create leaves: a chunk of an old epoch, of a reserved id."""
    name = data_chunk(0, 1, "late", 0, 7)
    made.new_storage().create(name, [b"late"])
    return name


@pytest.mark.slow
async def test_an_orphan_of_a_dead_epoch_goes_after_a_day_and_not_before() -> None:
    async with world(settings=with_settings(garbage_interval_s=1e7, sweep_requests_hour=1)) as made:
        await first_life(made)
        owner = await made.open()
        late = unnamed(made)
        assert kinds(await swept(owner, delete=True)) == {late: "young"}
        await later(made, DAY - 100)
        assert kinds(await swept(owner, delete=True))[late] == "young"
        await made.environment.sleep(200)
        assert late in made.names()
        assert kinds(await swept(owner, delete=False)) == {late: "garbage"}
        assert late in made.names()
        assert kinds(await swept(owner, delete=True)) == {late: "garbage"}
        assert kinds(await swept(owner, delete=True)) == {late: "waiting"}
        await owner.container.garbage.run()
        assert late not in made.names()
        assert not await swept(owner, delete=True)
        assert await owner.container.read("a", 0, 3_000) == pattern(1, 3_000)
        await made.check(owner)
        await owner.container.close()


async def test_the_background_sweep_finds_what_a_crash_left() -> None:
    async with world(settings=SETTINGS) as made:
        left = await orphans(made)
        assert left
        owner = await made.open()
        await owner.container.flush()
        await made.environment.sleep(START_S + 60)
        assert left <= set(made.names())
        await later(made, 2 * DAY + 2 * START_S)
        await made.environment.sleep(60)
        assert not left & set(made.names())
        await made.check(owner)
        await owner.container.close()


async def test_foreign_names_are_told_and_never_touched() -> None:
    async with world(settings=SETTINGS) as made:
        await first_life(made)
        (mine,) = made.names(data_prefix(0))
        parts = chunk_name_parts(mine, 0)
        assert parts is not None
        storage = made.new_storage()
        copy = mine.replace("/a/", "/copy/")
        never_given = data_chunk(0, 1, "a", 0, 2**40)
        foreign = {
            copy,
            never_given,
            f"{mine}.bak",
            "data/c0/readme",
            "data/c0/e1/a/00000000000000000000-0000000000000001.chunk",
            "system/c0/notes",
        }
        others = {"readme", "data/c1/e00000000000000000001/x", "data/c00/x", "import/1/x"}
        for name in foreign | others:
            storage.create(name, [b"x"])
        owner = await made.open()
        await later(made, 3 * DAY)
        assert kinds(await swept(owner, delete=True)) == dict.fromkeys(foreign, "foreign")
        await owner.container.garbage.run()
        assert foreign | others <= set(made.names())
        await owner.container.close()


async def test_an_epoch_is_passed_over_once_clean_twice_and_a_week_old() -> None:
    async with world(settings=with_settings(flush_age_s=1e7)) as made:
        await first_life(made)
        owner = await made.open()
        await swept(owner, delete=True)
        await swept(owner, delete=True)
        row = owner.rows.epoch(1)
        assert row is not None
        assert (row.clean, row.swept) == (2, False)
        await later(made, 6.9 * DAY)
        row = owner.rows.epoch(1)
        assert row is not None
        assert not row.swept
        await later(made, 2 * DAY)
        row = owner.rows.epoch(1)
        assert row is not None
        assert row.swept
        late = unnamed(made)
        await later(made, 3 * DAY)
        assert not await swept(owner, delete=False)
        assert late in made.names()
        assert kinds(await swept(owner, delete=True, all_epochs=True)) == {late: "garbage"}
        await owner.container.garbage.run()
        assert late not in made.names()
        row = owner.rows.epoch(1)
        assert row is not None
        assert row.swept
        await owner.container.close()


async def test_a_found_chunk_begins_the_count_again() -> None:
    async with world(settings=SETTINGS) as made:
        await first_life(made)
        owner = await made.open()
        await swept(owner, delete=True)
        unnamed(made)
        await swept(owner, delete=True)
        row = owner.rows.epoch(1)
        assert row is not None
        assert row.clean == 0
        await owner.container.close()


@pytest.mark.slow
async def test_a_round_continues_where_the_owner_before_stopped_within_its_budget() -> None:

    def listings(owner: Owner) -> list[str]:
        return [
            cursor for prefix, cursor in owner_listings[id(owner.storage)] if prefix == "data/c0/"
        ]

    owner_listings: dict[int, list[tuple[str, str]]] = {}

    def record(storage: object) -> None:
        seen = owner_listings.setdefault(id(storage), [])
        listed = storage.list  # type: ignore[attr-defined]

        def listing(prefix: str = "", start_after: str = "") -> object:
            seen.append((prefix, start_after))
            return listed(prefix, start_after)

        storage.list = listing  # type: ignore[attr-defined]

    settings = with_settings(garbage_delay_s=0.0, garbage_interval_s=5.0, sweep_requests_hour=1)
    async with world(settings=settings) as made:
        made.storage_hook = record
        await first_life(made)
        storage = made.new_storage()
        names = [data_chunk(0, 1, "late", start, 3) for start in range(2 * PAGE + 10)]
        for name in names:
            storage.create(name, [b"x"])
        listed = made.names("data/c0/")
        owner = await made.open()
        await made.environment.sleep(START_S + 1)
        assert listings(owner) == [""]
        await made.crash(owner)
        owner = await made.open()
        await made.environment.sleep(START_S + 1)
        assert listings(owner) == [listed[PAGE - 1]]
        await made.environment.sleep(3_590)
        assert len(listings(owner)) == 1
        await made.environment.sleep(3_600)
        assert len(listings(owner)) == 2
        row = owner.rows.epoch(1)
        assert row is not None
        assert row.clean == 0
        await owner.container.close()


async def test_pins_go_a_week_after_they_expired() -> None:
    async with world(settings=SETTINGS) as made:
        owner = await made.open()
        expires_ms = int((made.environment.time() + DAY) * 1000)
        pin = Pin(lineage=bytes(16), version=1, expires_ms=expires_ms)
        made.new_storage().create("system/pins/0-old", [encode_pin(pin)])
        made.new_storage().create("system/pins/1-not-mine", [encode_pin(pin)])
        await later(made, 7 * DAY)
        assert not await swept(owner, delete=True)
        await later(made, 1.5 * DAY)
        assert made.names("system/pins/") in (
            ["system/pins/0-old", "system/pins/1-not-mine"],
            ["system/pins/1-not-mine"],
        )
        await swept(owner, delete=True)
        assert made.names("system/pins/") == ["system/pins/1-not-mine"]
        await owner.container.close()


async def test_nothing_is_swept_on_a_storage_that_is_not_the_claimed_one() -> None:
    async with world(settings=SETTINGS) as made:
        await first_life(made)
        owner = await made.open()
        late = unnamed(made)
        await later(made, 2 * DAY - 3 * START_S)
        for name in made.names("system/c0/"):
            if name.endswith("/claim"):
                made.new_storage().delete(name)
        await later(made, 3 * DAY)
        assert late in made.names() or owner.container.stats().last_error is None
        error = owner.container.stats().last_error
        assert error is not None
        assert "claimed" in error
        await owner.container.close()


async def test_a_reader_looks_and_deletes_nothing() -> None:
    async with world(settings=SETTINGS) as made:
        await first_life(made)
        owner = await made.open()
        late = unnamed(made)
        await owner.container.close()
        await later(made, 2 * DAY)
        reader = await made.open_reader()
        found = [finding async for finding in reader.garbage.sweep()]
        assert kinds(found) == {late: "garbage"}
        assert (await reader.garbage.status()).due == 0
        await reader.close()
        assert late in made.names()


def test_what_the_first_page_of_an_epoch_found_counts_at_its_last() -> None:
    rows: dict[int, EpochRow] = {}

    def listed(epochs: dict[int, int], unfinished: int | None, listing: int | None) -> None:
        page = SweepPage(
            old=(),
            young=(),
            foreign=(),
            epochs=tuple(epochs.items()),
            cursor=None if unfinished is None else "more",
            unfinished=unfinished,
        )
        rows.update({row.epoch: row for row in plan_epochs(page, rows.get, listing, 5)})

    listed({1: 0, 2: 1}, 2, None)
    assert (rows[1].clean, rows[2].clean, rows[2].listed_ms) == (1, 0, 0)
    listed({2: 0}, 2, 2)
    listed({}, None, 2)
    assert (rows[2].clean, rows[2].listed_ms, rows[2].found) == (0, 5, False)
    listed({1: 0, 2: 0}, None, None)
    assert (rows[1].clean, rows[2].clean) == (2, 1)
