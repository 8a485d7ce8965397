"""What verbs accept as bytes and whole numbers: for every type, all of them accept it or none."""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pyarrow
import pytest

import siltstone
from siltstone import Append, LengthIs, Put, Remove, RemoveRange, Segment, Store, VersionIs, events
from siltstone.core.bytes_like import as_bytes, byte_view, joined_bytes
from siltstone.store.handles.import_writer import ImportPart

GRID = numpy.arange(12, dtype="<i4").reshape(3, 4)


def mapped() -> mmap.mmap:
    found = mmap.mmap(-1, 5)
    found[:] = b"pages"
    return found


BUFFERS: dict[str, tuple[Any, bytes]] = {
    "bytes": (b"plain", b"plain"),
    "bytearray": (bytearray(b"array"), b"array"),
    "memoryview": (memoryview(b"view"), b"view"),
    "every second byte": (memoryview(b"abcdef")[::2], b"ace"),
    "mmap": (mapped(), b"pages"),
    "array": (array("H", [1, 2]), array("H", [1, 2]).tobytes()),
    "numpy": (GRID, GRID.tobytes()),
    "columns": (GRID[:, ::2], GRID[:, ::2].tobytes()),
    "transposed": (GRID.T, GRID.T.tobytes()),
    "big-endian": (GRID.astype(">i8"), GRID.astype(">i8").tobytes()),
    "fields": (numpy.zeros(2, [("O", "u1"), ("b", "<f8")]), bytes(18)),
    "pyarrow": (pyarrow.py_buffer(b"arrow"), b"arrow"),
}

NONE_AT_ALL: dict[str, Any] = {
    "text": "text",
    "text of numpy": numpy.str_("text"),
    "a number": 5,
    "a list": [1, 2],
    "objects": numpy.array([object()]),
}


def put_and_get(store: Store, data: Any) -> bytes:
    table = store.table("t")
    table.put(data, data)
    found = table.get(data)
    assert found is not None
    assert table.snapshot().get(data) is not None
    table.update({b"other": data}, expected={b"other": None})
    table.remove_range(b"other", b"other2")
    table.remove(data)
    return found.value


def committed(store: Store, segment: Segment, data: Any) -> bytes:
    store.commit([Put("{c}t", data, data)], [VersionIs("{c}t", data, None)])
    (entry,) = store.table("{c}t").scan(data)
    store.commit([RemoveRange("{c}t", data), Remove("{c}t", data), Append("{c}s", data)])
    assert entry[0] == entry[1].value
    return entry[0]


def imported(data: Any) -> bytes:
    made: list[bytes] = []

    def create(buffers: Any, length: int) -> Any:
        made.append(b"".join(buffers))
        return None

    part = ImportPart(create, 1000)
    part.write(data)
    part.roll()
    return b"".join(made)


def written(segment: Segment, data: Any) -> bytes:
    with segment.open("ab") as file:
        file.write(data)
    return whole(segment)


def buffered(segment: Segment, data: Any) -> bytes:
    with segment.buffered() as writer:
        writer.write(data)
    return whole(segment)


def told(segment: Segment, data: Any) -> bytes:
    events.append_events(segment, [data])
    with events.Writer(segment) as writer:
        writer.write(data)
    first, second = events.read_events(segment)
    assert first.payload == second.payload
    return first.payload


def appended(segment: Segment, append: Callable[[], object]) -> bytes:
    append()
    return whole(segment)


def whole(segment: Segment) -> bytes:
    return segment.read(0, segment.info().length)


VERBS: dict[str, Callable[[Store, Segment, Any], bytes]] = {
    "append": lambda s, g, d: appended(g, lambda: g.append(d)),
    "append_many": lambda s, g, d: appended(g, lambda: g.append_many([d])),
    "append_many after bytes": lambda s, g, d: appended(g, lambda: g.append_many([b"", d])),
    "writer": lambda s, g, d: appended(g, lambda: g.writer("w").append(d, sequence=1)),
    "buffered": lambda s, g, d: buffered(g, d),
    "file": lambda s, g, d: written(g, d),
    "events": lambda s, g, d: told(g, d),
    "table": lambda s, g, d: put_and_get(s, d),
    "commit": lambda s, g, d: committed(s, g, d),
    "import": lambda s, g, d: imported(d),
}


@pytest.fixture(scope="module")
def kinds(store: Store) -> Store:
    for name in ("t", "{c}t"):
        store.create_table(name)
    store.create("{c}s")
    return store


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("kind", BUFFERS)
def test_every_verb_takes_every_kind_of_buffer(
    kinds: Store, name: str, kind: str, verb: str
) -> None:
    data, expected = BUFFERS[kind]
    assert VERBS[verb](kinds, kinds.create(name), data) == expected


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("kind", NONE_AT_ALL)
def test_no_verb_takes_what_is_no_bytes(kinds: Store, name: str, kind: str, verb: str) -> None:
    segment = kinds.create(name)
    with pytest.raises(TypeError):
        VERBS[verb](kinds, segment, NONE_AT_ALL[kind])
    assert segment.info().length == 0


async def test_asyncio_takes_the_same(folder: Path, tmp_path: Path) -> None:
    siltstone.init(tmp_path / "own")
    async with await siltstone.open_async(tmp_path / "own") as store:
        table = await store.create_table("t")
        for kind, (data, expected) in BUFFERS.items():
            segment = await store.create(kind)
            assert await segment.append(data) == 0
            await segment.append_many([data, b"", data])
            writer = await segment.writer("w")
            await writer.append(data, sequence=numpy.int64(3))
            buffered = segment.buffered(buffer_bytes=numpy.int32(1000))
            await buffered.write(data)
            await buffered.close()
            await table.put(data, data)
            length = numpy.uint64((await segment.info()).length)
            assert await segment.read(numpy.uint8(0), length) == expected * 5
        for data in NONE_AT_ALL.values():
            with pytest.raises(TypeError):
                await segment.append(data)


def test_what_has_no_buffer_says_why() -> None:
    times: Any = numpy.zeros(1, "M8[s]")
    with pytest.raises(ValueError, match="cannot include dtype"):
        as_bytes(times)
    with pytest.raises(TypeError, match="a record is bytes"):
        joined_bytes([b"a", "b"])  # type: ignore[list-item]
    empty: Any = numpy.zeros((0, 3))
    assert bytes(byte_view(empty)) == b""
    assert joined_bytes([b"a", memoryview(b"b.c")[::2], b"d"]) == b"abcd"


@pytest.mark.parametrize("kind", [numpy.int64, numpy.uint64, numpy.uint8, int])
def test_numbers_of_every_type_are_offsets(kinds: Store, name: str, kind: Any) -> None:
    segment = kinds.create("{c}" + name)
    assert segment.append(b"0123456789", expected_offset=kind(0)) == 0
    assert segment.append_many([b"ab", b"cd"], expected_offset=kind(10)) == 10
    assert segment.writer("w").append(b"!", sequence=kind(4)) == 14
    assert segment.writer("w").append(b"!", sequence=kind(4)) == 14
    assert segment.read(kind(2), kind(3)) == b"234"
    place = bytearray(3)
    assert segment.read_into(kind(4), place) == 3
    assert place == b"456"
    assert next(segment.follow(kind(13))).startswith(b"d!")
    segment.flush()
    assert sum(chunk.length for chunk in segment.chunks(kind(0))) == 15
    assert sum(state.info.length for state in segment.examine(kind(0))) == 15
    kinds.commit([Append(segment.name, b"?")], [LengthIs(segment.name, kind(15))])
    segment.truncate(kind(3))
    assert segment.info().start_offset == 3
    assert segment.offset_at(kind(1)) == 3
    with segment.buffered(buffer_bytes=kind(200)) as writer:
        writer.write(b"last")
    decoded = events.EventDecoder(kind(7))
    assert type(decoded.offset) is int
    kinds.set_retention(segment.name, bytes_max=kind(100), age_max=kind(200))
    rule = segment.info().retention
    assert rule is not None
    assert (rule.bytes_max, rule.age_max_s) == (100, 200)


def test_versions_of_every_type(kinds: Store, name: str) -> None:
    table = kinds.create_table("{c}" + name)
    version: Any = numpy.int64(table.put(b"k", b"v"))
    version = numpy.uint64(table.update({b"k": b"w"}, expected={b"k": version}))
    written = kinds.commit([Put(table.name, b"k", b"x")], [VersionIs(table.name, b"k", version)])
    assert next(table.follow(version)).version == written.version


@pytest.mark.parametrize("wrong", [True, 1.5, "1", numpy.float64(2), b"3"])
def test_what_is_no_whole_number_is_no_offset(kinds: Store, name: str, wrong: Any) -> None:
    segment = kinds.create(name)
    segment.append(b"0123456789")
    calls: list[Callable[[], object]] = [
        lambda: segment.read(wrong, 1),
        lambda: segment.read(1, wrong),
        lambda: segment.read_into(wrong, bytearray(1)),
        lambda: segment.truncate(wrong),
        lambda: next(segment.follow(wrong)),
        lambda: segment.append(b"x", expected_offset=wrong),
        lambda: segment.writer("w").append(b"x", sequence=wrong),
        lambda: list(segment.chunks(wrong)),
        lambda: kinds.commit([Append(name, b"x")], [LengthIs(name, wrong)]),
    ]
    for call in calls:
        with pytest.raises(TypeError):
            call()
    assert segment.info().length == 10
