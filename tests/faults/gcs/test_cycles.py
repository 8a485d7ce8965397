"""Opening and closing again and again leaves nothing: no descriptors, threads or sockets."""

from __future__ import annotations

import os

import pytest

from services.fake_gcs import FakeGcs
from siltstone.bindings.gcs.chunk_storage import GcsChunkStorage
from siltstone.bindings.gcs.settings import GcsSettings
from tests.support.faults.held_things import check_cycles, held, held_uncollected
from tests.support.services.gcs_services import new_bucket, settings
from tests.support.soak import share_of


@pytest.fixture
def chosen(fake_gcs_server: FakeGcs) -> GcsSettings:
    raw = new_bucket(fake_gcs_server.endpoint)
    raw.write("one", b"1")
    raw.write("two", b"2")
    return settings(fake_gcs_server.endpoint, raw.bucket, unsafe_without_preconditions=True)


def cycle(chosen: GcsSettings, number: int) -> GcsChunkStorage:
    storage = GcsChunkStorage(chosen)
    name = f"{number}"
    if number % 10 == 0:  # uses the threads of joins
        storage.concat(name, [("one", 1), ("two", 1)])
    else:
        storage.create(name, [b"x"])
    assert storage.stat(name).length
    storage.delete(name)
    storage.close()
    return storage


def check(chosen: GcsSettings, count: int) -> None:
    check_cycles(lambda number: cycle(chosen, number), count)


def test_closing_frees_sockets_at_once(chosen: GcsSettings) -> None:
    """Not only when no reference to the storage is left."""
    cycle(chosen, 0)
    before = held()
    closed = [cycle(chosen, number) for number in range(5)]
    assert not held_uncollected() - before
    assert len(closed) == 5


def test_a_hundred_times(chosen: GcsSettings) -> None:
    check(chosen, 100)


@pytest.mark.soak
def test_ten_thousand_times(chosen: GcsSettings) -> None:
    check(chosen, share_of(10_000))


def test_a_storage_that_was_never_closed_frees_its_sockets(chosen: GcsSettings) -> None:
    cycle(chosen, 0)
    before = held()
    for _ in range(5):
        GcsChunkStorage(chosen).create(os.urandom(6).hex(), [b"x"])
    assert not held() - before
