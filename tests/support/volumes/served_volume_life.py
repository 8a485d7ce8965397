"""A short life of a volume on any service that keeps chunks, held by two clients of it.

A dictionary of pages is the model. Who is first is decided by the service alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import LostDataError
from siltstone.testing.chunk_checks.subject import ChunkService
from siltstone.volumes import (
    ConflictError,
    RejectedCommitError,
    RemoteMismatchError,
    Volume,
    VolumeClient,
    VolumeStatus,
)
from siltstone.volumes.settings import ClientSettings, Durability
from tests.support.volumes.page_model import Pages, commit, pages_of

SETTINGS = ClientSettings(place="a service", durability=Durability.PROCESS)

Operations = list[tuple[str, int, int]]


@contextmanager
def client_of(service: ChunkService, folder: Path) -> Iterator[VolumeClient]:
    """A client whose place is the service."""
    with VolumeClient(folder, SETTINGS, service.open, SystemEnvironment()) as client:
        yield client


def served_volume_life(service: ChunkService, folder: Path) -> None:
    """Live on ``service``, which has no volume yet; raise ``AssertionError`` if it deviates."""
    with ExitStack() as stack:
        first, second = [
            stack.enter_context(client_of(service, folder / name)) for name in ("a", "b")
        ]
        mine = first.create("v")
        pages = _commit(mine, Pages(), [("write", index, 1) for index in range(1, 140)])
        assert mine.push()
        others = second.clone("v", mine.log)
        assert pages_of(others, 3) == pages
        pages = _commit(others, pages, [("truncate", 70, 0), ("write", 100, 2)])
        assert others.push()
        assert mine.pull()
        assert pages_of(mine, 3) == pages
        pages = _race(mine, others, pages)
        for number in range(35):
            pages = _commit(others, pages, [("write", 1 + number, 3)])
            assert others.push()
        assert mine.pull()
        assert pages_of(mine, 3) == pages_of(others, 3) == pages
        assert mine.info().remote == others.info().remote == 38
    _reopened(service, folder, mine.log, pages)


def _race(mine: Volume, others: Volume, pages: Pages) -> Pages:
    """Both push from the same commit: one is published, and the other begins again."""
    won = _commit(mine, pages, [("write", 5, 7)])
    _commit(others, pages, [("write", 5, 8), ("truncate", 3, 0)])
    assert mine.push()
    with pytest.raises(RejectedCommitError):
        others.push()
    assert others.info().status is VolumeStatus.REJECTED_COMMIT
    with pytest.raises(ConflictError):
        others.pull()
    others.reset()
    assert pages_of(others, 3) == won
    return won


def _reopened(service: ChunkService, folder: Path, log: str, pages: Pages) -> None:
    """Another process goes on, and notices what is gone."""
    with client_of(service, folder / "a") as client, client_of(service, folder / "c") as new:
        assert client.volume("v").sync().value == "nothing"
        assert pages_of(client.volume("v"), 3) == pages
        cold = new.clone("v", log)
        storage = service.open()
        for name in [each.name for each in storage.list("volumes/")]:
            if "/bundles/" in name:
                storage.delete(name)
        with pytest.raises(LostDataError):
            pages_of(cold, 3)
        newest = next(iter(storage.list(f"volumes/{log}/commits/"))).name
        storage.delete(newest)
        storage.close()
    with client_of(service, folder / "a") as client, pytest.raises(RemoteMismatchError):
        client.volume("v").push()


def _commit(volume: Volume, pages: Pages, operations: Operations) -> Pages:
    commit(volume, *operations)
    return pages.written(operations)
