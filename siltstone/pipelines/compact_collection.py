"""Compact a collection: workers merge ranges of keys, and the driver puts the result as one batch.

No process owns a collection, so others append and read meanwhile. What workers upload counts
only when the driver has put it; of a killed job nothing counts, and the sweep finds it.
"""

from __future__ import annotations

import pickle
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from siltstone.collections.async_collections import AsyncCollections, open_async_collections
from siltstone.collections.large_merge import RANGE_BYTES, LargeMerge, LargeMerges, MergeRange
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.environment import Environment, SystemEnvironment
from siltstone.core.errors import CorruptDataError, SiltstoneError
from siltstone.core.records.collection_batch import CollectionRun
from siltstone.core.text import counted, uuid_text
from siltstone.pipelines.work import FAILED, OK, SAME, Executor, ItemOutcome, Step, packed, share_of
from siltstone.store.blocking.background_loop import BackgroundLoop
from siltstone.store.worker_store import worker_store

CHANGED: Final = "changed"
"""Others compacted meanwhile, so it stayed as it was."""

DAMAGED: Final = "damaged"
"""An object of rows is damaged, so it stayed as it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRangeWork:
    """Merges ranges of keys of one collection.

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
        with (
            closing(SystemEnvironment()) as environment,
            closing(worker_store(self.store, self.uuid, share_of(self.rate, openings))) as storage,
        ):
            yield partial(_merged, storage, environment)


def compact_collection(
    path: Path | str,
    name: str,
    executor: Executor,
    *,
    rate: int | None = None,
    range_bytes: int = RANGE_BYTES,
) -> Generator[ItemOutcome]:
    """Merge all batches of a collection into one, up to its since.

    Args:
        path: settings file of the store, or its folder, as workers see it.
        name: of the collection.
        executor: where ranges of keys are merged.
        rate: bytes a second that are read and written at most; ``None`` means no limit.
        range_bytes: of encoded rows in a range, about.

    Yields:
        For each range ``ok``, ``damaged`` or ``failed``. If all are ``ok``, one more for the
        collection: ``ok`` if it is one batch now, ``changed`` if others compacted meanwhile.
        ``same`` alone if it was one batch already. Where it is not ``ok`` all stays as it was.

    Raises:
        CollectionNotFoundError: there is no such collection.
        CollectionDroppedError: it was dropped.
        PipelineError: a worker could not begin at all, or ended unexpectedly.
        SiltstoneError: whatever opening the collections of a store raises.
    """
    store = str(Path(path).absolute())
    loop = BackgroundLoop(name="siltstone-compact")
    opened: AsyncCollections | None = None
    try:
        opened = loop.run(open_async_collections(path))
        collection = loop.run(opened.collection(name))
        merges = collection.large_merges
        large = loop.run(merges.planned(range_bytes))
        if large is None:
            yield ItemOutcome(subject=name, status=SAME, message="it is one batch")
            return
        work = MergeRangeWork(store=store, uuid=uuid_text(large.ticket.store_id), rate=rate)
        try:
            yield from _run(loop, merges, name, large, work, executor)
        finally:
            with suppress(SiltstoneError):  # It ends with its lease.
                loop.run(merges.end(large))
        loop.run(opened.settle())
    finally:
        try:
            if opened is not None:
                loop.run(opened.close())
        finally:
            loop.close()


def _run(
    loop: BackgroundLoop,
    merges: LargeMerges,
    name: str,
    large: LargeMerge,
    work: MergeRangeWork,
    executor: Executor,
) -> Generator[ItemOutcome]:
    runs: dict[int, CollectionRun] = {}
    with closing(executor.run(work, packed(large.ranges, executor.workers))) as outcomes:
        for outcome in outcomes:
            if outcome.status == OK:
                number, run = pickle.loads(outcome.detail)
                runs[number] = run
            yield ItemOutcome(
                subject=f"{name}: {outcome.subject} of {len(large.ranges)}",
                status=outcome.status,
                length=outcome.length,
                message=outcome.message,
            )
    if len(runs) < len(large.ranges):
        return
    if loop.run(merges.put(large, [runs[number] for number in range(len(runs))])):
        count = sum(map(len, runs.values()))
        message = f"{counted(count, 'part')} in place of {len(large.merge.inputs):,} batches"
        yield ItemOutcome(subject=name, status=OK, message=message)
    else:
        yield ItemOutcome(
            subject=name, status=CHANGED, message="others compacted it meanwhile; run it again"
        )


def _merged(storage: ChunkStorage, environment: Environment, item: MergeRange) -> ItemOutcome:
    subject = f"range {item.number + 1}"
    try:
        run = item.merged(storage, environment)
    except CorruptDataError as error:
        return ItemOutcome(subject=subject, status=DAMAGED, message=str(error))
    except SiltstoneError as error:
        return ItemOutcome(subject=subject, status=FAILED, message=str(error))
    return ItemOutcome(
        subject=subject, status=OK, length=item.size, detail=pickle.dumps((item.number, run))
    )
