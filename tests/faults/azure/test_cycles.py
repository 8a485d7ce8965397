"""Opening and closing again and again leaves nothing: no descriptors, threads or sockets."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path

import pytest

from services.azurite import Azurite
from siltstone.bindings.azure.chunk_storage import AzureChunkStorage
from siltstone.bindings.azure.settings import AzureSettings
from tests.contract.azure_services import new_container, settings_of

WARM_UP = 10
"""The first ones load modules and files that stay."""


@pytest.fixture
def settings(azurite: Azurite) -> AzureSettings:
    container, _ = new_container(azurite)
    return settings_of(azurite, container, blobs="block", put_bytes_max=10, block_bytes=10)


def cycle(settings: AzureSettings, number: int) -> None:
    storage = AzureChunkStorage(settings)
    name = f"{number}"
    # Every tenth uses the threads of uploads.
    storage.create(name, [bytes(25 if number % 10 == 0 else 1)])
    assert storage.stat(name).length
    storage.delete(name)
    storage.close()


def held() -> tuple[list[str], list[str]]:
    """What this process holds: its descriptors and its threads."""
    gc.collect()
    descriptors = []
    for path in Path("/proc/self/fd").iterdir():
        try:
            descriptors.append(os.readlink(path).partition(":")[0])
        except FileNotFoundError:  # that of the listing
            continue
    return sorted(descriptors), sorted(thread.name for thread in threading.enumerate())


def check(settings: AzureSettings, count: int) -> None:
    for number in range(WARM_UP):
        cycle(settings, number)
    before = held()
    for number in range(count):
        cycle(settings, number)
    assert held() == before


@pytest.mark.slow
def test_forty_times(settings: AzureSettings) -> None:
    check(settings, 40)


@pytest.mark.soak
def test_ten_thousand_times(settings: AzureSettings) -> None:
    check(settings, 10_000)
