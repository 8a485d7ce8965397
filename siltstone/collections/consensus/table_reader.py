"""Consensus in a table of a store that this process reads next to its owner, or without any.

Nothing is changed. What is seen is what was acknowledged before the look where tier 1 can be read,
and else what long-term storage has of the table.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import NoReturn

from siltstone.collections.consensus.table import TableConsensus
from siltstone.core.consensus import Committed, Opened, Taken, Tip, Undecided
from siltstone.core.environment import Environment
from siltstone.core.errors import ReadOnlyError, TableNotFoundError
from siltstone.core.records.collection_entry import Diff, Rollup
from siltstone.store.handles.async_table import AsyncTable


class TableReaderConsensus(TableConsensus):
    """Implements ``Consensus`` for who only reads; what changes something is a ``ReadOnlyError``.

    Args:
        table: of an open store that reads it. It need not be there.
        loop: of the store.
        environment: gives randomness.
        look: lets the table show all that was acknowledged before the call.
    """

    def __init__(
        self,
        table: AsyncTable,
        loop: asyncio.AbstractEventLoop,
        environment: Environment,
        look: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__(table, loop, environment, flush=refused, is_pinned=refused, prove=look)

    def keys(self) -> Iterator[bytes]:
        """``Consensus.keys``: one scan."""
        try:
            return super().keys()
        except TableNotFoundError:
            return iter(())

    def open(self, collection_id: bytes) -> Opened | None:
        """``Consensus.open``: a look at the log, and reads of the table."""
        try:
            return super().open(collection_id)
        except TableNotFoundError:
            return None

    def put_rollup(self, collection_id: bytes, seqno: int, state: bytes) -> Rollup:
        """``Consensus.put_rollup``: refused."""
        _refuse()

    def begin(self, collection_id: bytes, rollup: Rollup, diff: Diff) -> Opened:
        """``Consensus.begin``: refused."""
        _refuse()

    async def commit_on_loop(
        self, tip: Tip, diff: Diff, link: Rollup | None = None
    ) -> Committed | Taken | Undecided:
        """``CommitsOnLoop.commit_on_loop``: refused."""
        _refuse()

    def truncate(self, tip: Tip, floor: Rollup, rollups: Sequence[Rollup]) -> None:
        """``Consensus.truncate``: refused."""
        _refuse()

    def sweep(self, tip: Tip, rollups: Sequence[Rollup]) -> int:
        """``Consensus.sweep``: refused."""
        _refuse()


async def refused() -> NoReturn:
    """Raise ``ReadOnlyError``."""
    _refuse()


def _refuse() -> NoReturn:
    raise ReadOnlyError(
        "collections in a table are changed by the process that owns the store, and read without "
        "a lease by others"
    )
