"""Consensus over objects: which requests it makes, which objects it leaves, and what is damaged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest

from siltstone.collections.consensus.objects import ObjectConsensus
from siltstone.core.chunk_storage import Capabilities, ChunkStorage
from siltstone.core.environment import Environment, SystemEnvironment
from siltstone.core.errors import (
    CapabilityError,
    CorruptDataError,
    LostDataError,
)
from siltstone.core.records.collection_rollup import RolledState, encode_rollup
from siltstone.core.storage.wrapper import WrappedChunkStorage
from siltstone.testing.consensus_checks.subject import Caller, cut
from siltstone.testing.faults.faulty_chunk_storage import FaultyChunkStorage
from tests.support.services.local_services import BucketService

ID = bytes(range(16))
PREFIX = f"collections/{ID.hex()}"
FIRST = f"{PREFIX}/entries/fffffffffffffffe"
SECOND = f"{PREFIX}/entries/fffffffffffffffd"


@dataclass(frozen=True, slots=True)
class World:
    """A bucket, and two callers with a collection in it; the calls of one of them are counted."""

    bucket: BucketService
    environment: Environment
    calls: FaultyChunkStorage
    counted: Caller
    other: Caller

    def requests(self, verb: Callable[[], object]) -> dict[str, int]:
        """How many calls of each operation a verb makes."""
        before = len(self.calls.calls)
        verb()
        return dict(Counter(call.operation for call in self.calls.calls[before:]))

    def names(self) -> set[str]:
        return {name.removeprefix(f"{PREFIX}/") for name in self.bucket.outside_names()}

    def consensus(self) -> ObjectConsensus:
        return ObjectConsensus(self.bucket.open(), self.environment)


@pytest.fixture
def world() -> Iterator[World]:
    bucket, environment = BucketService(), SystemEnvironment()
    calls = FaultyChunkStorage(bucket.open())
    counted = Caller(ObjectConsensus(calls, environment), ID)
    other = Caller(ObjectConsensus(bucket.open(), environment), ID)
    counted.begin("first")
    other.open()
    yield World(bucket, environment, calls, counted, other)
    environment.close()


class WithoutWhole(WrappedChunkStorage):
    """A storage that cannot create a chunk whole or not at all."""

    @property
    def capabilities(self) -> Capabilities:
        return replace(self.inner.capabilities, whole=False)


def test_a_storage_without_whole_creates_is_refused(world: World) -> None:
    with pytest.raises(CapabilityError, match="whole or not at all"):
        ObjectConsensus(WithoutWhole(world.bucket.open()), world.environment)


# --- requests -------------------------------------------------------------------------------------


def test_a_commit_is_a_create_and_a_stat(world: World) -> None:
    assert world.requests(lambda: world.counted.add("x")) == {"create": 1, "stat": 1}


def test_a_lost_race_costs_three_requests_more(world: World) -> None:
    world.other.add("of another")
    calls = world.requests(lambda: world.counted.add("x"))
    assert calls == {"create": 2, "read_into": 1, "stat": 2}


def test_an_open_is_a_listing_and_two_reads(world: World) -> None:
    for number in range(20):
        world.other.add(f"line {number}")
    assert world.requests(world.counted.open) == {"list": 1, "read_into": 2}


def test_an_open_reads_one_entry_for_each_64_kib_of_diffs(world: World) -> None:
    for number in range(10):
        world.other.add(f"{number} " + "x" * 30_000)
    # Each entry holds a diff and the two before it.
    assert world.requests(world.counted.open) == {"list": 1, "read_into": 1 + 4}


@pytest.mark.parametrize(("news", "reads"), [(0, 1), (1, 2), (3, 4), (4, 5)])
def test_a_refresh_reads_until_there_is_nothing_and_looks_at_the_anchor(
    world: World, news: int, reads: int
) -> None:
    for number in range(news):
        world.other.add(f"line {number}")
    assert world.requests(world.counted.refresh) == {"read_into": reads, "stat": 1}


def test_a_refresh_of_many_entries_looks_for_the_newest(world: World) -> None:
    for number in range(50):
        world.other.add(f"line {number}")
    calls = world.requests(world.counted.refresh)
    assert calls == {"read_into": 6, "list": 1, "stat": 1}
    assert world.counted.story == world.other.story


def test_a_poll_is_one_read_while_nothing_is_new(world: World) -> None:
    poll = lambda: world.counted.consensus.poll(world.counted.tip)  # noqa: E731
    assert world.requests(poll) == {"read_into": 1}
    world.other.add("second")
    assert world.requests(poll) == {"read_into": 2, "stat": 1}


def test_a_truncation_deletes_rollups_and_then_entries_in_bulk(world: World) -> None:
    for number in range(5):
        world.counted.add(f"line {number}")
    world.counted.link()
    world.counted.add("after it")
    tip, rollups = world.counted.tip, world.counted.story.rollups
    truncate = lambda: world.counted.consensus.truncate(tip, tip.settled, rollups)  # noqa: E731
    before = len(world.calls.calls)
    assert world.requests(truncate) == {"delete_many": 2}
    first, second = world.calls.calls[before:]
    assert (first.name, second.name) == (
        f"{PREFIX}/rollups/{0:020}-{rollups[0].nonce:016x}",
        SECOND,
    )


# --- objects --------------------------------------------------------------------------------------


def test_what_is_left_is_the_first_entry_and_what_the_newest_needs(world: World) -> None:
    for _ in range(4):
        cut(world.counted)
    world.counted.sweep()
    (rollup,) = world.counted.story.rollups
    seqnos = [1, *range(rollup.seqno + 1, world.counted.tip.seqno + 1)]
    entries = {f"entries/{2**64 - 1 - seqno:016x}" for seqno in seqnos}
    assert world.names() == entries | {f"rollups/{rollup.seqno:020}-{rollup.nonce:016x}"}


def test_a_caller_that_began_nothing_leaves_nothing(world: World) -> None:
    before = world.names()
    world.other.begin("another first")
    assert world.names() == before


def test_objects_of_others_are_no_collections(world: World) -> None:
    world.bucket.outside_write("collections/consensus", b"objects")
    world.bucket.outside_write(f"collections/{'ab' * 16}/parts/0/0-0-0.parquet", b"x")
    world.bucket.outside_write("collections/zz", b"x")
    assert list(world.consensus().keys()) == [ID]


def test_an_entry_repeats_the_diffs_before_it_up_to_64_kib(world: World) -> None:
    for number in range(200):
        world.counted.add(f"{number} " + "x" * 1_000)
    sizes = [len(world.bucket.outside_read(name) or b"") for name in entries_of(world)]
    assert max(sizes) < 70_000
    assert max(sizes) > 60_000


# --- damage ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["open", "refresh"])
def test_a_damaged_entry_is_reported_with_its_name(world: World, verb: str) -> None:
    world.other.add("second")
    damage(world, SECOND)
    with pytest.raises(CorruptDataError) as caught:
        getattr(world.counted, verb)()
    assert caught.value.where == SECOND


def test_an_entry_under_a_wrong_name_is_reported(world: World) -> None:
    world.bucket.outside_write(SECOND, world.bucket.outside_read(FIRST) or b"")
    with pytest.raises(CorruptDataError, match="does not fit its name"):
        world.counted.refresh()


def test_a_damaged_rollup_is_reported_with_its_name(world: World) -> None:
    name = rollup_of(world)
    damage(world, name)
    with pytest.raises(CorruptDataError) as caught:
        world.counted.open()
    assert caught.value.where == name


def test_a_whole_rollup_that_is_not_the_one_that_was_linked_is_reported(world: World) -> None:
    """Its envelope is right, and so are its id and its seqno: the entry has its sum."""
    other = RolledState(collection_id=ID, seqno=0, state=b"another state")
    name = rollup_of(world)
    world.bucket.open().delete(name)
    world.bucket.outside_write(name, encode_rollup(other))
    with pytest.raises(CorruptDataError, match="not the one that was linked") as caught:
        world.counted.open()
    assert caught.value.where == name


def test_a_bit_that_flips_on_the_way_is_read_once_more(world: World) -> None:
    flips = FlippedOnce(world.bucket.open())
    caller = Caller(ObjectConsensus(flips, world.environment), ID)
    caller.open()
    assert caller.story == world.other.story
    assert flips.count == 2, "once in the entry, once in the rollup"


def test_a_rollup_that_is_gone_is_lost_data(world: World) -> None:
    world.bucket.open().delete(rollup_of(world))
    with pytest.raises(LostDataError, match="newest entry") as caught:
        world.consensus().open(ID)
    assert caught.value.where == FIRST


def test_entries_that_are_gone_are_lost_data(world: World) -> None:
    world.other.add("second")
    world.counted.refresh()
    world.bucket.open().delete(rollup_of(world))
    world.bucket.open().delete(SECOND)
    with pytest.raises(LostDataError):
        world.counted.refresh()
    world.bucket.open().delete(FIRST)
    with pytest.raises(LostDataError, match="entries of a collection are gone"):
        world.counted.refresh()


def test_a_name_that_is_none_of_an_entry_is_reported(world: World) -> None:
    world.bucket.outside_write(f"{PREFIX}/entries/0-what-is-this", b"x")
    with pytest.raises(CorruptDataError, match="not the name of an entry"):
        world.counted.open()


def test_a_name_that_is_none_of_a_rollup_is_reported(world: World) -> None:
    world.bucket.outside_write(f"{PREFIX}/rollups/what-is-this", b"x")
    with pytest.raises(CorruptDataError, match="not the name of a rollup"):
        world.counted.sweep()


class FlippedOnce(WrappedChunkStorage):
    """Flips a bit of the first read of each chunk.

    Attributes:
        count: how many it flipped.
    """

    def __init__(self, inner: ChunkStorage) -> None:
        super().__init__(inner)
        self.count = 0
        self._seen = set[str]()

    def read_into(self, name: str, offset: int, buffer: memoryview | bytearray) -> int:
        got = super().read_into(name, offset, buffer)
        if name not in self._seen:
            self._seen.add(name)
            self.count += 1
            buffer[30] ^= 1
        return got


def entries_of(world: World) -> list[str]:
    return [name for name in world.bucket.outside_names() if "/entries/" in name]


def rollup_of(world: World) -> str:
    (name,) = (name for name in world.bucket.outside_names() if "/rollups/" in name)
    return name


def damage(world: World, name: str) -> None:
    data = bytearray(world.bucket.outside_read(name) or b"")
    data[40] ^= 1
    world.bucket.open().delete(name)
    world.bucket.outside_write(name, bytes(data))
