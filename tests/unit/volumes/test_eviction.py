"""Pages that the place has can be let go, and come back when they are read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from siltstone.bindings.memory.bucket import Bucket
from siltstone.core.environment import SystemEnvironment
from siltstone.volumes import Volume, VolumeClient, eviction
from siltstone.volumes.settings import ClientSettings, Durability
from tests.support.volumes.counted_place import CountedPlace
from tests.support.volumes.page_model import PAGE_BYTES, commit_pages

CHANCE = Random(3)
PAGES = [CHANCE.randbytes(PAGE_BYTES) for _ in range(300)]
MIB = 2**20


class Place:
    """A place in memory, and clients of it."""

    def __init__(self, folder: Path) -> None:
        self.storage = CountedPlace(Bucket())
        self._folder = folder
        self._clients: list[VolumeClient] = []

    def client(self, name: str, cache: int | None = None) -> VolumeClient:
        settings = ClientSettings(place="memory", durability=Durability.PROCESS, cache=cache)
        made = VolumeClient(self._folder / name, settings, self._opened, SystemEnvironment())
        self._clients.append(made)
        return made

    def _opened(self) -> CountedPlace:
        return self.storage

    def close(self) -> None:
        for client in self._clients:
            client.close()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.close()


@pytest.fixture
def volume(place: Place) -> Volume:
    """One with 300 pages that the place has."""
    made = place.client("a").create("v")
    commit_pages(made, dict(enumerate(PAGES, 1)))
    made.push()
    return made


def is_whole(volume: Volume, expected: list[bytes]) -> bool:
    with volume.reader() as reader:
        return [reader.read(index) for index in range(1, len(expected) + 1)] == expected


def test_all_that_the_place_has_goes_and_comes_back(place: Place, volume: Volume) -> None:
    assert volume.evict() == 300
    assert volume.evict() == 0
    place.storage.asked.clear()
    assert is_whole(volume, PAGES)
    assert [name for _, name in place.storage.asked if "/bundles/" in name]
    assert volume.evict(100 * PAGE_BYTES) == 200
    assert is_whole(volume, PAGES)


def test_what_no_place_has_stays(place: Place, volume: Volume) -> None:
    commit_pages(volume, {2: PAGES[0], 301: PAGES[1]})
    assert volume.evict() == 300, "the pushed version of page 2, too"
    place.storage.is_cut_off = True
    with volume.reader() as reader:
        assert (reader.read(2), reader.read(301)) == (PAGES[0], PAGES[1])
    place.storage.is_cut_off = False
    assert is_whole(volume, [PAGES[0], PAGES[0], *PAGES[2:], PAGES[1]])
    volume.reset()
    assert is_whole(volume, PAGES)


def test_a_reader_of_an_older_snapshot_is_not_touched(place: Place, volume: Volume) -> None:
    with volume.reader() as reader:
        commit_pages(volume, {5: PAGES[9]})
        volume.push()
        assert volume.evict() == 300
        place.storage.is_cut_off = True
        assert reader.read(5) == PAGES[4]
        place.storage.is_cut_off = False
        assert reader.read(6) == PAGES[5]


def test_pages_of_several_records_are_fetched_of_their_own(place: Place, volume: Volume) -> None:
    expected = list(PAGES)
    for number in range(20):
        changed = {CHANCE.randrange(1, 301): CHANCE.randbytes(PAGE_BYTES) for _ in range(9)}
        for index, page in changed.items():
            expected[index - 1] = page
        with volume.writer() as writer:
            if number == 11:
                writer.truncate(250)
                expected[250:] = [bytes(PAGE_BYTES)] * 50
            for index, page in changed.items():
                if number == 11 and index > 250:
                    expected[index - 1] = page
                writer.write(index, page)
            writer.truncate(300)
            writer.commit()
        volume.push()
    volume.evict()
    assert is_whole(volume, expected)
    other = place.client("b").clone("v", volume.log)
    assert is_whole(other, expected)
    other.evict()
    assert is_whole(other, expected)


def test_a_push_meanwhile_ends_it(volume: Volume, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eviction, "_AT_A_TIME", 10)
    look = volume._local.rows.partitions.newest_page
    seen: list[int] = []

    def look_and_push(at: bytes, index: int, lsn: int) -> tuple[int, bytes] | None:
        seen.append(index)
        found = look(at, index, lsn)
        if len(seen) == 10:
            for each in (200, 201):
                commit_pages(volume, {each: PAGES[0]})
            volume.push()
        return found

    monkeypatch.setattr(volume._local.rows.partitions, "newest_page", look_and_push)
    assert volume.evict() == 10
    monkeypatch.undo()
    assert is_whole(volume, [*PAGES[:199], PAGES[0], PAGES[0], *PAGES[201:]])


def test_a_cache_keeps_what_was_fetched_last(place: Place) -> None:
    volume = place.client("a").create("v")
    content = [CHANCE.randbytes(PAGE_BYTES) for _ in range(6_000)]
    for begin in range(0, 6_000, 1_000):
        commit_pages(volume, dict(enumerate(content[begin : begin + 1_000], begin + 1)))
    volume.push()
    other = place.client("b", cache=8 * MIB).clone("v", volume.log)
    assert is_whole(other, content)
    held = other.evict()
    assert held * PAGE_BYTES <= (8 + 16) * MIB + 8 * 64 * PAGE_BYTES
    assert is_whole(other, content)
    place.storage.is_cut_off = True
    with other.reader() as reader:
        assert reader.read(6_000) == content[-1]


def test_less_than_nothing_cannot_be_kept(volume: Volume) -> None:
    with pytest.raises(ValueError, match="-1"):
        volume.evict(-1)
