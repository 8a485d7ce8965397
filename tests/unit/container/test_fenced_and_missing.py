"""What an owner hears when a chunk is gone: that it lost the container, or that bytes are lost.

A newer owner deletes chunks that are not needed any more; an older owner that does not know it yet
still has them in its rows. That is no loss, and must not be called one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest

from siltstone.container.container import Container
from siltstone.core.chunk_names import data_prefix
from siltstone.core.errors import FencedError, LostDataError
from tests.support.container.container_world import Owner, World, close_quietly, pattern, world

pytestmark = pytest.mark.virtual_time

TABLE_LOG = "/tables-"

Verb = Callable[[Container], Awaitable[object]]


async def flush_everything(container: Container) -> None:
    await container.flush()


async def flush_one(container: Container) -> None:
    await container.flush("a")


async def read(container: Container) -> None:
    await container.read("a", 0, 1_000)


async def checkpoint(container: Container) -> None:
    await container.checkpoint()


CASES = [
    pytest.param(flush_everything, data_prefix(0), id="flush"),
    pytest.param(flush_one, data_prefix(0), id="flush of one segment"),
    pytest.param(read, data_prefix(0), id="read"),
    pytest.param(flush_everything, TABLE_LOG, id="flush of the table log"),
    pytest.param(checkpoint, TABLE_LOG, id="checkpoint"),
]


async def started(made: World, kind: str) -> Owner:
    """An owner with flushed bytes and rows, and more of them in tier 1 alone."""
    owner = await made.open()
    await owner.container.create("a")
    await owner.container.append("a", pattern(1, 1_000))
    await owner.container.flush()
    if kind == TABLE_LOG:
        await owner.container.create("b")
    else:
        await owner.container.append("a", pattern(2, 1_000))
    return owner


def remove(made: World, kind: str) -> None:
    names = [name for name in made.names() if kind in name]
    assert names
    for name in names:
        made.new_storage().delete(name)


@pytest.mark.parametrize(("verb", "kind"), CASES)
async def test_a_fenced_owner_is_told_that_it_is_fenced(verb: Verb, kind: str) -> None:
    async with world() as made:
        old = await started(made, kind)
        lineage = UUID(old.container.stats().lineage).bytes

        def overtake(operation: str, name: str) -> None:
            """The owner is overtaken just before its first call on the chunk."""
            if kind in name:
                old.storage.before = lambda operation, name: None
                newer = made.new_log()
                newer.claim(lineage=lineage, new=False, above=0, takeover=True, owner="newer")
                remove(made, kind)

        old.storage.before = overtake
        with pytest.raises(FencedError):
            await verb(old.container)
        assert isinstance(old.container.failure, FencedError)
        await close_quietly(old)


@pytest.mark.parametrize(("verb", "kind"), CASES)
async def test_the_only_owner_is_told_that_bytes_are_lost(verb: Verb, kind: str) -> None:
    async with world() as made:
        owner = await started(made, kind)
        remove(made, kind)
        with pytest.raises(LostDataError):
            await verb(owner.container)
        assert owner.container.failure is None
        await close_quietly(owner)
