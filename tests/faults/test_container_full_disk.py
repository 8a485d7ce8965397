"""A whole container on full disks.

What may fail: the disk of the log, or that of the chunks, has no room for some more bytes, for as
long as the test likes; a write may come short before it fails.
What may not fail: what was written before; overwriting; removing.
What must hold after: an append that meets a full log was not applied, says so, and fails nothing
else; while the chunks' disk is full appends continue until the bound on unflushed bytes, or until a
flush tells of it, and then fail as not applied; truncations and deletions continue; once there is
room everything continues by itself; nothing acknowledged is lost and nothing refused appears.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from siltstone.container.container import Container
from siltstone.core.constants import KIB, MIB
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import (
    BackPressureError,
    ChunkStorageFullError,
    Outcome,
    SafeModeError,
    SiltstoneError,
    StorageFullError,
)
from siltstone.core.posix import FileCalls, PathName
from siltstone.testing.faults.file_layer import FullDisk
from tests.support.faults.crash_file_system import CrashFileSystem
from tests.support.faults.place import RESTLESS, STILL, Place
from tests.support.faults.real_disk import real_disk
from tests.support.kill.ledger import Ledger, damage
from tests.support.kill.payload import record

FILE_BYTES = 64 * KIB
LENGTH = 6_000
APPENDS_MAX = 4_000
"""Far more than any disk here holds."""

FULL_PAUSE_S = 1.1
"""How long a container refuses appends by itself after tier 1 was full, and a little more."""

RESUMES_WITHIN_S = 120.0

IMPATIENT = replace(RESTLESS, append_deadline_s=0.4)
PATIENT = replace(STILL, unflushed_bytes_max=64 * MIB, flush_bytes=64 * MIB)


class Budget(FullDisk):
    """A full disk that gets room back for what is removed from it."""

    def unlink(self, path: PathName, *, dir_fd: int | None = None) -> None:
        with self._guard:
            size = self.inner.stat(path, dir_fd=dir_fd).st_size
            super().unlink(path, dir_fd=dir_fd)
            self.room += size


class World:
    """A container whose log, chunks and index may lie on different disks."""

    def __init__(
        self,
        log: Path,
        chunks: Path,
        index: Path,
        log_calls: FileCalls | None = None,
        chunk_calls: FileCalls | None = None,
    ) -> None:
        self.ledger = Ledger()
        self._log = Place(log, file_bytes=FILE_BYTES)
        self._chunks = Place(chunks)
        self._index = index
        self._log_calls = log_calls
        self._chunk_calls = chunk_calls
        self._sequence = 0

    @asynccontextmanager
    async def own(self, *, restless: bool = False) -> AsyncIterator[Container]:
        environment = SystemEnvironment()
        try:
            container = await self._chunks.own(
                environment,
                IMPATIENT if restless else PATIENT,
                log=self._log.log(self._log_calls),
                storage=self._chunks.storage(self._chunk_calls),
                index=str(self._index),
            )
            try:
                yield container
            finally:
                await container.close()
        finally:
            environment.close()

    async def append(self, container: Container, name: str = "plain") -> None:
        number = self._sequence
        offset = await container.append(name, record(1, number, LENGTH))
        self._sequence += 1
        self.ledger.take([["a", name, offset, 1, number, LENGTH]])

    async def fill(self, container: Container) -> Exception:
        """Append until it is refused."""
        with pytest.raises((StorageFullError, BackPressureError, SafeModeError)) as refused:
            await self._append_for_ever(container)
        assert refused.value.outcome is Outcome.NOT_APPLIED
        return refused.value

    async def _append_for_ever(self, container: Container) -> None:
        for _ in range(APPENDS_MAX):
            await self.append(container)

    async def start(self, container: Container) -> None:
        for name in ("plain", "old"):
            await container.create(name)
        number = self._sequence
        for index in range(8):
            offset = await container.append("old", record(2, index, LENGTH))
            self.ledger.take([["a", "old", offset, 2, index, LENGTH]])
        await container.flush()
        self._sequence = number

    async def relieve(self, container: Container) -> None:
        """Truncate one segment and delete another, which must work on a full disk."""
        info = await container.info("plain")
        offset = info.start_offset + len(record(1, 0, LENGTH))
        self.ledger.take([["t?", "plain", offset]])
        await container.truncate("plain", offset)
        self.ledger.take([["t", "plain", offset], ["d?", "old"]])
        await container.delete("old")
        self.ledger.take([["d", "old"]])

    async def make_room(self, container: Container) -> None:
        """A flush takes the bytes away, so the log needs less room, and appends continue."""
        await container.flush()
        await container.checkpoint()
        await container.flush()

    async def use_reserve(self, container: Container, names: Iterable[str]) -> None:
        """Delete segments until even that is refused."""
        for name in names:
            self.ledger.take([["d?", name]])
            try:
                await container.delete(name)
            except StorageFullError:
                return
            self.ledger.take([["d", name]])
        raise AssertionError("the reserve never ended")

    async def append_again(self, container: Container) -> None:
        """Append again; the segment flusher may still be in the pause after its last failure."""
        async with asyncio.timeout(RESUMES_WITHIN_S):
            count = 0
            while count < 20:
                with suppress(BackPressureError, SafeModeError):
                    await self.append(container)
                    count += 1
                await asyncio.sleep(0.01)

    async def fill_up(self, container: Container) -> None:
        """Append and flush until nothing finds room any more, and the container has noticed.

        What failed uploads left is tidied away, and each time makes room for a few bytes.
        """
        async with asyncio.timeout(RESUMES_WITHIN_S):
            while True:
                await self.fill(container)
                try:
                    await container.flush("plain")
                except ChunkStorageFullError:
                    if (await container.health()).safe_mode:
                        return
                await asyncio.sleep(0.1)

    async def look(self, container: Container) -> None:
        await self.ledger.look(container)
        assert await damage(container) == []


async def full_log(world: World) -> None:
    async with world.own() as container:
        await world.start(container)
        refused = await world.fill(container)
        assert isinstance(refused, StorageFullError)
        assert container.failure is None
        await world.look(container)
        await world.relieve(container)
        await world.look(container)
        await world.make_room(container)
        await asyncio.sleep(FULL_PAUSE_S)
        await world.append(container)
        await world.look(container)
        await world.fill(container)
        await world.look(container)
    async with world.own() as container:
        await world.look(container)


def test_a_full_log_refuses_and_continues(tmp_path: Path) -> None:
    calls = Budget(room=9 * FILE_BYTES)
    asyncio.run(full_log(World(tmp_path, tmp_path, tmp_path / "index", calls)))


async def used_reserve(world: World, disk: Budget) -> None:
    names = [f"empty-{number}" for number in range(400)]
    async with world.own() as container:
        await world.start(container)
        for name in names:
            await container.create(name)
        await world.fill(container)
        await world.use_reserve(container, names)
        assert disk.room < FILE_BYTES
    disk.room = max(disk.room, FILE_BYTES // 2)
    async with world.own() as container:
        await world.look(container)
        await world.make_room(container)
        await world.append_again(container)
        await world.look(container)


def test_a_full_log_whose_reserve_is_used_up_opens_in_what_room_is_left(tmp_path: Path) -> None:
    calls = Budget(room=9 * FILE_BYTES)
    asyncio.run(used_reserve(World(tmp_path, tmp_path, tmp_path / "index", calls), calls))


async def full_chunks(world: World, more_room: Callable[[], object]) -> None:
    async with world.own(restless=True) as container:
        await world.start(container)
        refused = await world.fill(container)
        assert isinstance(refused, BackPressureError | SafeModeError)
        assert container.failure is None
        await world.fill_up(container)
        with pytest.raises(SafeModeError):
            await world.append(container)
        assert container.stats().last_error is not None
        await world.look(container)
        await world.relieve(container)
        await world.look(container)
        more_room()
        await container.flush()
        await world.append_again(container)
        await container.checkpoint()
        await container.collect()
        await world.look(container)
    async with world.own(restless=True) as container:
        await world.look(container)


def test_full_chunks_hold_appends_back_and_continue(tmp_path: Path) -> None:
    calls = Budget(room=400_000)

    def more_room() -> None:
        calls.room += 10_000_000

    asyncio.run(full_chunks(World(tmp_path, tmp_path, tmp_path / "index", None, calls), more_room))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[CrashFileSystem]:
    yield from real_disk(tmp_path, 8)


@pytest.mark.slow
def test_a_full_log_on_a_real_disk(disk: CrashFileSystem, tmp_path: Path) -> None:
    asyncio.run(full_log(World(disk.folder, tmp_path, tmp_path / "index")))


@pytest.mark.slow
def test_full_chunks_on_a_real_disk(disk: CrashFileSystem, tmp_path: Path) -> None:
    ballast = disk.folder / "ballast"
    ballast.write_bytes(bytes(4_000_000))
    world = World(tmp_path, disk.folder, tmp_path / "index")
    asyncio.run(full_chunks(world, ballast.unlink))


async def one_full_disk(world: World, more_room: Callable[[], object]) -> None:
    """Everything on one disk: the index may fail too, which ends the owner and loses nothing."""
    try:
        async with world.own(restless=True) as container:
            await world.start(container)
            await world.fill(container)
            await world.look(container)
            await world.relieve(container)
    except (SiltstoneError, OSError):
        # Told to the caller of the moment; what counts is what is there afterwards.
        pass
    more_room()
    async with world.own(restless=True) as container:
        await world.look(container)
        await world.append_again(container)
        await container.flush()
        await world.look(container)


@pytest.mark.slow
def test_one_full_real_disk_for_everything(disk: CrashFileSystem) -> None:
    ballast = disk.folder / "ballast"
    ballast.write_bytes(bytes(4_000_000))
    world = World(disk.folder, disk.folder, disk.folder / "index")
    asyncio.run(one_full_disk(world, ballast.unlink))
