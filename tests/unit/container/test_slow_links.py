"""Large writes over a slow link: their deadline grows with their bytes, so they finish."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import pytest

from siltstone.core.chunk_names import data_prefix
from siltstone.core.constants import KIB, MIB
from siltstone.core.errors import ChunkError, ChunkUnavailableError
from siltstone.core.storage.async_storage import AsyncChunkStorage
from tests.support.container.container_world import pattern, world
from tests.support.container.request_counts import QUIET, WRITE_ONCE

pytestmark = pytest.mark.virtual_time

RATE = 10 * KIB
"""What the link moves in a second: a chunk of 1 MiB takes more than a minute and a half."""
MOVING: ContextVar[int] = ContextVar("MOVING", default=0)
"""Bytes of the call that the current task makes."""

SETTINGS = replace(QUIET, chunk_bytes=MIB, storage_deadline_s=20.0, storage_rate_min=8 * KIB)


@pytest.fixture
def read_back(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Let the world know how many bytes each call moves, read back or not read back."""
    twice: bool = request.param
    plain = AsyncChunkStorage._call

    async def told(self: Any, operation: str, chunk: str, call: Any, **choices: Any) -> Any:
        back = twice and operation == "create" and chunk.startswith(data_prefix(0))
        MOVING.set(choices.get("length", 0) * (2 if back else 1))
        return await plain(self, operation, chunk, call, **choices)

    monkeypatch.setattr(AsyncChunkStorage, "_call", told)
    return twice


@pytest.mark.slow
@pytest.mark.parametrize("read_back", [False, True], indirect=True)
@pytest.mark.parametrize("enough", [True, False])
async def test_a_flush_goes_through_if_the_link_is_no_slower_than_expected(
    read_back: bool, enough: bool
) -> None:
    expected = SETTINGS.storage_rate_min if enough else 100 * KIB

    settings = replace(SETTINGS, read_back=read_back, storage_rate_min=expected)
    async with world(profile=WRITE_ONCE, settings=settings) as made:
        made.environment.latency = lambda pool, chance: (
            MOVING.get() / RATE if pool.name.startswith("chunks") else 0.0
        )
        owner = await made.open()
        container = owner.container
        data = pattern(1, 2 * MIB)
        await container.create("a")
        await container.append("a", data)
        begun = made.environment.monotonic()
        if enough:
            await container.flush()
            took_s = made.environment.monotonic() - begun
            assert took_s >= len(data) / RATE > SETTINGS.storage_deadline_s
            assert len(made.names(data_prefix(0))) == 2, "no name was burnt"
            assert (await container.info("a")).flushed_length == len(data)
            assert await container.read("a", 0, len(data)) == data
            await container.close()
        else:
            with pytest.raises(ChunkError):
                await container.flush()
            assert (await container.info("a")).flushed_length == 0
            with pytest.raises(ChunkUnavailableError, match="is safe in tier 1"):
                await container.close()
