"""The look for a newer owner: in the log, and in long-term storage."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from siltstone.bindings.memory.bucket import Bucket
from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.container.commit.fence import Fence
from siltstone.container.commit.pipeline import Pipeline
from siltstone.core.chunk_names import (
    claim_file,
    data_chunk,
    index_file,
    journal_file,
    system_chunk,
    system_epoch_prefix,
    system_prefix,
)
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import FencedError, SiltstoneError
from siltstone.core.storage.async_storage import AsyncChunkStorage

CONTAINER, EPOCH = 3, 7
FOREIGN_MANY = 250
"""Names of others, more than the fence lists at a time."""


class Log:
    """What a fence needs of a pipeline."""

    def __init__(self, newest: int) -> None:
        self.epoch = EPOCH
        self.newest = newest
        self.failure: SiltstoneError | None = None

    async def newest_epoch(self) -> int:
        return self.newest

    def fail(self, error: SiltstoneError) -> None:
        self.failure = error


def check(log: Log, *names: str) -> None:
    """Ask the fence of an owner of ``EPOCH`` next to files of these names."""
    environment = SystemEnvironment()
    bucket = Bucket()
    storage = MemoryChunkStorage(bucket)
    for name in names:
        storage.create(name, [b"x"])
    bridge = AsyncChunkStorage(storage, environment, threads=1)

    async def checked() -> None:
        try:
            await Fence(cast(Pipeline, log), bridge, CONTAINER).check()
        finally:
            await bridge.close()

    try:
        asyncio.run(checked())
    finally:
        environment.close()


def system_files(epoch: int, container: int = CONTAINER) -> list[str]:
    return [
        claim_file(container, epoch),
        journal_file(container, epoch, 1),
        index_file(container, epoch, 1, 1, "n"),
        system_chunk(container, epoch, 0, 1),
    ]


OWN_AND_FOREIGN = [
    *system_files(EPOCH),
    *system_files(EPOCH - 1),
    *system_files(EPOCH + 1, CONTAINER + 1),
    *system_files(EPOCH + 1, CONTAINER - 1),
    data_chunk(CONTAINER, EPOCH + 1, "name", 0, 1),
    f"{system_epoch_prefix(CONTAINER, EPOCH)}zzz",
    f"{system_prefix(CONTAINER)}readme",
    *(f"{system_prefix(CONTAINER)}f{number:04}" for number in range(FOREIGN_MANY)),
]


@pytest.mark.parametrize("newest", [0, EPOCH - 1, EPOCH])
def test_without_a_newer_epoch_nothing_happens(newest: int) -> None:
    log = Log(newest)
    check(log, *OWN_AND_FOREIGN)
    check(log)
    assert log.failure is None


@pytest.mark.parametrize("newest", [EPOCH + 1, EPOCH + 9])
def test_a_newer_epoch_in_the_log_closes_the_container(newest: int) -> None:
    log = Log(newest)
    with pytest.raises(FencedError) as caught:
        check(log)
    assert log.failure is caught.value
    assert str(caught.value) == f"a newer epoch owns the log epoch={newest}"


@pytest.mark.parametrize("above", [1, 2, 10**6])
@pytest.mark.parametrize("number", range(4))
def test_any_system_file_of_a_newer_epoch_closes_the_container(above: int, number: int) -> None:
    log = Log(EPOCH)
    name = system_files(EPOCH + above)[number]
    with pytest.raises(FencedError) as caught:
        check(log, *OWN_AND_FOREIGN, name)
    assert log.failure is caught.value
    assert str(caught.value) == f"a newer epoch has files in this store file={name}"


def before_the_epochs(number: int) -> str:
    """A foreign name that sorts directly after the owner's own files."""
    return f"{system_epoch_prefix(CONTAINER, EPOCH)[:-1]}x{number:04}"


@pytest.mark.parametrize("count", [1, 99, 100, 101, FOREIGN_MANY])
def test_names_of_others_hide_nothing(count: int) -> None:
    foreign = [before_the_epochs(number) for number in range(count)]
    name = claim_file(CONTAINER, EPOCH + 1)
    assert all(claim_file(CONTAINER, EPOCH) < other < name for other in foreign)
    log = Log(EPOCH)
    check(log, *foreign)
    with pytest.raises(FencedError):
        check(log, *foreign, name)
