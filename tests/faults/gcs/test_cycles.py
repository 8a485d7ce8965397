"""Opening and closing again and again leaves nothing: no descriptors, threads or sockets."""

from __future__ import annotations

import gc
import os
import threading
from collections import Counter
from pathlib import Path

import pytest

from services.fake_gcs import FakeGcs
from siltstone.bindings.gcs.chunk_storage import GcsChunkStorage
from siltstone.bindings.gcs.settings import GcsSettings
from tests.contract.gcs_services import new_bucket, settings
from tests.soak import share_of

WARM_UP = 20
"""The first ones load modules and files that stay."""


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


def held() -> Counter[str]:
    """What this process holds: its descriptors and its threads, by kind and name."""
    descriptors = []
    for path in Path("/proc/self/fd").iterdir():
        try:
            descriptors.append(os.readlink(path).partition(":")[0])
        except FileNotFoundError:  # that of the listing
            continue
    return Counter([*descriptors, *(thread.name for thread in threading.enumerate())])


def check(chosen: GcsSettings, count: int) -> None:
    for number in range(WARM_UP):
        cycle(chosen, number)
    gc.collect()
    before = held()
    for number in range(count):
        cycle(chosen, number)
    gc.collect()
    assert not held() - before, "what ended meanwhile was another test's"


def test_closing_frees_sockets_at_once(chosen: GcsSettings) -> None:
    """Not only when nobody holds the storage any more."""
    cycle(chosen, 0)
    gc.collect()
    before = held()
    closed = [cycle(chosen, number) for number in range(5)]
    assert not held() - before, "what ended meanwhile was another test's"
    assert len(closed) == 5


def test_a_hundred_times(chosen: GcsSettings) -> None:
    check(chosen, 100)


@pytest.mark.soak
def test_ten_thousand_times(chosen: GcsSettings) -> None:
    check(chosen, share_of(10_000))


def test_a_storage_that_nobody_closed_frees_its_sockets(chosen: GcsSettings) -> None:
    cycle(chosen, 0)
    gc.collect()
    before = held()
    for _ in range(5):
        GcsChunkStorage(chosen).create(os.urandom(6).hex(), [b"x"])
    gc.collect()
    assert not held() - before, "what ended meanwhile was another test's"
