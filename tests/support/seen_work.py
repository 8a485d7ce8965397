"""An executor that keeps what travels to workers, to look for secrets in it."""

from __future__ import annotations

import pickle
from collections.abc import Generator, Iterable, Sequence

from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.work import Item, ItemOutcome, Work


class Seeing:
    """Threads, and what travels to them."""

    workers = 4

    def __init__(self) -> None:
        self.seen = b""

    def run(self, work: Work, packs: Iterable[Sequence[Item]]) -> Generator[ItemOutcome]:
        kept = [list(pack) for pack in packs]
        self.seen += pickle.dumps((work, kept))
        yield from LocalExecutor(4).run(work, kept)

    def close(self) -> None:
        pass
