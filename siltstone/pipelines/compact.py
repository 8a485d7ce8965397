"""Compact: small chunks become fewer and fuller ones, written by workers and stated by the owner.

The driver owns the store. It reserves a name for each new chunk; a worker writes it, by the
service's own join where that is possible; the driver then lets it replace what is still unchanged,
in one transaction, which also makes the tasks that delete the old chunks. A killed job leaves
chunks that nothing names, and the sweep of the epoch finds them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from siltstone.container.compact.compaction import MERGED_BYTES_MAX, CompactionRules
from siltstone.container.container import Container
from siltstone.container.models.settings import Tuning
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import (
    CorruptDataError,
    LostDataError,
    SettingsError,
    SiltstoneError,
)
from siltstone.pipelines.owned_store import OwnedStore
from siltstone.pipelines.window import pack_sums, unpack_sums
from siltstone.pipelines.work import FAILED, OK, Executor, ItemOutcome, Step, packed, share_of
from siltstone.segments.merge import Merge, Merging, write_merge
from siltstone.store.settings.effective import load_settings
from siltstone.store.worker_store import worker_store

CHANGED: Final = "changed"
"""The segment changed meanwhile, so it stayed as it was."""

DAMAGED: Final = "damaged"
"""A chunk is damaged or lost, so it stayed as it was."""

ROUNDS_MAX: Final = 3

_TUNING: Final = Tuning()


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeItem:
    """One new chunk to be written.

    Attributes:
        container: index of the owner's container.
        merging: what lies in it.
    """

    container: int
    merging: Merging

    @property
    def size(self) -> int:
        """Bytes that are read and written."""
        return self.merging.length


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeWork:
    """Writes new chunks.

    Attributes:
        store: the settings file.
        uuid: of the store.
        rate: bytes a second that all openings together read and write; ``None`` for no limit.
    """

    store: str
    uuid: str
    rate: int | None

    @contextmanager
    def open(self, openings: int = 1) -> Iterator[Step]:
        """Open long-term storage."""
        check = load_settings(self.store).container.read_back
        with closing(worker_store(self.store, self.uuid, share_of(self.rate, openings))) as storage:
            yield partial(_written, storage, check)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planned:
    """A merge on its way."""

    container: Container
    merge: Merge
    merging: Merging


def compact(
    store: OwnedStore,
    executor: Executor,
    rules: CompactionRules | None = None,
    *,
    rate: int | None = None,
) -> Generator[ItemOutcome]:
    """Merge what is worth it in every container, and yield what became of each new chunk.

    Args:
        store: the owner.
        executor: where chunks are written.
        rules: what is worth merging; ``None`` takes what the optimiser of an owner merges.
        rate: bytes a second that are read and written at most; ``None`` means no limit.

    Yields:
        ``ok`` with the count of runs that lie in the new chunk now, ``changed``, ``damaged`` or
        ``failed``. Whatever is not ``ok`` stays as it was.

    Raises:
        FencedError: another owner took the store over; what was stated before stays.
    """
    chosen = chosen_rules() if rules is None else rules
    for _ in range(ROUNDS_MAX):
        # What was merged may still be small, and be merged with similar chunks of other segments.
        done = 0
        with closing(_round(store, executor, chosen, rate)) as outcomes:
            for outcome in outcomes:
                done += outcome.status == OK
                yield outcome
        if not done:
            break
        # What the new chunks stand for is garbage once long-term storage says so as well.
        for container in store.containers:
            store.loop.run(container.flush())


def _round(
    store: OwnedStore, executor: Executor, rules: CompactionRules, rate: int | None
) -> Generator[ItemOutcome]:
    planned: dict[str, _Planned] = {}
    items: list[MergeItem] = []
    for index, container in enumerate(store.containers):
        for merge in store.loop.run(container.compaction.plan(rules)):
            merging = store.loop.run(container.compaction.reserve(merge))
            if merging is not None:
                planned[merging.new.name] = _Planned(
                    container=container, merge=merge, merging=merging
                )
                items.append(MergeItem(container=index, merging=merging))
    work = MergeWork(store=store.path, uuid=store.uuid, rate=rate)
    try:
        with closing(executor.run(work, packed(items, executor.workers))) as outcomes:
            for outcome in outcomes:
                yield _stated(store, planned.pop(outcome.subject), outcome)
    finally:
        # Of these it is unknown whether they were written.
        for one in planned.values():
            if not one.container.closed:
                store.loop.run(one.container.compaction.abandon(one.merging))


def planned_bytes(store: OwnedStore, rules: CompactionRules) -> int:
    """Bytes that a compaction would move now."""
    plans = [store.loop.run(c.compaction.plan(rules)) for c in store.containers]
    return sum(merge.length for plan in plans for merge in plan)


def chosen_rules(
    *,
    small_bytes: int = _TUNING.optimiser_small_bytes,
    chunk_bytes: int = MERGED_BYTES_MAX,
    count_min: int = _TUNING.optimiser_chunks_min,
    share: bool = True,
) -> CompactionRules:
    """Rules of what is worth merging.

    Raises:
        SettingsError: a size is not positive, or a new chunk would be larger than 64 MiB.
    """
    if not 1 <= chunk_bytes <= MERGED_BYTES_MAX:
        raise SettingsError(f"a new chunk has 1 to {MERGED_BYTES_MAX} bytes, not {chunk_bytes}")
    if small_bytes < 1:
        raise SettingsError(f"a small chunk has at least one byte, not {small_bytes}")
    return CompactionRules(
        small_bytes=small_bytes, chunk_bytes=chunk_bytes, count_min=count_min, share=share
    )


def _stated(store: OwnedStore, one: _Planned, outcome: ItemOutcome) -> ItemOutcome:
    compaction = one.container.compaction
    if outcome.status != OK:
        store.loop.run(compaction.abandon(one.merging))
        if not compaction.stands(one.merge):
            return replace(outcome, status=CHANGED, length=0)
        return outcome
    try:
        count = store.loop.run(
            compaction.state(one.merge, one.merging, unpack_sums(outcome.detail))
        )
    except LostDataError as error:
        # Not of the store's bytes: a worker wrote somewhere else.
        return ItemOutcome(subject=outcome.subject, status=FAILED, message=str(error))
    if not count:
        return ItemOutcome(subject=outcome.subject, status=CHANGED, message="it changed meanwhile")
    how = "joined" if one.merging.native else "copied"
    return replace(outcome, message=f"{count} runs {how}", detail=b"")


def _written(storage: ChunkStorage, check: bool, item: MergeItem) -> ItemOutcome:
    name = item.merging.new.name
    try:
        sums = write_merge(storage, item.merging, check=check)
    except CorruptDataError as error:
        return ItemOutcome(subject=name, status=DAMAGED, message=str(error))
    except SiltstoneError as error:
        return ItemOutcome(subject=name, status=FAILED, message=str(error))
    return ItemOutcome(subject=name, status=OK, length=item.size, detail=pack_sums(tuple(sums)))
