"""A store in memory and its collections, for tests of blocking callers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import siltstone
from siltstone.collections.blocking import Collections, open_collections
from siltstone.collections.place import CollectionSettings
from tests.support.memory_folder import folder_in_memory

SETTINGS = CollectionSettings(garbage_delay_ms=0, compacts=False)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A store that no process owns."""
    with folder_in_memory(tmp_path) as made:
        siltstone.init(made, containers=1)
        yield made


@pytest.fixture
def collections(folder: Path) -> Iterator[Collections]:
    """Its collections, which nothing compacts by itself."""
    with open_collections(folder, settings=SETTINGS) as opened:
        yield opened
