from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import siltstone
from siltstone import Append, LengthIs, Put, Remove, VersionIs
from siltstone.core.constants import container_of

TAGS = ("{0}", "{2}")


def test_the_tags_of_this_file_are_in_two_containers() -> None:
    assert {container_of(tag, 2) for tag in TAGS} == {0, 1}


def test_what_is_appended_is_read(segment: siltstone.Segment) -> None:
    assert segment.append(b"hello ") == 0
    assert segment.append(bytearray(b"wor")) == 6
    assert segment.append(memoryview(b"ld")) == 9
    assert segment.append_many([b"!", b"", b"?"]) == 11
    assert segment.read(0, 100) == b"hello world!?"
    assert segment.read(13, 1) == b""
    buffer = bytearray(5)
    assert segment.read_into(6, buffer) == 5
    assert buffer == b"world"


def test_a_handle_does_no_io(store: siltstone.Store) -> None:
    missing = store.segment("nobody made this")
    with pytest.raises(siltstone.SegmentNotFoundError):
        missing.info()


def test_create_may_find_what_exists(store: siltstone.Store, name: str) -> None:
    store.create(name).append(b"x")
    assert store.create(name, exist_ok=True).info().length == 1
    with pytest.raises(siltstone.SegmentExistsError):
        store.create(name)


def test_a_writer_appends_once(segment: siltstone.Segment) -> None:
    writer = segment.writer("loader")
    assert writer.sequence == -1
    assert writer.append(b"abc", sequence=7) == 0
    assert writer.append(b"abc", sequence=7) == 0
    assert segment.writer("loader").sequence == 7
    assert segment.info().length == 3
    with pytest.raises(siltstone.SequenceError):
        writer.append(b"abc", sequence=3)


def test_a_segment_lives_and_ends(segment: siltstone.Segment) -> None:
    segment.append(b"0123456789")
    segment.flush()
    assert [(run.start, run.length) for run in segment.chunks()] == [(0, 10)]
    segment.truncate(4)
    assert segment.info().start_offset == 4
    assert segment.seal().sealed
    with pytest.raises(siltstone.SegmentSealedError):
        segment.append(b"x")
    segment.delete()
    with pytest.raises(siltstone.SegmentNotFoundError):
        segment.read(4, 1)


def test_a_segment_joins_another(store: siltstone.Store, name: str) -> None:
    target, source = store.create(f"{name}{{1}}a"), store.create(f"{name}{{1}}b")
    target.append(b"one ")
    source.append(b"two")
    with pytest.raises(siltstone.SegmentNotSealedError):
        target.concat(source)
    source.seal()
    assert target.concat(source) == 4
    assert target.read(0, 10) == b"one two"
    with pytest.raises(siltstone.SegmentNotFoundError):
        source.info()


def test_containers_are_not_mixed(store: siltstone.Store) -> None:
    first, second = (store.create(f"mixed{tag}", exist_ok=True) for tag in TAGS)
    second.seal()
    with pytest.raises(siltstone.SeveralContainersError, match=r"mixed.*mixed"):
        first.concat(second)
    with pytest.raises(siltstone.SeveralContainersError) as caught:
        store.commit([Append(first.name, b"x"), Append(second.name, b"x")])
    assert set(caught.value.names) == {first.name, second.name}
    assert first.info().length == 0


def test_a_commit_is_whole_or_not_at_all(store: siltstone.Store) -> None:
    segment = store.create("{c}segment")
    table = store.create_table("{c}table")
    done = store.commit([Append(segment.name, b"abc"), Put(table.name, b"k", b"v")])
    assert done.offsets == (0,)
    assert table.get(b"k") == siltstone.TableValue(value=b"v", version=done.version)
    with pytest.raises(siltstone.ConditionFailedError):
        store.commit(
            [Append(segment.name, b"x"), Remove(table.name, b"k")],
            conditions=[VersionIs(table.name, b"k", None), LengthIs(segment.name, 3)],
        )
    assert segment.info().length == 3
    with pytest.raises(ValueError, match="at least one"):
        store.commit([])
    with pytest.raises(TypeError):
        store.commit(["append"])  # type: ignore[list-item]


def test_a_table_keeps_keys_in_order(store: siltstone.Store, name: str) -> None:
    table = store.create_table(name)
    version = table.update({b"b": b"2", b"a": b"1", b"c": b"3"}, expected={b"a": None})
    assert [key for key, _ in table.scan()] == [b"a", b"b", b"c"]
    assert [key for key, _ in table.scan(b"a", b"c", reverse=True)] == [b"b", b"a"]
    assert table.put(b"a", bytearray(b"4")) > version
    with pytest.raises(siltstone.ConditionFailedError):
        table.update({b"b": None}, expected={b"a": version})
    table.remove(b"a")
    assert table.get(b"a") is None
    assert name in list(store.list_tables())


def test_a_scan_goes_over_pages(store: siltstone.Store, name: str) -> None:
    table = store.create_table(name)
    keys = [b"%05d" % number for number in range(2_500)]
    table.update(dict.fromkeys(keys, b""))
    assert [key for key, _ in table.scan()] == keys
    assert [key for key, _ in table.scan(reverse=True)] == keys[::-1]


def test_a_listing_merges_all_containers(store: siltstone.Store) -> None:
    names = sorted(f"list/{number}é" for number in range(40))
    for each in reversed(names):
        store.create(each)
    assert {container_of(each, 2) for each in names} == {0, 1}
    assert [info.name for info in store.list("list/")] == names
    assert list(store.list("list/nothing")) == []


def test_a_store_tells_what_is_only_in_tier_one(store: siltstone.Store, name: str) -> None:
    store.create(name).append(b"x" * 1000)
    assert sum(one.unflushed_bytes for one in store.stats()) >= 1000
    store.flush()
    assert sum(one.unflushed_bytes for one in store.stats()) == 0
    assert [finding for finding in store.check() if finding.severity == "damage"] == []


def test_a_reader_works_next_to_the_owner_and_changes_nothing(
    store: siltstone.Store, folder: Path, segment: siltstone.Segment
) -> None:
    segment.append(b"abc")
    with siltstone.open(folder, read_only=True) as reader:
        view = reader.segment(segment.name)
        assert view.read(0, 10) == b"abc"
        segment.append(b"def")
        assert b"".join(_first(view.follow(0), 6)) == b"abcdef"
        refused: list[Callable[[], object]] = [
            lambda: view.append(b"x"),
            lambda: view.append_many([b"x"]),
            lambda: view.append_from(io.BytesIO(b"x")),
            lambda: view.writer("w"),
            lambda: view.open("ab"),
            view.seal,
            view.delete,
            view.flush,
            lambda: view.truncate(1),
            lambda: view.concat(view.name),
            reader.flush,
            lambda: reader.create("x"),
            lambda: reader.create_table("x"),
            lambda: reader.commit([Append(view.name, b"x")]),
            lambda: reader.table("x").put(b"k", b"v"),
        ]
        for verb in refused:
            with pytest.raises(siltstone.ReadOnlyError):
                verb()
        assert reader.read_only
    with pytest.raises(ValueError, match="exclude each other"):
        siltstone.open(folder, read_only=True, takeover=True)


def test_a_live_owner_is_named(store: siltstone.Store, folder: Path) -> None:
    with pytest.raises(siltstone.StoreInUseError, match="pid="):
        siltstone.open(folder)


def test_many_threads_use_one_store(segment: siltstone.Segment) -> None:
    def work() -> None:
        for _ in range(20):
            segment.append(b"0123456789")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert segment.read(0, 10_000) == b"0123456789" * 160


def test_the_same_verbs_for_asyncio(folder: Path) -> None:
    async def work() -> None:
        other = folder.parent / "async"
        siltstone.init(other)
        async with await siltstone.open_async(other) as store:
            segment = await store.create("a")
            offsets = await asyncio.gather(*(segment.append(b"%02d" % n) for n in range(50)))
            assert offsets == [2 * n for n in range(50)]
            assert await segment.append_from(io.BytesIO(b"tail")) == siltstone.StreamProgress(
                offset=100, length=4, end=104
            )
            assert [info.name async for info in store.list()] == ["a"]
            following = segment.follow(100)
            assert await anext(following) == b"tail"
            waiting = asyncio.ensure_future(anext(following))
            await segment.append(b"more")
            assert await waiting == b"more"
            await segment.seal()
            with pytest.raises(StopAsyncIteration):
                await anext(following)
        assert store.closed
        with pytest.raises(siltstone.ClosedError):
            await segment.append(b"x")

    asyncio.run(work())


def test_every_blocking_verb_has_its_twin() -> None:
    pairs = (
        (siltstone.Store, siltstone.AsyncStore, {"environment"}),
        (siltstone.Segment, siltstone.AsyncSegment, set[str]()),
        (siltstone.Table, siltstone.AsyncTable, set[str]()),
        (siltstone.TableSnapshot, siltstone.AsyncTableSnapshot, set[str]()),
        (siltstone.Writer, siltstone.AsyncWriter, {"segment"}),
    )
    for blocking, awaited, only_awaited in pairs:
        assert public(awaited) - public(blocking) - {"refuse_after_fork"} == only_awaited
    assert public(siltstone.Segment) - public(siltstone.AsyncSegment) == {"open"}


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def _first(pieces: object, length: int) -> list[bytes]:
    found: list[bytes] = []
    for piece in pieces:  # type: ignore[attr-defined]
        found.append(piece)
        if sum(map(len, found)) >= length:
            break
    return found


def test_attributes_are_changed_together_and_found(store: siltstone.Store) -> None:
    plain, noted = store.create("{n}/a"), store.create("{n}/b", attributes={"unit": "C"})
    plain.set_attributes({"unit": "F", "source": "JFK"}, expected={"unit": None})
    with pytest.raises(siltstone.ConditionFailedError) as failed:
        plain.set_attributes({"unit": "K", "source": None}, expected={"unit": "C"})
    assert failed.value.condition == siltstone.AttributeIs("{n}/a", "unit", "C")
    assert failed.value.current == "F"
    with pytest.raises(ValueError, match="nothing"):
        plain.set_attributes({})
    store.commit([siltstone.SetAttribute("{n}/b", "more", ""), siltstone.Append("{n}/b", b"x")])
    assert plain.info().attributes == {"unit": "F", "source": "JFK"}
    assert noted.info().attributes == {"unit": "C", "more": ""}
    assert [info.name for info in store.list("{n}", where={"unit": "C"})] == ["{n}/b"]
    assert [info.name for info in store.list(where={"unit": "F", "source": "C"})] == []
    assert [info.name for info in store.list(where={})] == [info.name for info in store.list()]


def test_a_segment_gets_another_name_of_its_container(store: siltstone.Store) -> None:
    segment = store.create("{r}/a", attributes={"k": "v"})
    segment.append(b"bytes")
    renamed = segment.rename("{r}/b")
    assert (renamed.name, renamed.read(0, 9)) == ("{r}/b", b"bytes")
    assert renamed.info().attributes == {"k": "v"}
    with pytest.raises(siltstone.SegmentNotFoundError):
        segment.append(b"x")
    with pytest.raises(siltstone.SegmentNameError):
        renamed.rename("")
    assert store.create("{r}/a").info().segment_id != renamed.info().segment_id
