"""Values whose bytes are damaged or gone: an error that names the object, and never other bytes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import siltstone
from siltstone import objects
from siltstone.core.errors import LostDataError
from siltstone.objects.lost_changes import PASSED
from siltstone.objects.space_names import space_names
from tests.support.stores import chunk_path, flip, make_store

COUNT = 30
NAMES = space_names("photos")


def value(number: int) -> bytes:
    return f"value {number} ".encode() * 200


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store with a keyspace whose values are in chunks."""
    make_store(tmp_path, containers=1, more="reads: {verify: always}\n")
    with siltstone.open(tmp_path) as store:
        photos = objects.create(store, "photos")
        for number in range(COUNT):
            photos.put("b", f"k{number}", value(number), metadata=b"%d" % number)
        store.flush()
    return tmp_path


def chunks_of_values(store: siltstone.Store) -> Iterator[str]:
    for info in store.list(NAMES.values):
        yield from (each.chunk for each in store.segment(info.name).chunks())


def look(store: siltstone.Store) -> list[str]:
    """Get every object; returns the keys of those whose value is lost."""
    photos = objects.open(store, "photos")
    gone = []
    for number in range(COUNT):
        key = f"k{number}"
        head = photos.head("b", key)
        assert head is not None
        assert head.metadata == b"%d" % number
        try:
            found = photos.get("b", key)
        except objects.LostObjectError as error:
            named = (error.bucket, error.key, error.sqn)
        else:
            assert found is not None
            assert found.value == value(number)
            continue
        assert named == ("b", key, head.sqn)
        gone.append(key)
    return gone


def test_a_damaged_chunk_loses_the_values_in_it_and_no_other(folder: Path) -> None:
    with siltstone.open(folder, read_only=True) as store:
        chunks = list(chunks_of_values(store))
    flip(chunk_path(folder, chunks[1]), 2_000)
    for read_only in (True, False):
        with siltstone.open(folder, read_only=read_only) as store:
            gone = look(store)
            assert 1 <= len(gone) < COUNT


def test_a_chunk_that_is_gone_loses_the_values_in_it_and_no_other(folder: Path) -> None:
    with siltstone.open(folder, read_only=True) as store:
        chunks = list(chunks_of_values(store))
    chunk_path(folder, chunks[1]).unlink()
    with siltstone.open(folder) as store:
        gone = look(store)
        assert 1 <= len(gone) < COUNT
        photos = objects.open(store, "photos")
        number = int(gone[0][1:])
        put = photos.put("b", gone[0], value(number), metadata=b"%d" % number)
        assert put.replaced == number + 1
        assert look(store) == gone[1:]


def test_a_value_segment_that_is_gone_loses_its_values(folder: Path) -> None:
    """An active one keeps the keyspace from opening; one that is gone meanwhile is told by get."""
    with siltstone.open(folder) as store:
        photos = objects.open(store, "photos")
        segment = store.segment(NAMES.value_segment(1), force=True)
        segment.seal()
        segment.delete()
        assert photos.head("b", "k3") is not None
        with pytest.raises(objects.LostObjectError):
            photos.get("b", "k3")
        assert photos.get("b", "absent") is None
    with siltstone.open(folder) as store, pytest.raises(LostDataError):
        objects.open(store, "photos")


def test_what_was_flushed_is_there_without_tier_1(folder: Path) -> None:
    shutil.rmtree(folder / "tier1")
    siltstone.recover(folder, accept_loss=True)
    with siltstone.open(folder) as store:
        assert look(store) == []
        assert objects.open(store, "photos").put("b", "more", b"").sqn == COUNT + PASSED + 1
