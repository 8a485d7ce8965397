"""Hours without long-term storage while applications append at full speed; virtual time.

What fails: every call to storage, from one moment on. What must hold with the log in files: appends
continue up to the bound, then they wait, and fail at their deadline with nothing appended; neither
memory nor log grows any more; when storage is back, waiting appends continue and everything is
flushed, each byte once and in its order, also for the next owner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from siltstone.core.constants import KIB, MIB
from siltstone.core.errors import BackPressureError
from siltstone.testing.faults.faulty_chunk_storage import Fate
from siltstone.testing.virtual_time import jittered
from siltstone.tier1.file.fenced_log import FileFencedLog
from tests.support.container.container_world import Owner, World, pattern, with_settings, world
from tests.support.memory_folder import folder_in_memory

pytestmark = pytest.mark.virtual_time

BOUND = 300 * KIB
DEADLINE_S = 7.0
THROTTLE_S = 2.0
SIZES = (1, 100, 5_000)
CLIENTS = 4
HOURS = 3
SETTINGS = with_settings(
    unflushed_bytes_max=BOUND,
    append_deadline_s=DEADLINE_S,
    throttle_s_max=THROTTLE_S,
    late_s=60.0,
    late_s_max=660.0,
    storage_deadline_s=20.0,
)


class Client:
    """Appends to its own segment, one append after the other, whatever their outcome."""

    def __init__(self, made: World, owner: Owner, number: int) -> None:
        self.name = f"s{number}"
        self.content = bytearray()
        self.refused = 0
        self._made = made
        self._container = owner.container
        self._number = number

    async def run(self) -> None:
        environment = self._made.environment
        for count in range(10**6):
            data = pattern(self._number + count, SIZES[count % len(SIZES)])
            start = environment.monotonic()
            try:
                offset = await self._container.append(self.name, data)
            except BackPressureError:
                took = environment.monotonic() - start
                assert took == pytest.approx(DEADLINE_S, abs=0.1)
                self.refused += 1
                await environment.sleep(60)
            else:
                assert offset == len(self.content), "what was refused is not there"
                assert environment.monotonic() - start < DEADLINE_S + THROTTLE_S
                self.content += data
                await environment.sleep(0.2)

    async def check(self, owner: Owner) -> None:
        assert await owner.container.read(self.name, 0, 2 * MIB) == self.content


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with folder_in_memory(tmp_path) as place:
        yield place


@pytest.mark.slow
@pytest.mark.parametrize("fate", [Fate.LOST_CALL, Fate.REFUSED], ids=["silent", "failing"])
async def test_appends_continue_to_the_bound_and_all_drains_later(fate: Fate, folder: Path) -> None:

    def new_log() -> FileFencedLog:
        return FileFencedLog(str(folder / "log"), 0, file_bytes=256 * KIB)

    async with world(settings=SETTINGS, latency=jittered(0.02), new_log=new_log) as made:
        owner = await made.open()
        container = owner.container
        clients = [Client(made, owner, number) for number in range(CLIENTS)]
        for client in clients:
            await container.create(client.name)
        working = [asyncio.create_task(client.run()) for client in clients]
        await made.environment.sleep(60)
        owner.storage.plan = lambda call: fate
        flushed = sum(len(client.content) for client in clients)
        await made.environment.sleep(3_600)
        held = container.stats().unflushed_bytes
        log_bytes = size_of(folder)
        assert BOUND <= held <= BOUND + CLIENTS * max(SIZES)
        assert sum(len(client.content) for client in clients) >= flushed
        assert all(client.refused for client in clients)
        await made.environment.sleep(3_600 * (HOURS - 1))
        assert container.failure is None
        assert container.stats().unflushed_bytes == held, "nothing gets in at the bound"
        assert size_of(folder) == log_bytes
        assert min(client.refused for client in clients) > HOURS * 40
        # Some client waits at the moment when storage comes back; it continues.
        owner.storage.plan = lambda call: Fate.DONE
        await made.environment.sleep(120)
        before = [client.refused for client in clients]
        lengths = [len(client.content) for client in clients]
        await made.environment.sleep(60)
        assert [client.refused for client in clients] == before
        assert all(
            len(client.content) > length for client, length in zip(clients, lengths, strict=True)
        )
        for task in working:
            task.cancel()
        await asyncio.wait(working)
        assert all(task.cancelled() for task in working), "no client found anything wrong"
        await container.flush()
        assert container.stats().unflushed_bytes == 0
        infos = [await container.info(client.name) for client in clients]
        # A cancelled append may still have taken place; nothing else may.
        for client, info in zip(clients, infos, strict=True):
            assert info.length - len(client.content) in (0, *SIZES)
            tail = await container.read(client.name, len(client.content), 2 * max(SIZES))
            client.content += tail
            await client.check(owner)
        await made.check(owner)
        await container.close()
        owner = await made.open(index="another")
        for client in clients:
            await client.check(owner)
        await owner.container.close()


def size_of(folder: Path) -> int:
    """Bytes of the log's files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
