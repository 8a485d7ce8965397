"""Import sessions: what a commit makes of chunks from other processes, once and in one step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from siltstone.container.models.imports import (
    ImportBatch,
    ImportMode,
    ImportOutput,
    ImportSessionError,
    ReplacedIs,
)
from siltstone.core.constants import MIB
from siltstone.core.errors import (
    AttributeLimitError,
    ConditionFailedError,
    CorruptDataError,
    FencedError,
    LostDataError,
    SegmentExistsError,
    SegmentNotFoundError,
    SegmentSealedError,
)
from siltstone.core.records.import_row import ImportState
from siltstone.core.records.keys import METADATA_TABLE
from siltstone.core.records.piece import ControlKind, ControlPiece, decode_pieces
from tests.support.container.container_world import (
    close_quietly,
    pattern,
    small_slices,
    with_settings,
    world,
)
from tests.support.container.imported_chunks import DAY_S, bring, content, gives, left, opened

pytestmark = pytest.mark.virtual_time

LARGE = pattern(3, MIB + 5)
SETTINGS = with_settings(garbage_delay_s=1.0)


async def test_chunks_become_a_new_sealed_segment() -> None:
    async with world() as made:
        owner = await made.open()
        ticket = await opened(owner)
        chunks = bring(made.new_storage(), ticket, [pattern(1, 300_000), pattern(2, 10)])
        result = await owner.container.imports.commit("job", [gives("new", chunks)])
        assert [(each.segment, each.offset, each.length) for each in result.segments] == [
            ("new", 0, 300_010)
        ]
        info = await owner.container.info("new")
        assert (info.sealed, info.length, info.flushed_length) == (True, 300_010, 300_010)
        assert await content(owner, "new") == pattern(1, 300_000) + pattern(2, 10)
        assert left(made) == [chunk.name for chunk in chunks]
        await made.check(owner)
        await owner.container.close()
        owner = await made.open()
        assert await content(owner, "new") == pattern(1, 300_000) + pattern(2, 10)
        await made.check(owner)
        await close_quietly(owner)


async def test_a_new_segment_has_its_attributes_from_the_first_moment_on() -> None:
    async with world() as made:
        owner = await made.open()
        ticket = await opened(owner)
        chunks = bring(made.new_storage(), ticket, [pattern(1, 10)])
        output = replace(gives("new", chunks), attributes={"from": "elsewhere"})
        await owner.container.imports.commit("job", [output])
        await owner.container.close()
        owner = await made.open()
        assert (await owner.container.info("new")).attributes == {"from": "elsewhere"}
        await close_quietly(owner)


@pytest.mark.parametrize("mode", [ImportMode.APPEND, ImportMode.REPLACE])
def test_attributes_are_for_segments_that_are_made(mode: ImportMode) -> None:
    with pytest.raises(ValueError, match="attributes"):
        ImportOutput(segment="old", chunks=(), mode=mode, attributes={"a": "b"})
    with pytest.raises(AttributeLimitError):
        ImportOutput(segment="new", chunks=(), attributes={"a": "b" * 5_000})


async def test_a_repeat_finds_what_the_first_commit_came_to() -> None:
    async with world() as made:
        owner = await made.open()
        ticket = await opened(owner)
        chunks = bring(made.new_storage(), ticket, [b"abc"])
        first = await owner.container.imports.commit("job", [gives("new", chunks)])
        await owner.container.close()
        owner = await made.open()
        assert (await opened(owner)).state is ImportState.COMMITTED
        again = await owner.container.imports.commit("job", [gives("new", chunks)])
        assert again == replace(first, repeated=True)
        assert not await owner.container.imports.abort("job"), "an abort undoes no commit"
        assert await content(owner, "new") == b"abc"
        await close_quietly(owner)


@pytest.mark.parametrize("data", [b"small", LARGE])
async def test_chunks_come_after_what_a_segment_holds(data: bytes) -> None:
    async with world(settings=SETTINGS) as made:
        owner = await made.open()
        await owner.container.create("s")
        await owner.container.append("s", b"before ")
        ticket = await opened(owner)
        chunks = bring(made.new_storage(), ticket, [data])
        output = gives("s", chunks, ImportMode.APPEND)
        result = await owner.container.imports.commit("job", [output])
        assert result.segments[0].offset == 7
        assert await owner.container.append("s", b" after") == 7 + len(data)
        expected = b"before " + data + b" after"
        assert await content(owner, "s") == expected
        assert not (await owner.container.info("s")).sealed
        await made.check(owner)
        await made.crash(owner)
        owner = await made.open()
        assert await content(owner, "s") == expected
        assert (await owner.container.imports.commit("job", [output])).repeated
        assert await content(owner, "s") == expected
        await owner.container.flush()
        await made.environment.sleep(100)
        await owner.container.garbage.run()
        await made.check(owner)
        assert await content(owner, "s") == expected
        await close_quietly(owner)


async def test_an_append_makes_a_segment_that_is_not_there() -> None:
    async with world() as made:
        owner = await made.open()
        chunks = bring(made.new_storage(), await opened(owner), [b"abc"])
        await owner.container.imports.commit("job", [gives("s", chunks, ImportMode.APPEND)])
        assert await owner.container.append("s", b"d") == 3
        assert await content(owner, "s") == b"abcd"
        await made.check(owner)
        await close_quietly(owner)


async def test_a_new_segment_takes_the_name_of_an_old_one() -> None:
    async with world(settings=SETTINGS) as made:
        owner = await made.open()
        await owner.container.create("s", attributes={"unit": "m"})
        await owner.container.append("s", pattern(5, 50_000))
        await owner.container.flush()
        await owner.container.append("s", b"tail")
        old = await owner.container.info("s")
        for name in ("first", "job"):
            chunks = bring(made.new_storage(), await opened(owner, name), [b"abc"])
            await owner.container.imports.commit(name, [gives("s", chunks, ImportMode.REPLACE)])
        info = await owner.container.info("s")
        assert info.segment_id != old.segment_id
        assert (info.length, info.sealed, info.attributes) == (3, False, {"unit": "m"})
        assert await owner.container.append("s", b"d") == 3
        assert await content(owner, "s") == b"abcd"
        await owner.container.flush()
        await made.environment.sleep(100)
        await owner.container.garbage.run()
        await made.check(owner)
        assert len(owner.rows.segments()) == 1
        names = owner.rows.tables.scan(METADATA_TABLE, b"\x10\x02", b"\x10\x03", limit=9)
        assert len(names) == 1, "rows of names go with those of chunks"
        await close_quietly(owner)


async def test_a_segment_is_replaced_only_as_it_was_seen() -> None:
    async with world(settings=SETTINGS) as made:
        owner = await made.open()
        await owner.container.create("s")
        await owner.container.append("s", b"seen")
        ticket = await opened(owner, "job")
        chunks = bring(made.new_storage(), ticket, [b"abc"])
        info = await owner.container.info("s")
        seen = ReplacedIs(segment="s", segment_id=info.segment_id, length=4)
        output = replace(gives("s", chunks, ImportMode.REPLACE), replaced=seen)
        late = owner.container.append("s", b"late")  # assigned, and in flight
        with pytest.raises(ConditionFailedError) as refused:
            await owner.container.imports.commit("job", [output])
        assert await late == 4
        assert refused.value.current == replace(seen, length=8)
        none = replace(output, replaced=ReplacedIs(segment="s"))
        with pytest.raises(ConditionFailedError):
            await owner.container.imports.commit("job", [none])
        assert await content(owner, "s") == b"seenlate"
        now = replace(output, replaced=replace(seen, length=8))
        await owner.container.imports.commit("job", [now])
        await owner.container.imports.commit("job", [output])  # a repeat finds that it is done
        assert await content(owner, "s") == b"abc"
        await made.check(owner)
        await close_quietly(owner)


@pytest.mark.parametrize(
    ("mode", "segment"),
    [(ImportMode.APPEND, "s"), (ImportMode.CREATE, "s"), (ImportMode.REPLACE, "t")],
)
def test_a_condition_is_for_the_segment_that_is_replaced(mode: ImportMode, segment: str) -> None:
    with pytest.raises(ValueError, match="condition"):
        ImportOutput(segment="s", chunks=(), mode=mode, replaced=ReplacedIs(segment=segment))


async def test_several_segments_get_theirs_in_one_step_or_none_does() -> None:
    async with world() as made:
        owner = await made.open()
        for name in ("a", "b"):
            await owner.container.create(name)
            await owner.container.append(name, name.encode())
        ticket = await opened(owner)
        chunks = bring(made.new_storage(), ticket, [LARGE, b"for b", b"new", b"again"])
        outputs = [
            gives("a", chunks[:1], ImportMode.APPEND),
            gives("b", chunks[1:2], ImportMode.APPEND),
            gives("c", chunks[2:3], ImportMode.CREATE),
        ]
        await owner.container.create("c")
        with pytest.raises(SegmentExistsError):
            await owner.container.imports.commit("job", outputs)
        assert await content(owner, "a") == b"a"
        assert await owner.container.append("a", b"+") == 1
        await owner.container.delete("c")
        result = await owner.container.imports.commit("job", outputs)
        assert [each.offset for each in result.segments] == [2, 1, 0]
        assert await content(owner, "a") == b"a+" + LARGE
        assert await content(owner, "b") == b"bfor b"
        assert await content(owner, "c") == b"new"
        assert chunks[3].name not in left(made), "what the commit did not take is swept"
        await made.check(owner)
        await close_quietly(owner)


async def test_more_chunks_than_one_transaction_takes() -> None:
    async with world(settings=SETTINGS) as made:
        with pytest.MonkeyPatch.context() as patch, small_slices(4):
            patch.setattr("siltstone.container.imports.hidden_segments.ROWS_PER_SLICE", 20)
            owner = await made.open()
            await owner.container.create("s")
            await owner.container.append("s", b"before ")
            data = [pattern(number, 40) for number in range(50)]
            chunks = bring(made.new_storage(), await opened(owner), data)
            await owner.container.imports.commit("job", [gives("s", chunks, ImportMode.APPEND)])
            chunks = bring(made.new_storage(), await opened(owner, "other"), data)
            await owner.container.imports.commit("other", [gives("t", chunks)])
            assert await content(owner, "s") == b"before " + b"".join(data)
            assert await content(owner, "t") == b"".join(data)
            await made.environment.sleep(100)
            await owner.container.garbage.run()
            await made.check(owner)
            await close_quietly(owner)


async def test_an_empty_import_makes_or_leaves_segments() -> None:
    async with world() as made:
        owner = await made.open()
        await owner.container.create("s")
        await owner.container.append("s", b"x")
        await opened(owner)
        outputs = [gives("s", (), ImportMode.APPEND), gives("t", ()), gives("u", ())]
        await owner.container.imports.commit("job", outputs)
        assert [await content(owner, name) for name in "stu"] == [b"x", b"", b""]
        await opened(owner, "none")
        assert (await owner.container.imports.commit("none", [])).segments == ()
        await made.check(owner)
        await close_quietly(owner)


@pytest.mark.parametrize("more", [b"", LARGE], ids=["alone", "with much"])
async def test_nothing_that_is_appended_begins_where_the_segment_ends(more: bytes) -> None:
    async with world() as made:
        owner = await made.open()
        await owner.container.create("a")
        await owner.container.append("a", b"known")
        ticket = await opened(owner)
        chunks = bring(made.new_storage(), ticket, [more] if more else [])
        outputs = [gives("a", [], ImportMode.APPEND), gives("b", chunks, ImportMode.APPEND)]
        result = await owner.container.imports.commit("job", outputs)
        assert [(part.segment, part.offset) for part in result.segments] == [("a", 5), ("b", 0)]
        assert await content(owner, "a") == b"known"
        await opened(owner, "another")
        await owner.container.seal("a")
        with pytest.raises(SegmentSealedError):
            await owner.container.imports.commit("another", [*outputs[:1], gives("c", [])])
        await made.check(owner)
        await close_quietly(owner)


async def test_what_was_said_of_a_chunk_must_be_so() -> None:
    async with world() as made:
        owner = await made.open()
        await owner.container.create("s")
        ticket = await opened(owner)
        other = await opened(owner, "other")
        (chunk,) = bring(made.new_storage(), ticket, [b"abc"])
        (foreign,) = bring(made.new_storage(), other, [b"abc"])
        commit = owner.container.imports.commit
        with pytest.raises(CorruptDataError, match="another length"):
            await commit("job", [gives("s", [replace(chunk, length=4)])])
        gone = replace(chunk, name=chunk.name[:-1] + "9")
        with pytest.raises(LostDataError, match="not there"):
            await commit("job", [gives("s", [gone])])
        with pytest.raises(CorruptDataError, match="sums"):
            await commit("job", [gives("s", [replace(chunk, sums=(1,))], ImportMode.APPEND)])
        with pytest.raises(ValueError, match="not a chunk of this session"):
            await commit("job", [gives("t", [foreign])])
        with pytest.raises(ValueError, match="once"):
            await commit("job", [gives("t", [chunk, chunk])])
        with pytest.raises(ValueError, match="sums for"):
            replace(chunk, sums=())
        assert await content(owner, "s") == b""
        await commit("job", [gives("s", [chunk], ImportMode.APPEND)])
        assert await content(owner, "s") == b"abc"
        await close_quietly(owner)


async def test_a_sealed_segment_takes_nothing_and_the_session_stays_open() -> None:
    async with world(settings=SETTINGS) as made:
        owner = await made.open()
        await owner.container.create("s")
        await owner.container.seal("s")
        for name, data in (("job", b"abc"), ("large", LARGE)):
            ticket = await opened(owner, name)
            chunks = bring(made.new_storage(), ticket, [data])
            with pytest.raises(SegmentSealedError):
                await owner.container.imports.commit(name, [gives("s", chunks, ImportMode.APPEND)])
            assert (await opened(owner, name)).state is ImportState.OPEN
            assert await owner.container.imports.abort(name)
        await owner.container.flush()
        await made.environment.sleep(100)
        await owner.container.garbage.run()
        assert left(made) == []
        await made.check(owner)
        await close_quietly(owner)


async def test_an_aborted_session_brings_nothing_and_leaves_nothing() -> None:
    async with world() as made:
        owner = await made.open()
        ticket = await opened(owner)
        chunks = bring(made.new_storage(), ticket, [b"abc"])
        assert await owner.container.imports.abort("job")
        assert not await owner.container.imports.abort("job")
        assert not await owner.container.imports.abort("never")
        assert left(made) == []
        for name in ("job", "never"):
            with pytest.raises(ImportSessionError):
                await owner.container.imports.commit(name, [gives("s", chunks)])
        with pytest.raises(SegmentNotFoundError):
            await owner.container.info("s")
        late = bring(made.new_storage(), ticket, [b"late"], attempt=1)
        assert left(made) == [late[0].name]
        made.environment.clock.now += DAY_S
        await made.environment.sleep(60)
        assert left(made) == [], "chunks of late writers go a day later"
        assert owner.rows.tables.scan(METADATA_TABLE, b"\x10", b"\x11", limit=9) == []
        with pytest.raises(ImportSessionError, match="no such"):
            await owner.container.imports.commit("job", [gives("s", chunks)])
        bring(made.new_storage(), ticket, [b"even later"], attempt=2)
        found = [each async for each in owner.container.garbage.sweep(delete=False)]
        assert [each.kind for each in found] == ["garbage"]
        found = [each async for each in owner.container.garbage.sweep(delete=True)]
        assert [each.kind for each in found] == ["garbage"]
        assert left(made) == [], "and a daily sweep finds chunks that come then"
        await close_quietly(owner)


async def test_a_session_expires_by_a_record_and_takes_its_hidden_segments_along() -> None:
    async with world(settings=SETTINGS) as made:
        owner = await made.open()
        await owner.container.create("s")
        await owner.container.seal("s")
        ticket = await opened(owner, lifetime_s=100)
        chunks = bring(made.new_storage(), ticket, [LARGE])
        with pytest.raises(SegmentSealedError):
            await owner.container.imports.commit("job", [gives("s", chunks, ImportMode.APPEND)])
        await made.environment.sleep(90)
        assert left(made) == [chunks[0].name]
        await owner.container.close()
        await made.environment.sleep(20)
        owner = await made.open()
        with pytest.raises(ImportSessionError):
            await owner.container.imports.commit("job", [gives("t", chunks)])
        await made.environment.sleep(100)
        assert (await opened(owner)).state is ImportState.ABORTED
        await owner.container.flush()
        await made.environment.sleep(100)
        assert left(made) == []
        await made.check(owner)
        await close_quietly(owner)


async def test_what_an_open_session_holds_is_never_swept() -> None:
    async with world() as made:
        owner = await made.open()
        ticket = await opened(owner, lifetime_s=20 * DAY_S)
        chunks = bring(made.new_storage(), ticket, [b"abc"])
        foreign = "import/c0/note"
        made.new_storage().create(foreign, [b"x"])
        made.environment.clock.now += 10 * DAY_S
        await made.environment.sleep(60)
        found = [each async for each in owner.container.garbage.sweep(delete=True)]
        assert [(each.kind, each.name) for each in found] == [("foreign", foreign)]
        await owner.container.imports.commit("job", [gives("s", chunks)])
        assert await content(owner, "s") == b"abc"
        made.environment.clock.now += 10 * DAY_S
        await made.environment.sleep(60)
        assert await content(owner, "s") == b"abc"
        assert left(made) == [chunks[0].name, foreign]
        reader = await made.open_reader()
        told = [each async for each in reader.check()]
        assert [(each.severity, each.where) for each in told] == [("warning", foreign)]
        await reader.close()
        await close_quietly(owner)


async def test_a_batch_of_a_stream_is_imported_once_whatever_session_brings_it() -> None:
    async with world() as made:
        owner = await made.open()
        for number in (0, 1, 1, 0, 2):
            name = f"job-{made.environment.monotonic()}-{number}"
            await made.environment.sleep(1)
            ticket = await opened(owner, name)
            chunks = bring(made.new_storage(), ticket, [b"%d" % number])
            batch = ImportBatch(query="q", number=number)
            output = gives("s", chunks, ImportMode.APPEND)
            result = await owner.container.imports.commit(name, [output], batch)
            again = await owner.container.imports.commit(name, [output], batch)
            assert again == replace(result, repeated=True)
            assert result.newest == (replace(batch, number=1) if result.repeated else None)
        chunks = bring(made.new_storage(), await opened(owner, "other"), [b"x"])
        batch = ImportBatch(query="another", number=0)
        output = gives("s", chunks, ImportMode.APPEND)
        await owner.container.imports.commit("other", [output], batch)
        assert await content(owner, "s") == b"012x"
        await made.check(owner)
        await close_quietly(owner)


async def test_what_is_swept_was_stated_and_a_fenced_owner_sweeps_nothing() -> None:
    async with world() as made:
        owner = await made.open()
        ticket = await opened(owner)
        chunks = bring(made.new_storage(), ticket, [b"abc", b"def"])
        frames: list[int] = []

        def note(operation: str, name: str) -> None:
            if operation == "delete":
                frames.append(len(made.shared_log.frames))

        owner.storage.before = note
        assert await owner.container.imports.abort("job")
        stated = [
            index
            for index, frame in enumerate(made.shared_log.frames)
            for piece in decode_pieces(frame.body, frame.count, where="test")
            if isinstance(piece, ControlPiece) and piece.control is ControlKind.IMPORT_DELETION
            if piece.payload.decode().split("\n") == [chunk.name for chunk in chunks]
        ]
        assert len(frames) == 2
        assert stated
        assert stated[0] < min(frames), "acknowledged before anything is deleted"
        late = bring(made.new_storage(), ticket, [b"late"], attempt=1)
        newer = await made.open(takeover=True, index="newer")
        with pytest.raises(FencedError):
            async for _ in owner.container.garbage.sweep(delete=True):
                pass
        assert left(made) == [late[0].name]
        await close_quietly(owner)
        await close_quietly(newer)


async def test_a_repeat_after_the_expiry_is_told_and_the_next_name_is_free() -> None:
    """Otherwise a repeat would bring everything and only then hear that the session expired."""
    async with world() as made:
        owner = await made.open(settings=with_settings(garbage_interval_s=1e6))
        ticket = await opened(owner, lifetime_s=100.0)
        bring(made.new_storage(), ticket, [b"half of it"])
        await owner.container.close()
        made.environment.clock.now += 100.0
        owner = await made.open(settings=with_settings(garbage_interval_s=1e6))
        again = await opened(owner)
        assert (again.state, again.session_id) == (ImportState.ABORTED, ticket.session_id)
        assert left(made) == []
        chunks = bring(made.new_storage(), await opened(owner, "job 1"), [b"all of it"])
        await owner.container.imports.commit("job 1", [gives("new", chunks)])
        assert await content(owner, "new") == b"all of it"
        await made.check(owner)
        await close_quietly(owner)


async def test_a_session_that_is_committed_stays_so_after_its_expiry() -> None:
    async with world() as made:
        owner = await made.open()
        chunks = bring(made.new_storage(), await opened(owner, lifetime_s=100.0), [b"abc"])
        await owner.container.imports.commit("job", [gives("new", chunks)])
        made.environment.clock.now += 100.0
        assert (await opened(owner)).state is ImportState.COMMITTED
        assert await content(owner, "new") == b"abc"
        await close_quietly(owner)
