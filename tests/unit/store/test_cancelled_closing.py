"""A close that is given up at any moment still frees everything: the next open finds it free."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone.metadata.checkpoint import INDEX_POOL
from siltstone.metadata.index import Index

CANCELS = 60


@pytest.mark.slow
@pytest.mark.parametrize("read_only", [False, True])
def test_a_store_is_free_after_a_closing_that_was_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, read_only: bool
) -> None:
    """Each of its calls is cancelled, also while threads are busy and it waits for one."""
    file = siltstone.init(tmp_path / "store")
    with siltstone.open(file) as store:
        store.create("a").append(b"kept")
    opened, open_index = [], Index.open

    def kept(*args: Any, **kwargs: Any) -> Index:
        opened.append(open_index(*args, **kwargs))
        return opened[-1]

    monkeypatch.setattr(Index, "open", kept)

    async def play() -> None:
        held = threading.Event()
        store = await siltstone.open_async(file, read_only=read_only)
        environment = store.environment
        busy = [environment.run_blocking(INDEX_POOL, held.wait) for _ in range(INDEX_POOL.threads)]
        closing = asyncio.create_task(store.close())
        await asyncio.sleep(0)
        for _ in range(CANCELS):
            closing.cancel()
            await asyncio.sleep(0.001)
        held.set()
        with pytest.raises(asyncio.CancelledError):
            await closing
        await asyncio.gather(*busy)
        assert all(index._closed for index in opened)
        async with await siltstone.open_async(file) as store:
            assert await store.segment("a").read(0, 10) == b"kept"

    asyncio.run(play())
