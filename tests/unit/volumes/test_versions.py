"""Versions of pages stay as long as a snapshot needs them, and show in no other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from siltstone.bindings.memory.bucket import Bucket
from siltstone.core.environment import SystemEnvironment
from siltstone.volumes import Volume, VolumeClient
from siltstone.volumes.partitions import VolumePartition
from siltstone.volumes.records.keys import read_page_key
from siltstone.volumes.settings import ClientSettings, Durability
from tests.support.volumes.counted_place import CountedPlace
from tests.support.volumes.page_model import PAGE_BYTES, Pages, commit, pages_of, seen

OLD = [("write", 3, 2), ("write", 5, 1)]


@pytest.fixture
def place() -> CountedPlace:
    return CountedPlace(Bucket())


@pytest.fixture
def volume(tmp_path: Path, place: CountedPlace) -> Iterator[Volume]:
    with client_of(tmp_path, place) as client:
        yield client.create("v")


def client_of(folder: Path, place: CountedPlace) -> VolumeClient:
    settings = ClientSettings(place="memory", durability=Durability.PROCESS)
    return VolumeClient(folder, settings, lambda: place, SystemEnvironment())


def versions(volume: Volume, index: int) -> list[int]:
    """Local LSNs of the versions of a page that are kept, the newest first."""
    rows = volume._local.rows
    found = rows.partitions.scan(VolumePartition.PAGES, rows.volume, rows.volume)
    return [lsn for at, lsn in (read_page_key(key) for key, _ in found) if at == index]


def test_a_page_that_was_cut_off_twice_stays_zeros_when_readers_end(volume: Volume) -> None:
    commit(volume, *OLD)
    first = volume.reader()
    commit(volume, ("truncate", 2, 0))
    commit(volume, ("truncate", 5, 0))
    second = volume.reader()
    commit(volume, ("truncate", 2, 0))
    commit(volume, ("truncate", 5, 0))
    assert pages_of(volume, 8) == Pages(5)
    second.close()
    assert pages_of(volume, 8) == Pages(5)
    assert seen(first, 8) == Pages(5, ((3, 2), (5, 1)))
    first.close()
    assert pages_of(volume, 8) == Pages(5)


def test_what_no_snapshot_needs_is_gone_at_once(volume: Volume) -> None:
    for number in range(1, 6):
        commit(volume, ("write", 1, number))
    assert versions(volume, 1) == [5]
    commit(volume, ("truncate", 0, 0))
    assert versions(volume, 1) == []


def test_a_reader_keeps_its_version_and_no_other(volume: Volume) -> None:
    commit(volume, ("write", 1, 1))
    with volume.reader() as reader:
        for number in range(2, 6):
            commit(volume, ("write", 1, number))
        assert versions(volume, 1) == [5, 1]
        assert reader.read(1) == b"\x01" * PAGE_BYTES
    assert versions(volume, 1) == [5]


@pytest.mark.parametrize("ends", ["push", "reader"])
def test_what_a_reader_of_an_ended_process_kept_goes_later(
    tmp_path: Path, place: CountedPlace, ends: str
) -> None:
    with client_of(tmp_path, place) as client:
        volume = client.create("v")
        commit(volume, ("write", 1, 1))
        volume.reader()
        commit(volume, ("write", 1, 2))
        volume.push()
        assert versions(volume, 1) == [2, 1]
    with client_of(tmp_path, place) as client:
        volume = client.volume("v")
        reader = volume.reader()
        commit(volume, ("write", 2, 3))
        if ends == "push":
            volume.push()
        reader.close()
        assert versions(volume, 1) == [2]
        rows = volume._local.rows
        assert not list(rows.partitions.scan(VolumePartition.GARBAGE, rows.volume, rows.volume))


def test_what_the_place_has_is_kept_until_the_next_push(volume: Volume) -> None:
    commit(volume, ("write", 1, 1))
    volume.push()
    for number in range(2, 6):
        commit(volume, ("write", 1, number))
    assert versions(volume, 1) == [5, 1]
    assert volume.info().checkpoint == 1
    volume.push()
    assert versions(volume, 1) == [5]
    assert volume.info().checkpoint == 5


def test_a_reset_brings_the_pages_of_the_place_back(volume: Volume) -> None:
    commit(volume, *OLD)
    volume.push()
    pushed = pages_of(volume, 8)
    commit(volume, ("write", 3, 7), ("truncate", 3, 0))
    commit(volume, ("write", 8, 7))
    with volume.reader() as reader:
        given_up = seen(reader, 8)
        volume.reset()
        assert pages_of(volume, 8) == pushed
        assert seen(reader, 8) == given_up
    assert pages_of(volume, 8) == pushed
    assert versions(volume, 8) == []
