"""The consensus ``ledger`` of another distribution: a book of pages in memory, by its name.

Every client of one name sees the same book, as every client of a database does. It is told apart
from what it is made of by the count of clients that have it open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

from siltstone.collections.consensus.memory import MemoryConsensus
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.consensus import Consensus
from siltstone.core.environment import Environment
from siltstone.core.hooks import checked_settings, hookimpl

NAME: Final = "ledger"
BOOKS: Final[dict[str, MemoryConsensus]] = {}
OPEN: Final[Counter[str]] = Counter()
"""How many clients have each book open."""


class LedgerSettings(BaseModel, extra="forbid"):
    """Where the book is."""

    book: str


class LedgerConsensus:
    """One client of a book."""

    def __init__(self, book: str, environment: Environment) -> None:
        shared = BOOKS.setdefault(book, MemoryConsensus(environment))
        self._book = book
        self.keys = shared.keys
        self.put_rollup = shared.put_rollup
        self.begin = shared.begin
        self.open = shared.open
        self.refresh = shared.refresh
        self.poll = shared.poll
        self.commit = shared.commit
        self.replay = shared.replay
        self.truncate = shared.truncate
        self.sweep = shared.sweep
        OPEN[book] += 1

    def close(self) -> None:
        """One client less."""
        OPEN[self._book] -= 1


@hookimpl
def siltstone_consensus(
    name: str, settings: Mapping[str, Any], storage: ChunkStorage, environment: Environment
) -> Consensus | None:
    if name != NAME:
        return None
    return LedgerConsensus(checked_settings(NAME, settings, LedgerSettings).book, environment)


@hookimpl
def siltstone_settings(name: str) -> type[BaseModel] | None:
    return LedgerSettings if name == NAME else None
