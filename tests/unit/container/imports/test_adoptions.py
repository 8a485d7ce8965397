"""Objects in place: chunks of segments without a moved byte, kept until they are finalised."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.container.compact.compaction import CompactionRules
from siltstone.container.models.check import CheckOptions
from siltstone.container.models.imports import (
    Adoption,
    ImportedChunk,
    ImportMode,
    ImportOutput,
    ImportSessionError,
    ReleasedAdoption,
)
from siltstone.container.recovery.lossy_recovery import recover_container
from siltstone.core.constants import KIB, MIB
from siltstone.core.errors import (
    ChunkNameError,
    CorruptDataError,
    LostDataError,
    SegmentExistsError,
    SegmentTruncatedError,
)
from siltstone.testing.faults.faulty_chunk_storage import FaultyChunkStorage
from siltstone.tier1.memory.shared_log import SharedLog
from tests.support import inside
from tests.support.container.container_world import (
    Owner,
    World,
    close_quietly,
    pattern,
    with_settings,
    world,
)
from tests.support.container.imported_chunks import bring, content, found, gives, opened

pytestmark = pytest.mark.virtual_time

DATA = pattern(1, 300_000)
MORE = pattern(2, 70_000)
KEPT_S = 60.0
"""After this time, everything that may be deleted is deleted."""

Story = Callable[[World, Owner], Awaitable[None]]


@asynccontextmanager
async def owned(profile: Profile | None = None) -> AsyncIterator[tuple[World, Owner]]:
    settings = with_settings(
        garbage_delay_s=1.0,
        optimiser_interval_s=5.0,
        optimiser_chunks_min=2,
        relocation_chunk_bytes_min=1,
        relocation_percent=10,
        optimiser_small_bytes=MIB,
    )
    async with world(settings=settings, profile=profile) as made:
        owner = await made.open()
        yield made, owner
        await close_quietly(owner)


async def adopted(
    made: World,
    owner: Owner,
    segment: str,
    *objects: tuple[str, bytes],
    adoption: str = "old",
    sums: bool = True,
    start: int = 0,
    sealed: bool | None = None,
) -> None:
    """Let a segment consist of objects that are already there."""
    storage = made.new_storage()
    chunks = [found(storage, name, data, sums=sums) for name, data in objects]
    await opened(owner, segment, adoption=adoption)
    output = ImportOutput(segment=segment, chunks=tuple(chunks), start=start, sealed=sealed)
    await owner.container.imports.commit(segment, [output])


async def cleaned(made: World, owner: Owner) -> None:
    """Delete everything that may be deleted."""
    for _ in range(3):
        await owner.container.flush()
        await made.environment.sleep(KEPT_S)
        await owner.container.garbage.run()


async def seen(owner: Owner) -> list[Adoption]:
    return await owner.container.garbage.adoptions()


def adoption(**counts: int | bool) -> Adoption:
    nothing = Adoption(
        name="old", container=0, finalised=False, chunks=0, length=0, dropped=0, dropped_length=0
    )
    return replace(nothing, **counts)  # type: ignore[arg-type]


async def test_objects_become_a_segment_where_they_are() -> None:
    async with owned() as (made, owner):
        names = [("old/tree/a#1", DATA), ("old/b", MORE)]
        await adopted(made, owner, "new", *names, sealed=False)
        assert await content(owner, "new") == DATA + MORE
        assert made.names("old") == ["old/b", "old/tree/a#1"]
        assert not made.names("import/")
        await owner.container.append("new", b"more")
        await cleaned(made, owner)
        assert await content(owner, "new") == DATA + MORE + b"more"
        assert made.new_storage().stat("old/b").length == len(MORE), "it was appended to"
        await made.check(owner)
        await owner.container.close()
        again = await made.open()
        assert await content(again, "new") == DATA + MORE + b"more"
        assert await seen(again) == [adoption(chunks=2, length=len(DATA + MORE))]
        await made.check(again)
        await close_quietly(again)


async def test_a_recovery_finds_objects_where_they_are() -> None:
    async with owned() as (made, owner):
        await adopted(made, owner, "whole", ("old/a", DATA), ("old/b", MORE))
        await adopted(made, owner, "gone", ("other/c", MORE))
        await adopted(made, owner, "changed", ("other/d", MORE), sums=False)
        await owner.container.flush()
        await made.crash(owner, keep_index=False)
        made.shared_log = SharedLog()
        made.new_storage().delete("other/c")
        made.bucket.chunks[b"other/d"].content.extend(b"longer")
        report = await recover_container(
            container=0,
            new_log=made.new_log,
            storage=made.new_storage(),
            environment=made.environment,
            settings=made.settings,
            owner="a person",
            accept_loss=False,
            deep=True,
        )
        lost = {
            segment.name: [(range.length, range.chunk) for range in segment.lost]
            for segment in report.segments
        }
        assert lost == {
            "whole": [],
            "gone": [(len(MORE), "other/c")],
            "changed": [(len(MORE), "other/d")],
        }


async def test_no_data_byte_is_read_when_no_sums_are_brought() -> None:
    async with owned() as (made, owner):
        asked: list[str] = []
        owner.storage.before = lambda operation, name: asked.append(operation)
        await adopted(made, owner, "new", ("old/a", DATA), sums=False)
        assert "read_into" not in asked
        assert asked.count("stat") == 1
        owner.storage.before = lambda operation, name: None
        assert await content(owner, "new") == DATA


async def test_a_segment_may_begin_above_zero_and_have_no_byte() -> None:
    async with owned() as (made, owner):
        await adopted(made, owner, "some", ("old/a", DATA), start=1_000, sealed=True)
        await adopted(made, owner, "none", start=77, sealed=False)
        info = await owner.container.info("some")
        assert (info.start_offset, info.length, info.sealed) == (1_000, 1_000 + len(DATA), True)
        assert await owner.container.read("some", 1_005, 10) == DATA[5:15]
        with pytest.raises(SegmentTruncatedError):
            await owner.container.read("some", 999, 1)
        info = await owner.container.info("none")
        assert (info.start_offset, info.length, info.sealed) == (77, 77, False)
        assert await owner.container.append("none", b"x") == 77
        await owner.container.flush()
        await made.check(owner)
        await owner.container.close()
        owner = await made.open()
        assert await owner.container.read("none", 77, 1) == b"x"
        assert await content(owner, "some") == DATA
        await made.check(owner)
        await close_quietly(owner)


@pytest.mark.slow
@pytest.mark.parametrize("profile", [Profile(), Profile(append=False, concat=True)])
async def test_objects_are_kept_whatever_becomes_of_their_segments(profile: Profile) -> None:
    async with owned(profile) as (made, owner):
        for name in "abcde":
            await adopted(
                made, owner, name, (f"old/{name}1", DATA), (f"old/{name}2", MORE), sealed=False
            )
        before = made.names("old/")
        await owner.container.delete("a")
        await owner.container.truncate("b", len(DATA) + 5)
        await owner.container.truncate("c", len(DATA) - 1_000)
        await owner.container.seal("e")
        await owner.container.concat("d", "e")
        await owner.container.append("d", b"more")
        await owner.container.delete("d")
        await cleaned(made, owner)
        async for _ in owner.container.garbage.sweep(delete=True, all_epochs=True):
            pass
        await cleaned(made, owner)
        assert made.names("old/") == before
        assert await seen(owner) == [
            adoption(
                chunks=3,
                length=len(DATA) + 2 * len(MORE),
                dropped=7,
                dropped_length=4 * len(DATA) + 3 * len(MORE),
            )
        ]
        assert (await owner.container.garbage.status()).kept == 7
        assert await content(owner, "b") == MORE[5:]
        assert await content(owner, "c") == DATA[-1_000:] + MORE
        await made.check(owner)


@pytest.mark.slow
async def test_finalised_objects_go_when_nothing_needs_them() -> None:
    async with owned() as (made, owner):
        await adopted(made, owner, "a", ("old/a", DATA))
        await adopted(made, owner, "b", ("old/b", MORE))
        await adopted(made, owner, "c", ("other/c", MORE), adoption="other")
        await owner.container.delete("a")
        await owner.container.delete("c")
        await cleaned(made, owner)
        assert await owner.container.adoptions.finalise("old") == 1
        assert await owner.container.adoptions.finalise("old") == 0
        assert await owner.container.adoptions.finalise("unknown") is None
        await cleaned(made, owner)
        assert made.names("o") == ["old/b", "other/c"]
        await owner.container.delete("b")
        await cleaned(made, owner)
        assert made.names("o") == ["other/c"]
        with pytest.raises(ImportSessionError, match="finalised"):
            await owner.container.adoptions.release("old")
        await made.check(owner)


async def test_released_objects_are_nothing_to_the_store_and_can_be_adopted_again() -> None:
    async with owned() as (made, owner):
        await adopted(made, owner, "a", ("old/a", DATA))
        await adopted(made, owner, "b", ("old/b", MORE))
        await owner.container.delete("a")
        assert await owner.container.adoptions.release("old") == ReleasedAdoption(
            released=1, in_use=1
        )
        await owner.container.delete("b")
        assert await owner.container.adoptions.release("old") == ReleasedAdoption(
            released=1, in_use=0
        )
        assert await owner.container.adoptions.release("old") is None
        assert await seen(owner) == []
        chunk = found(made.new_storage(), "old/c", b"c")
        await opened(owner, "again", adoption="next")
        again = replace(chunk, name="old/a", length=len(DATA), sums=None)
        await owner.container.imports.commit("again", [gives("a", [again])])
        assert await content(owner, "a") == DATA
        await cleaned(made, owner)
        assert made.names("old/") == ["old/a", "old/b", "old/c"]
        await made.check(owner)


async def test_an_object_belongs_to_one_segment_at_most() -> None:
    async with owned() as (made, owner):
        await adopted(made, owner, "a", ("old/a", DATA))
        twice = ImportedChunk(name="old/a", length=len(DATA), sums=None)
        await opened(owner, "more", adoption="old")
        with pytest.raises(ImportSessionError, match="chunk of the store already"):
            await owner.container.imports.commit("more", [gives("b", [twice])])
        await owner.container.delete("a")
        await cleaned(made, owner)
        with pytest.raises(ImportSessionError, match="can be released"):
            await owner.container.imports.commit("more", [gives("b", [twice])])
        assert owner.container.adoptions.knows(["x", "old/a"]) == "old/a"
        assert owner.container.adoptions.knows(["x"]) is None


@pytest.mark.parametrize("expires", [False, True])
async def test_a_session_that_never_came_to_its_end_leaves_the_objects_alone(expires: bool) -> None:
    """A commit that was refused in its last step has built hidden segments."""
    async with owned() as (made, owner):
        await owner.container.create("a")
        await opened(owner, lifetime_s=100.0, adoption="old")
        chunks = [found(made.new_storage(), "old/a", DATA)]
        with pytest.raises(SegmentExistsError):
            await owner.container.imports.commit("job", [gives("a", chunks)])
        if expires:
            await made.environment.sleep(200.0)
        else:
            assert await owner.container.imports.abort("job")
        await cleaned(made, owner)
        assert made.names("old/") == ["old/a"]
        assert await seen(owner) == []
        await opened(owner, "again", adoption="old")
        await owner.container.imports.commit("again", [gives("b", chunks)])
        assert await content(owner, "b") == DATA
        assert await owner.container.adoptions.finalise("old") == 0
        await cleaned(made, owner)
        assert await content(owner, "b") == DATA
        await made.check(owner)


async def test_a_repeat_after_a_crash_comes_to_the_same_end() -> None:
    async with owned() as (made, owner):
        output = ImportOutput(
            segment="a",
            chunks=(found(made.new_storage(), "old/a", DATA, sums=False),),
            start=9,
        )
        await opened(owner, adoption="old")
        first = await owner.container.imports.commit("job", [output])
        await made.crash(owner)
        owner = await made.open(takeover=True, index="other")
        again = await owner.container.imports.commit("job", [output])
        assert again == replace(first, repeated=True)
        assert [(part.offset, part.length) for part in again.segments] == [(9, len(DATA))]
        assert await content(owner, "a") == DATA
        with pytest.raises(ImportSessionError, match="another adoption"):
            await opened(owner)
        await close_quietly(owner)


@pytest.mark.parametrize(
    "name", ["data/c0/x", "system/store", "import/c0/x", "import/c0/0000000000000009/00000-0-ab"]
)
async def test_what_the_store_makes_itself_is_no_object_in_place(name: str) -> None:
    async with owned() as (_, owner):
        await opened(owner, adoption="old")
        chunk = ImportedChunk(name=name, length=1, sums=None)
        with pytest.raises(ValueError, match="not a chunk of this session"):
            await owner.container.imports.commit("job", [gives("a", [chunk])])


async def test_objects_in_place_need_a_session_for_that_and_names_that_can_be_keys() -> None:
    async with owned() as (made, owner):
        chunk = found(made.new_storage(), "old/a", DATA)
        ticket = await opened(owner)
        with pytest.raises(ValueError, match="not a chunk of this session"):
            await owner.container.imports.commit("job", [gives("a", [chunk])])
        written = replace(bring(made.new_storage(), ticket, [b"abc"])[0], sums=None)
        with pytest.raises(ValueError, match="has sums"):
            await owner.container.imports.commit("job", [gives("a", [written])])
        await opened(owner, "other", adoption="old")
        for wrong in ("old//a", "../a"):
            with pytest.raises(ChunkNameError):
                await owner.container.imports.commit(
                    "other", [gives("a", [replace(chunk, name=wrong)])]
                )


async def test_written_chunks_and_objects_in_place_may_come_together() -> None:
    async with owned() as (made, owner):
        ticket = await opened(owner, adoption="old")
        chunks = [*bring(made.new_storage(), ticket, [MORE]), found(made.new_storage(), "o", DATA)]
        await owner.container.imports.commit("job", [gives("a", chunks)])
        assert await content(owner, "a") == MORE + DATA
        await owner.container.delete("a")
        await cleaned(made, owner)
        assert made.names("import/") == []
        assert made.names("o") == ["o"]
        await made.check(owner)


async def test_objects_come_after_what_a_segment_holds_without_being_read() -> None:
    async with owned() as (made, owner):
        await owner.container.create("a")
        await owner.container.append("a", b"before")
        await opened(owner, adoption="old")
        chunk = found(made.new_storage(), "old/a", b"small", sums=False)
        await owner.container.imports.commit("job", [gives("a", [chunk], ImportMode.APPEND)])
        assert [row.chunk for row in await owner.container.chunks("a")][-1] == "old/a"
        assert await content(owner, "a") == b"beforesmall"
        await owner.container.delete("a")
        await cleaned(made, owner)
        assert made.names("old/") == ["old/a"]
        await made.check(owner)


@pytest.mark.parametrize(
    ("now", "error"),
    [(None, LostDataError), (DATA + b"x", CorruptDataError), (DATA[::-1], CorruptDataError)],
)
async def test_an_object_that_changes_before_the_commit_is_refused(
    now: bytes | None, error: type[Exception]
) -> None:
    async with owned() as (made, owner):
        storage = made.new_storage()
        chunk = found(storage, "old/a", DATA)
        chunk = replace(chunk, version=storage.stat("old/a").version)
        storage.delete("old/a")
        if now is not None:
            storage.create("old/a", [now])
        await opened(owner, adoption="old")
        with pytest.raises(error):
            await owner.container.imports.commit("job", [gives("a", [chunk])])
        assert await seen(owner) == []


@pytest.mark.parametrize(("now", "word"), [(DATA + b"x", "longer"), (DATA[:-1], "shorter")])
@pytest.mark.parametrize("sums", [True, False])
async def test_a_check_tells_of_an_object_whose_size_was_changed(
    now: bytes, word: str, sums: bool
) -> None:
    async with owned() as (made, owner):
        await adopted(made, owner, "a", ("old/a", DATA), sums=sums)
        storage = made.new_storage()
        storage.delete("old/a")
        storage.create("old/a", [now])
        for deep in (True, False):
            check = owner.container.check(CheckOptions(deep=deep))
            told = [f async for f in check if f.severity == "damage"]
            assert [(f.where, word in f.message) for f in told] == [("old/a", True)], told


@pytest.mark.slow
async def test_what_has_no_sums_is_read_unverified_until_they_are_recorded() -> None:
    async with owned() as (made, owner):
        large = pattern(5, 2 * MIB + 100 * KIB)
        await adopted(made, owner, "a", ("old/a", large), ("old/b", DATA), sums=False)
        warned = [f async for f in owner.container.check() if f.severity == "warning"]
        assert len(warned) == 1
        assert "2 objects in place without sums" in warned[0].message
        assert await _verified(owner) == [False, False]
        steps: list[int] = []
        assert await owner.container.record_sums("a", steps.append) == len(large + DATA)
        assert sum(steps) == len(large + DATA)
        assert await owner.container.record_sums("a", steps.append) == 0
        assert not [f async for f in owner.container.check() if f.severity == "warning"]
        assert await _verified(owner) == [True, True]
        assert await content(owner, "a") == large + DATA
        await made.check(owner)
        storage = made.new_storage()
        storage.delete("old/b")
        storage.create("old/b", [DATA[::-1]])
        with pytest.raises(CorruptDataError):
            await content(owner, "a")


async def _verified(owner: Owner) -> list[bool]:
    return [state.verified for state in await owner.container.examine("a", 0, 10, deep=True)]


async def test_bytes_that_change_while_their_sums_are_recorded_are_refused() -> None:
    async with owned() as (made, owner):
        await adopted(made, owner, "a", ("old/a", DATA), sums=False)

        def change(operation: str, name: str) -> None:
            if operation == "read_into" and name == "old/a":
                owner.storage.before = lambda operation, name: None
                storage = made.new_storage()
                storage.delete("old/a")
                storage.create("old/a", [DATA])

        owner.storage.before = change
        with pytest.raises(CorruptDataError, match="changed while it was read"):
            await owner.container.record_sums("a", lambda _: None)


@pytest.mark.slow
async def test_an_object_that_is_being_deleted_cannot_be_adopted_before_it_is_gone() -> None:
    """Otherwise a deletion repeated after a failure would hit a newer object of the same name."""
    async with owned() as (made, owner):
        await adopted(made, owner, "a", ("old/a", DATA))
        await owner.container.delete("a")
        assert await owner.container.adoptions.finalise("old") is not None
        await cleaned_without_deleting(made, owner)
        await opened(owner, "more", adoption="next")
        chunk = ImportedChunk(name="old/a", length=len(DATA), sums=None)
        with pytest.raises(ImportSessionError, match="already"):
            await owner.container.imports.commit("more", [gives("b", [chunk])])
        await cleaned(made, owner)
        assert made.names("old/") == []
        found(made.new_storage(), "old/a", DATA)
        await owner.container.imports.commit("more", [gives("b", [chunk])])
        await cleaned(made, owner)
        assert await content(owner, "b") == DATA


async def cleaned_without_deleting(made: World, owner: Owner) -> None:
    def refuse(operation: str, name: str) -> None:
        if operation in ("delete", "delete_many"):
            raise LostDataError("injected", where=name)

    storage: FaultyChunkStorage = owner.storage
    storage.before = refuse
    for _ in range(2):
        await owner.container.flush()
        await made.environment.sleep(KEPT_S)
    storage.before = lambda operation, name: None


@pytest.mark.slow
async def test_small_and_mostly_dead_objects_are_neither_merged_nor_moved() -> None:
    async with owned() as (made, owner):
        small = [(f"old/{number}", pattern(number, 500)) for number in range(6)]
        await adopted(made, owner, "many", *small, sealed=False)
        for name, data in small:
            await adopted(made, owner, f"one {name}", (f"{name} alone", data))
        await adopted(made, owner, "dead", ("old/dead", pattern(7, 3 * MIB)))
        await owner.container.truncate("dead", 3 * MIB - 1_000)
        before = await lies(owner)
        rules = CompactionRules(small_bytes=MIB, count_min=2)
        assert await owner.container.compaction.plan(rules) == []
        for _ in range(4):
            await owner.container.flush()
            await inside.parts(owner.container).optimiser.round()
        assert await lies(owner) == before
        assert inside.parts(owner.container).optimiser.rewritten == 0


async def lies(owner: Owner) -> list[str]:
    infos = await owner.container.list_segments()
    return [row.chunk for info in infos for row in await owner.container.chunks(info.name)]
