"""One store for the tests of a module: opening one costs more than most tests do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import siltstone


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a new store with two containers."""
    path = tmp_path_factory.mktemp("store")
    settings = siltstone.init(path, containers=2)
    text = settings.read_text(encoding="utf-8")
    settings.write_text(text.replace("path: ./tier1", "path: ./tier1\n    file_bytes: 16MiB"))
    return path


@pytest.fixture(scope="module")
def store(folder: Path) -> Iterator[siltstone.Store]:
    """The open store of the module."""
    with siltstone.open(folder) as opened:
        yield opened


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that only this test uses."""
    return str(request.node.name)


@pytest.fixture
def segment(store: siltstone.Store, name: str) -> siltstone.Segment:
    """A new, empty segment."""
    return store.create(name)
