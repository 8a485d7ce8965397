"""Opening and closing again and again leaves nothing: no descriptors, threads or sockets."""

from __future__ import annotations

import os

import pytest

from services.azurite import Azurite
from siltstone.bindings.azure.chunk_storage import AzureChunkStorage
from siltstone.bindings.azure.settings import AzureSettings
from tests.support.faults.held_things import check_cycles, held, held_uncollected
from tests.support.services.azure_services import new_container, settings_of
from tests.support.soak import share_of


@pytest.fixture
def settings(azurite: Azurite) -> AzureSettings:
    container, _ = new_container(azurite)
    return settings_of(azurite, container, blobs="block", put_bytes_max=10, block_bytes=10)


def cycle(settings: AzureSettings, number: int) -> AzureChunkStorage:
    storage = AzureChunkStorage(settings)
    name = f"{number}"
    # Every tenth uses the threads of uploads.
    storage.create(name, [bytes(25 if number % 10 == 0 else 1)])
    assert storage.stat(name).length
    storage.delete(name)
    storage.close()
    return storage


def check(settings: AzureSettings, count: int) -> None:
    check_cycles(lambda number: cycle(settings, number), count)


def test_closing_frees_sockets_at_once(settings: AzureSettings) -> None:
    """Not only when no reference to the storage is left."""
    cycle(settings, 0)
    before = held()
    closed = [cycle(settings, number) for number in range(5)]
    assert not held_uncollected() - before
    assert len(closed) == 5


@pytest.mark.slow
def test_forty_times(settings: AzureSettings) -> None:
    check(settings, 40)


@pytest.mark.soak
def test_ten_thousand_times(settings: AzureSettings) -> None:
    check(settings, share_of(10_000))


def test_a_storage_that_was_never_closed_frees_its_sockets(settings: AzureSettings) -> None:
    cycle(settings, 0)
    before = held()
    for _ in range(5):
        AzureChunkStorage(settings).create(os.urandom(6).hex(), [b"x"])
    assert not held() - before
