"""What a reader shows of bytes that it leaves in the log.

What may happen: an owner appends, flushes and truncates the log between any two steps; a byte of
the log is changed; another log is put in its place. What must hold: every read shows what was
appended, or says why it cannot; a reader keeps no bytes of tails, and an owner keeps only those
that are in no chunk.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import cast

import pytest

from siltstone.container.reader.read_container import ReadContainer
from siltstone.container.state.kept_tail import CACHE_BYTES_MAX, KeptTail
from siltstone.container.state.tail import Fetch, LogSlice
from siltstone.core.constants import KIB, MIB
from siltstone.core.errors import CorruptDataError, LogLostError
from siltstone.core.fenced_log import FencedLog
from siltstone.tier1.file.fenced_log import FileFencedLog
from tests.support import inside
from tests.support.container.container_world import SETTINGS, Owner, pattern, world

pytestmark = pytest.mark.virtual_time

NEVER = replace(
    SETTINGS,
    flush_bytes=64 * MIB,
    flush_age_s=1e6,
    table_flush_age_s=1e6,
    checkpoint_age_s=1e6,
    table_flush_bytes=64 * MIB,
)
"""Nothing is flushed unless a test asks for it."""


def left_in_log(reader: ReadContainer) -> list[LogSlice]:
    """The pieces of tails; none of them may be in memory."""
    replica = reader._current().replica
    pieces = [piece.data for one in replica.dirty.values() for piece in one.tail.pieces]
    assert all(isinstance(data, LogSlice) for data in pieces)
    return [data for data in pieces if isinstance(data, LogSlice)]


def on_disk(folder: Path) -> FencedLog:
    return FileFencedLog(str(folder / "log"), 0, file_bytes=MIB)


async def compare(chance: Random, reader: ReadContainer, model: dict[str, bytearray]) -> None:
    name = chance.choice(sorted(model))
    whole = model[name]
    begin = chance.randint(0, len(whole))
    length = chance.choice([1, 100, 5_000, len(whole)])
    expected = bytes(whole[begin : begin + length])
    assert await reader.read(name, begin, length) == expected
    buffer = bytearray(length)
    count = await reader.read_into(name, begin, memoryview(buffer))
    assert bytes(buffer[:count]) == expected
    found = await reader.map(name, begin, begin + len(expected))
    assert found.tail == expected[found.tail_offset - begin :]


async def step(chance: Random, owner: Owner, model: dict[str, bytearray]) -> None:
    container = owner.container
    action = chance.choice(["append"] * 5 + ["flush", "flush all", "create", "truncate log"])
    name = chance.choice(sorted(model))
    if action == "append":
        for _ in range(chance.randint(1, 5)):
            data = chance.randbytes(chance.choice([1, 50, 3_000, 40_000]))
            await container.append(name, data)
            model[name] += data
    elif action == "create":
        name = f"s{len(model)}"
        await container.create(name)
        model[name] = bytearray()
    elif action == "flush":
        await container.flush(name)
    elif action == "flush all":
        await container.flush()
    else:
        await container.flush()
        await container.checkpoint()
        await container.append(name, b"x" * 200_000)
        model[name] += b"x" * 200_000
        await container.flush()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["memory", "file"])
@pytest.mark.parametrize("seed", range(3))
async def test_reads_show_what_was_appended_while_an_owner_flushes_and_truncates(
    seed: int, kind: str, tmp_path: Path
) -> None:
    chance = Random(seed)

    new_log = None if kind == "memory" else (lambda: on_disk(tmp_path))
    async with world(seed, settings=NEVER, new_log=new_log) as made:
        owner = await made.open()
        await owner.container.create("s0")
        model = {"s0": bytearray()}
        readers = [await made.open_reader()]
        seen = 0
        for number in range(40):
            await step(chance, owner, model)
            if number % 12 == 5:
                readers.append(await made.open_reader())
            for reader in readers:
                for _ in range(2):
                    if chance.random() < 0.5:
                        await reader.refresh()
                        seen += len(left_in_log(reader))
                    # A read past what the reader has seen looks for more.
                    await made.environment.sleep(1.0)
                    await compare(chance, reader, model)
        assert seen
        for reader in readers:
            await reader.close()
        await owner.container.close()
        again = await made.open(index="another")
        for name, whole in model.items():
            assert await again.container.read(name, 0, len(whole)) == whole
        await again.container.close()


@pytest.mark.parametrize("cut", [0, 1, 4_999, 5_000, 9_999])
async def test_bytes_that_left_the_log_are_read_from_chunks(cut: int) -> None:
    """The reader does not know about the flush, and has no reason to look before it reads."""
    async with world(settings=NEVER) as made:
        owner = await made.open()
        container = owner.container
        await container.create("a")
        data = pattern(1, 5_000) + pattern(2, 5_000)
        await container.append("a", data[:5_000])
        await container.append("a", data[5_000:])
        reader = await made.open_reader()
        assert len(left_in_log(reader)) == 2
        await container.flush()
        assert owner.container.stats().log_first > 2
        assert await reader.read("a", cut, 3_000) == data[cut : cut + 3_000]
        assert not left_in_log(reader)
        await reader.close()
        await container.close()


async def test_an_owner_that_boots_keeps_what_is_in_no_chunk_and_nothing_else() -> None:
    async with world(settings=NEVER) as made:
        owner = await made.open()
        container = owner.container
        for name in ("a", "b", "gone"):
            await container.create(name)
        flushed, kept = pattern(3, 9_000), pattern(4, 700)
        await container.append("gone", pattern(5, 8_000))
        await container.append("a", flushed)
        await container.flush("a")
        await container.append("a", kept)
        await container.append("b", kept)
        await container.delete("gone")
        await made.crash(owner)
        again = await made.open(takeover=True)
        dirty = inside.parts(again.container).pipeline.replica.dirty.values()
        assert {segment.name: segment.tail.size for segment in dirty} == {"a": 700, "b": 700}
        held = {segment.name: [piece.held for piece in segment.tail.pieces] for segment in dirty}
        assert held == {"a": [kept], "b": [kept]}
        assert again.container.stats().unflushed_bytes == 1_400
        assert await again.container.read("a", 0, 10_000) == flushed + kept
        await again.container.close()


async def test_a_byte_that_was_changed_in_the_log_is_noticed_when_it_is_asked_for(
    tmp_path: Path,
) -> None:
    async with world(settings=NEVER, new_log=lambda: on_disk(tmp_path)) as made:
        owner = await made.open()
        container = owner.container
        await container.create("a")
        large = [bytes([number]) * 50_000 for number in (1, 2, 3)]
        for data in large:
            await container.append("a", data)
        await container.append("a", b"end")
        reader = await made.open_reader()
        assert len(left_in_log(reader)) == 4
        assert await reader.read("a", 60_000, 10) == large[1][:10]
        found = [
            (path, position)
            for path in (tmp_path / "log" / "c0").glob("*.log")
            if (position := path.read_bytes().find(large[1])) > 0
        ]
        ((path, position),) = found
        with path.open("r+b") as file:
            file.seek(position + 30_000)
            file.write(b"!")
        reader._current().reading.kept._bodies.clear()  # type: ignore[union-attr]
        assert await reader.read("a", 0, 50_000) == large[0]
        with pytest.raises(CorruptDataError):
            await reader.read("a", 60_000, 10)
        await reader.close()
        await made.crash(owner)


async def test_another_frame_in_its_place_is_not_shown() -> None:
    async with world(settings=NEVER) as made:
        owner = await made.open()
        container = owner.container
        await container.create("a")
        await container.append("a", b"right")
        reader = await made.open_reader()
        (place,) = left_in_log(reader)
        frames = made.shared_log.frames
        position = place.index - made.shared_log.first
        body = frames[position].body.replace(b"right", b"wrong")
        frames[position] = replace(frames[position], body=body, crc=1)
        with pytest.raises(LogLostError, match="another frame"):
            await reader.read("a", 0, 5)
        await reader.close()
        await made.crash(owner)


async def test_no_more_than_some_frames_are_kept_and_each_is_read_once_in_a_row() -> None:
    async with world(settings=NEVER) as made:
        owner = await made.open()
        container = owner.container
        await container.create("a")
        data = [bytes([number]) * MIB for number in range(12)]
        for one in data:
            await container.append("a", one)
        reader = await made.open_reader()
        kept = reader._current().reading.kept
        assert kept is not None
        reads = 0
        whole = made.shared_log.read

        def counted(from_index: int) -> object:
            nonlocal reads
            reads += 1
            return whole(from_index)

        made.shared_log.read = counted  # type: ignore[method-assign, assignment]
        for number, one in enumerate(data):
            for begin in range(0, MIB, 64 * KIB):
                found = await reader.read("a", number * MIB + begin, 64 * KIB)
                assert found == one[begin : begin + 64 * KIB]
        assert reads <= 2 * len(data)
        assert kept._size <= CACHE_BYTES_MAX + MIB
        assert kept._size == sum(len(body) for _, body in kept._bodies.values())
        await reader.close()
        await made.crash(owner)


async def test_a_follower_of_a_log_reads_its_end_without_asking_it_again() -> None:
    async with world(settings=NEVER) as made:
        owner = await made.open()
        container = owner.container
        await container.create("a")
        reader = await made.open_reader()
        await container.append("a", b"news")
        await reader.refresh()
        kept = cast(KeptTail, reader._current().reading.kept)
        (place,) = left_in_log(reader)
        made.shared_log.frames.clear()
        buffer = bytearray(4)
        await kept.fill([Fetch(place, 0, memoryview(buffer))])
        assert buffer == b"news"
        await reader.close()
        await made.crash(owner)
