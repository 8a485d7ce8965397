"""Closed chunks are sealed on the service; written bytes can be read back and compared."""

from __future__ import annotations

import pytest

from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.core.constants import MIB
from siltstone.core.errors import ChunkReadBackError
from siltstone.segments.segment_storage import SegmentStorageSettings
from tests.support.segments.segment_world import (
    Call,
    Fault,
    World,
    data,
    small,
    two_segments,
    write_pieces,
)


def sealed(world: World) -> list[int]:
    """Lengths of the chunks for which the service refuses appends, in order of their ids."""
    chunks = sorted(world.layouts.rows.chunks.values(), key=lambda chunk: chunk.chunk_id)
    return [c.length for c in chunks if world.bucket.chunks[c.name.encode()].is_sealed]


@pytest.mark.parametrize(
    ("profile", "pieces", "lengths"),
    [
        (Profile(), [10, 10, 5], [20]),
        (Profile(), [20], [20]),
        (Profile(), [15, 10], [15]),
        (Profile(), [19], []),
        (Profile(seal=False), [20, 20], []),
        (Profile(append=False), [20, 20], []),
        (Profile(appends_max=2), [3, 3, 3], [6]),
    ],
)
async def test_a_chunk_is_sealed_once_it_is_closed(
    profile: Profile, pieces: list[int], lengths: list[int]
) -> None:
    world = World(profile, settings=small(20))
    await write_pieces(world, pieces)
    assert sealed(world) == lengths
    assert sum(call.verb == "seal" for call in world.calls) == len(lengths)


async def test_a_concat_seals_the_chunks_that_it_closes() -> None:
    world = World(settings=small(100))
    await two_segments(world, 15, 25)
    assert sealed(world) == []
    await world.segments.concat(world.joining(15))
    assert sealed(world) == [15, 25]


async def test_a_new_owner_seals_the_open_chunk_of_the_old_one() -> None:
    old = World(settings=small(100))
    whole = await write_pieces(old, [15])
    old.layouts.epoch += 1
    world = World(bucket=old.bucket, layouts=old.layouts, settings=small(100))
    await world.segments.write(1, 15, [b"new"])
    assert sealed(world) == [15]
    assert await world.read(1, 0, 99) == whole + b"new"


async def test_a_seal_that_fails_is_noted_and_harms_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(settings=small(20))
    world.storage.decide = lambda call: Fault.REFUSED if call.verb == "seal" else None
    await write_pieces(world, [20])
    assert sealed(world) == []
    assert caplog.text.count("chunk cannot be sealed") == 1
    assert "no answer" in str(world.segments.mishaps.seal_error)
    world.storage.decide = lambda _: None
    await world.segments.write(1, 20, [data(20)])
    assert sealed(world) == [20]
    assert caplog.text.count("chunk cannot be sealed") == 1
    assert world.segments.mishaps.seal_error is None


def read_back(chunk_bytes: int = 128 * MIB) -> World:
    return World(settings=SegmentStorageSettings(chunk_bytes=chunk_bytes, read_back=True))


def damage_writes(world: World, verb: str, times: int) -> None:
    """Let the service store a wrong last byte, ``times`` times."""
    inner, left = world.storage.inner, [times]
    call = getattr(inner, verb)

    def damaged(name: str, *arguments: object) -> None:
        call(name, *arguments)
        if left[0]:
            left[0] -= 1
            world.content(name)[-1] ^= 1

    setattr(inner, verb, damaged)


@pytest.mark.parametrize("pieces", [[1], [10, 20], [300_000, 1, 9 * MIB, 300_000]])
async def test_what_comes_back_as_it_was_is_committed(pieces: list[int]) -> None:
    world = read_back()
    await write_pieces(world, pieces)
    assert len(world.chunk_lengths()) == 1
    assert world.segments.mishaps.read_backs_failed == 0


async def test_a_chunk_that_comes_back_damaged_is_garbage_and_written_again() -> None:
    world = read_back()
    damage_writes(world, "create", 1)
    whole = await write_pieces(world, [300_000])
    assert await world.read(1, 0, 300_000) == whole
    assert world.segments.mishaps.read_backs_failed == 1
    (burnt,) = world.segments.take_abandoned()
    assert burnt.name not in {row.name for row in world.layouts.rows.chunks.values()}


async def test_an_append_that_comes_back_damaged_goes_to_a_new_chunk() -> None:
    world = read_back()
    damage_writes(world, "write", 1)
    await write_pieces(world, [300_000, 20, 5])
    assert world.chunk_lengths() == [300_000, 25]
    assert world.segments.mishaps.read_backs_failed == 1
    assert not world.segments.take_abandoned()


async def test_a_service_that_damages_everything_fails_the_write() -> None:
    world = read_back()
    world.layouts.add(1)
    damage_writes(world, "create", 99)
    with pytest.raises(ChunkReadBackError):
        await world.segments.write(1, 0, [b"bytes"])
    assert world.layouts.layout(1).storage_length == 0
    assert len(world.segments.take_abandoned()) == 3 == world.segments.mishaps.read_backs_failed


async def test_bytes_that_cannot_be_read_back_do_not_count() -> None:
    world = read_back()
    world.layouts.add(1)
    left = [1]

    def decide(call: Call) -> Fault | None:
        if call.verb == "read_into" and left[0]:
            left[0] -= 1
            return Fault.REFUSED
        return None

    world.storage.decide = decide
    assert await world.segments.write(1, 0, [b"bytes"]) == 5
    assert await world.read(1, 0, 9) == b"bytes"
    assert len(world.segments.take_abandoned()) == 1
