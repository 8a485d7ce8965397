"""Owners that live too briefly for a checkpoint: the cost of a boot stays bounded anyway."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from siltstone.container.state.boot_state import OWNERS_MAX
from siltstone.core.errors import ChunkUnavailableError
from siltstone.testing.faults.faulty_chunk_storage import FaultyChunkStorage
from tests.support.container.container_world import World, close_quietly, world

pytestmark = pytest.mark.virtual_time

COUNT = 4 * OWNERS_MAX
FILES_MAX = 8 * OWNERS_MAX
CALLS_MAX = 12 * OWNERS_MAX


def counted(made: World, calls: list[str]) -> None:
    def hook(storage: FaultyChunkStorage) -> None:
        storage.before = lambda operation, name: calls.append(operation)

    made.storage_hook = hook


@pytest.mark.slow
@pytest.mark.parametrize("end", ["close", "flush", "crash"])
async def test_files_and_calls_do_not_grow_with_the_number_of_owners(end: str) -> None:
    async with world() as made:
        calls: list[str] = []
        counted(made, calls)
        expected = b""
        for number in range(COUNT):
            calls.clear()
            owner = await made.open()
            assert len(calls) < CALLS_MAX
            assert len(made.names("system/")) < FILES_MAX
            stats = owner.container.stats()
            assert stats.log_end - stats.log_first < FILES_MAX
            await owner.container.create("a", exist_ok=True)
            await owner.container.append("a", piece := b"%08d" % number)
            expected += piece
            if end == "flush":
                await owner.container.flush()
            if end == "crash":
                await made.crash(owner)
            else:
                await owner.container.close()
        owner = await made.open()
        assert await owner.container.read("a", 0, len(expected) + 1) == expected
        await owner.container.flush()
        await made.check(owner)
        await close_quietly(owner)


@pytest.mark.slow
async def test_a_failure_of_storage_does_not_keep_an_owner_from_opening() -> None:
    async with world() as made:
        for _ in range(OWNERS_MAX):
            owner = await made.open()
            await owner.container.create("a", exist_ok=True)
            await owner.container.append("a", b"bytes")
            await owner.container.close(flush="never")
        before = made.names("system/")
        made.storage_hook = failing(lambda name: "tables" in name)
        owner = await made.open()
        assert set(before) < set(made.names("system/"))
        assert await owner.container.read("a", 0, 999) == b"bytes" * OWNERS_MAX
        await owner.container.close()
        made.storage_hook = lambda storage: None
        owner = await made.open()
        assert len(made.names("system/")) < OWNERS_MAX
        await close_quietly(owner)


def failing(what: Callable[[str], bool]) -> Callable[[FaultyChunkStorage], None]:
    def hook(storage: FaultyChunkStorage) -> None:
        def refuse(operation: str, name: str) -> None:
            if operation == "create" and what(name):
                raise ChunkUnavailableError("not now", chunk=name, operation=operation)

        storage.before = refuse

    return hook
