"""A flush whose caller goes away while the table log is on its way to long-term storage.

What may happen: the caller is cancelled at any moment, however long storage takes.
What must hold after: the next flush works, and nothing is lost.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from siltstone.core.environment import SystemEnvironment
from tests.support.faults.gate import Gate, until
from tests.support.faults.place import STILL, Place
from tests.support.kill.ledger import damage


async def cancel_flush(folder: Path, word: str) -> None:
    place = Place(folder)
    gate = Gate(str(place.chunk_folder))
    environment = SystemEnvironment()
    container = await place.own(environment, STILL, storage=gate)
    await container.create("a")
    await container.append("a", b"first")
    gate.hold(word)
    flush = asyncio.create_task(container.flush())
    await until(lambda: gate.reached(word))
    flush.cancel()
    await asyncio.sleep(0.01)
    gate.let(word)
    with pytest.raises(asyncio.CancelledError):
        await flush
    await container.append("a", b"second")
    await container.flush()
    assert (await container.info("a")).flushed_length == len(b"firstsecond")
    assert container.stats().unflushed_table_bytes < 1_000
    assert await damage(container) == []
    await container.close()
    container = await place.own(environment, STILL)
    assert await container.read("a", 0, 100) == b"firstsecond"
    await container.close()
    environment.close()


@pytest.mark.parametrize("word", ["/a/", "/tables-", "/journal-"])
def test_a_flush_may_be_cancelled_at_any_write(tmp_path: Path, word: str) -> None:
    asyncio.run(cancel_flush(tmp_path, word))
