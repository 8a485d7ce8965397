"""Stores of small chunks in a folder, and an executor without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import siltstone
from siltstone.pipelines.local_executor import LocalExecutor
from tests.support.stores import make_store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a new store with two containers and chunks of 4 KiB."""
    return make_store(tmp_path / "store")


@pytest.fixture
def store(folder: Path) -> Iterator[siltstone.Store]:
    """The store, open for writing."""
    with siltstone.open(folder) as opened:
        yield opened


@pytest.fixture
def executor() -> Iterator[LocalExecutor]:
    """Two threads."""
    made = LocalExecutor(2)
    yield made
    made.close()


Fill = Callable[[str, int], siltstone.Segment]


@pytest.fixture
def fill(store: siltstone.Store) -> Fill:
    """Make a flushed segment with this many bytes."""

    def filled(name: str, length: int) -> siltstone.Segment:
        segment = store.create(name)
        segment.append(text(name, length))
        segment.flush()
        return segment

    return filled


def text(name: str, length: int) -> bytes:
    """Lines that contain their segment and number."""
    line = f"{name!a} {{:08d}}\n"
    count = length // len(line.format(0)) + 1
    return "".join(line.format(number) for number in range(count)).encode()[:length]
