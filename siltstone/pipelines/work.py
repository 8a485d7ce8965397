"""What a job is made of: items, packs of them, the work on one item, and what became of it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from siltstone.core.constants import KIB, MIB
from siltstone.core.errors import SiltstoneError

T = TypeVar("T")

OK: Final = "ok"
"""Done, and all is well."""

SAME: Final = "same"
"""Done by an earlier run; nothing had to be done."""

FAILED: Final = "failed"
"""It could not be done; the message says why. A later run may succeed."""

PACK_BYTES_MAX: Final = 64 * MIB
"""What one task has to do at most, so that a task that is repeated costs little."""

PACK_BYTES_MIN: Final = 8 * MIB
"""Starting a task costs some 20 ms, about as much as reading this many bytes."""

ITEM_BYTES: Final = 16 * KIB
"""What each item costs in addition to its bytes, in bytes that are read at the same time."""

PACK_ITEMS_MAX: Final = 4_096
PACKS_PER_WORKER: Final = 3
"""So that workers which finish early find more to do."""


class PipelineError(SiltstoneError):
    """A job could not be done as a whole; what was done before stays, and it may be run again."""


class Item(Protocol):
    """What one step of a job is about: a frozen record that is pickled, without any secret."""

    @property
    def size(self) -> int:
        """About how many bytes the step moves."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemOutcome:
    """What became of one item.

    Attributes:
        subject: the chunk, file or segment that it is about.
        status: ``ok``, ``same``, ``failed``, or a word of the job's own.
        length: bytes that were worked on.
        message: what people should know; empty when there is nothing.
        detail: what the driver needs to continue, encoded by the job.
    """

    subject: str
    status: str
    length: int = 0
    message: str = ""
    detail: bytes = b""


Step = Callable[[Any], ItemOutcome]


class Work(Protocol):
    """What is done with each item, wherever that is: a frozen record that is pickled.

    It names settings files by path and holds no secret: credentials come from the environment of
    the process that opens it.
    """

    @property
    def rate(self) -> int | None:
        """Bytes a second that all who share the work may move together; ``None`` for no limit."""
        ...

    def open(self, openings: int = 1) -> AbstractContextManager[Step]:
        """Open what the steps need; they may run on several threads at a time.

        Args:
            openings: how often the work is open at a time, at most; each moves its share of the
                rate.
        """
        ...


def share_of(rate: int | None, openings: int) -> int | None:
    """The rate of each one, when this many move bytes at a time; ``None`` for no limit."""
    return None if rate is None else max(1, rate // openings)


class Executor(Protocol):
    """Where work is done. ``run`` may be called again and again."""

    @property
    def workers(self) -> int:
        """How many tasks run at a time, about."""
        ...

    def run(self, work: Work, packs: Iterable[Sequence[Item]]) -> Generator[ItemOutcome]:
        """Do the work on every item and yield what became of each, in any order.

        The packs are taken as they are needed. Closing it ends the work early; a caller that an
        error or a signal may end closes it, for the traceback keeps it alive.

        Raises:
            PipelineError: a worker could not begin at all, or ended unexpectedly.
        """
        ...

    def close(self) -> None:
        """Free what was made for it. Idempotent."""
        ...


def in_groups(
    items: Iterable[T], size_of: Callable[[T], int], size_max: int, count_max: int
) -> Iterator[tuple[T, ...]]:
    """Cut items into groups, in order: a larger one is alone, smaller ones share.

    Args:
        items: any.
        size_of: what each adds.
        size_max: of all of a group, unless it is one item.
        count_max: items of a group.
    """
    group: list[T] = []
    size = 0
    for item in items:
        each = size_of(item)
        if group and (size + each > size_max or len(group) == count_max):
            yield tuple(group)
            group, size = [], 0
        group.append(item)
        size += each
    if group:
        yield tuple(group)


def packed(items: Sequence[Item], workers: int) -> Iterator[tuple[Item, ...]]:
    """Cut items into packs of about the same cost, in order: small ones share a task.

    Args:
        items: all of a job.
        workers: tasks that run at a time.
    """
    total = sum(item.size + ITEM_BYTES for item in items)
    share = -(-total // max(1, workers * PACKS_PER_WORKER))
    limit = min(PACK_BYTES_MAX, max(PACK_BYTES_MIN, share))
    return in_groups(items, lambda item: item.size + ITEM_BYTES, limit, PACK_ITEMS_MAX)
