"""What an executor was asked for, and what became of it."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence

from siltstone.pipelines.work import Executor, Item, ItemOutcome, Work


class SeenItems:
    """Passes work to an executor.

    Attributes:
        outcomes: all that came back.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.outcomes: list[ItemOutcome] = []

    @property
    def workers(self) -> int:
        return self._executor.workers

    def run(self, work: Work, packs: Iterable[Sequence[Item]]) -> Generator[ItemOutcome]:
        for outcome in self._executor.run(work, packs):
            self.outcomes.append(outcome)
            yield outcome

    def close(self) -> None:
        self._executor.close()
