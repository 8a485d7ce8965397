"""What a sync asks of the place: few requests, and no page before it is read."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random

import pytest

from siltstone.bindings.memory.bucket import Bucket
from siltstone.core.environment import SystemEnvironment
from siltstone.volumes import SyncAction, Volume, VolumeClient
from siltstone.volumes.settings import ClientSettings, Durability
from tests.support.volumes.counted_place import CountedPlace

SETTINGS = ClientSettings(place="memory", durability=Durability.PROCESS)
CHANCE = Random(7)


def as_it_is(place: CountedPlace) -> CountedPlace:
    return place


class Pair:
    """Two clients of one place, each with calls of its own."""

    def __init__(self, folder: Path) -> None:
        bucket = Bucket()
        self.places = (CountedPlace(bucket), CountedPlace(bucket))
        self.clients = [
            VolumeClient(folder / name, SETTINGS, partial(as_it_is, place), SystemEnvironment())
            for name, place in zip("ab", self.places, strict=True)
        ]
        self.first = self.clients[0].create("v")
        commit(self.first, 1)
        self.first.push()
        self.second = self.clients[1].clone("v", self.first.log)
        self.forget()

    def forget(self) -> None:
        for place in self.places:
            place.asked.clear()

    def asked(self, who: int) -> list[str]:
        return [verb for verb, _ in self.places[who].asked]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    for client in made.clients:
        client.close()


def commit(volume: Volume, *indexes: int) -> None:
    with volume.writer() as writer:
        for index in indexes:
            writer.write(index, CHANCE.randbytes(4096))
        writer.commit()


def test_a_push_of_a_thousand_commits_is_two_requests_and_one_record(pair: Pair) -> None:
    for number in range(1_000):
        commit(pair.first, 1 + number % 50)
    assert pair.first.push()
    assert pair.asked(0) == ["create", "create"]
    assert pair.first.info().line == "1001 r2"
    assert pair.second.fetch() == 1


def test_a_pull_of_a_thousand_commits_is_34_requests_and_no_page(pair: Pair) -> None:
    for number in range(1_000):
        commit(pair.first, 1 + number % 50)
        pair.first.push()
    assert pair.second.pull()
    assert len(pair.asked(1)) <= 34
    assert not [name for _, name in pair.places[1].asked if "/bundles/" in name]
    with pair.first.reader() as expected, pair.second.reader() as found:
        for index in range(1, 52):
            assert found.read(index) == expected.read(index)


def test_a_poll_without_news_is_one_request(pair: Pair) -> None:
    assert not pair.second.pull()
    assert pair.asked(1) == ["read_into"]


def test_a_sync_asks_for_news_once(pair: Pair) -> None:
    assert pair.second.sync() is SyncAction.NOTHING
    assert pair.asked(1) == ["read_into"]
    pair.forget()
    commit(pair.first, 1)
    pair.first.push()
    assert pair.second.sync() is SyncAction.PULLED
    assert pair.asked(1) == ["read_into", "list"]


@pytest.mark.parametrize("missing", [1, 2, 31, 32, 33, 64, 65])
def test_news_of_any_count_arrive_whole(pair: Pair, missing: int) -> None:
    for number in range(missing):
        commit(pair.first, 1 + number % 5)
        pair.first.push()
    assert pair.second.fetch() == missing
    assert len(pair.asked(1)) <= 3 + missing // 32
    assert pair.second.pull()
    assert pair.second.info().remote == missing + 1


def test_a_page_that_is_read_brings_its_neighbours_in_one_request(pair: Pair) -> None:
    commit(pair.first, *range(1, 131))
    pair.first.push()
    pair.second.pull()
    pair.forget()
    with pair.first.reader() as expected, pair.second.reader() as found:
        for index in (100, 120, 65, 128, 3, 64):
            assert found.read(index) == expected.read(index)
    assert pair.asked(1) == ["read_into"] * 2
    assert pair.second.hydrate() == 1


def test_a_reader_in_order_fetches_more_and_more_in_one_request(pair: Pair) -> None:
    commit(pair.first, *range(1, 64 * 40 + 1))
    pair.first.push()
    pair.second.pull()
    pair.forget()
    with pair.first.reader() as expected, pair.second.reader() as found:
        for index in range(1, 64 * 40 + 1):
            assert found.read(index) == expected.read(index)
    assert pair.asked(1) == ["read_into"] * 8, "of 1, 2, 4, 8, 8, 8, 8 and 1 slabs"
    assert pair.second.hydrate() == 0


def test_hydrate_fetches_each_slab_once_and_then_no_place_is_needed(pair: Pair) -> None:
    commit(pair.first, *range(1, 131))
    pair.first.push()
    commit(pair.first, *range(3, 131))
    pair.first.push()
    pair.second.pull()
    pair.forget()
    assert pair.second.hydrate() == 3
    assert pair.asked(1) == ["read_into"] * 2, "pages 1 and 2; two slabs that lie together"
    pair.places[1].is_cut_off = True
    with pair.first.reader() as expected, pair.second.reader() as found:
        for index in range(1, 131):
            assert found.read(index) == expected.read(index)
