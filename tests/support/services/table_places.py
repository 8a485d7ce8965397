"""A table of a store that the suite of consensus runs on."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import siltstone
from siltstone.collections.consensus.table import TableConsensus
from siltstone.collections.consensus.table_keys import TABLE_NAME
from siltstone.core.consensus import Consensus
from siltstone.core.environment import Environment
from siltstone.store.store import Store
from siltstone.store.system_table import SystemTable, system_table
from tests.support import inside


def table_store(folder: Path, *, containers: int = 1) -> Path:
    """Make a store whose collections are in a table; return its settings file."""
    file = siltstone.init(folder, containers=containers)
    file.write_text(f"{file.read_text()}\ncollections: {{consensus: table}}\n")
    return file


def kept(store: Store) -> Counter[str]:
    """How many rows of each kind the table has."""

    async def counted() -> Counter[str]:
        system = await system_table(inside.async_store(store), TABLE_NAME)
        keys = [key async for key, _ in system.table.scan()]
        return Counter(key[:1].decode() for key in keys)

    return inside.loop(store).run(counted())


class TablePlace:
    """One table of a store that is open; every client is another one of it.

    Args:
        store: open to own it.
        name: of the table.
    """

    def __init__(self, store: Store, name: str = TABLE_NAME) -> None:
        async def found() -> tuple[SystemTable, asyncio.AbstractEventLoop]:
            system = await system_table(inside.async_store(store), name)
            return system, asyncio.get_running_loop()

        self._system, self._running = inside.loop(store).run(found())

    def open(self, environment: Environment) -> Consensus:
        system = self._system
        return TableConsensus(
            system.table, self._running, environment, system.flush, system.is_pinned
        )
