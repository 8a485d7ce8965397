"""Scrub of collections: what they name, read from long-term storage and compared with its sums.

Objects of rows are items of a job, as chunks are. Entries, rollups and rows that are in them are
few and small, so the driver reads them, and also compares the states that they make.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from siltstone.collections.any_collection import store_has_collections
from siltstone.collections.consensus.object_names import COLLECTIONS_PREFIX
from siltstone.core.errors import SiltstoneError
from siltstone.core.storage.cached import uncached
from siltstone.core.storage.optional_verbs import PieceRoom
from siltstone.pipelines.scrub import DAMAGE, DAMAGED, GONE, MISSING
from siltstone.pipelines.store_view import StoreView
from siltstone.pipelines.whole_objects import ObjectItem, compare_object
from siltstone.pipelines.work import FAILED, OK, Executor, ItemOutcome, Step, packed, share_of
from siltstone.store.worker_store import worker_store

if TYPE_CHECKING:
    from siltstone.collections.blocking import Collections


@dataclass(frozen=True, slots=True, kw_only=True)
class PartWork:
    """Reads objects of rows and compares them with their sums; see ``ScrubWork``."""

    store: str
    uuid: str
    rate: int | None = None

    @contextmanager
    def open(self, openings: int = 1) -> Iterator[Step]:
        """Open long-term storage."""
        with closing(worker_store(self.store, self.uuid, share_of(self.rate, openings))) as storage:
            yield partial(compare_object, uncached(storage), PieceRoom())


def scrub_collections(
    view: StoreView,
    executor: Executor,
    done: Mapping[str, int] | None = None,
    *,
    rate: int | None = None,
) -> Generator[ItemOutcome]:
    """Read all that collections name, and yield what it was like; nothing where there are none.

    What seems wrong is looked up again at the end, and is ``gone`` if nothing needs it then.

    Args:
        view: the store.
        executor: where objects of rows are read.
        done: lengths of those that an earlier run has read, by their names.
        rate: bytes a second that are read of them at most; ``None`` means no limit.

    Yields:
        One outcome for each object of rows: ``ok``, ``missing``, ``short``, ``damaged``, ``gone``
        or ``failed``. One for each damage of other objects, and a last one, of ``collections/``:
        ``ok``, or ``failed`` where they could not be read.
    """
    if not store_has_collections(view.path, view.uuid):
        return
    try:
        from siltstone.collections.blocking.read_collections import collections_to_read

        with collections_to_read(view.path) as collections:
            yield from _scrubbed(view, collections, executor, done or {}, rate)
    except (SiltstoneError, ImportError) as error:
        yield ItemOutcome(subject=COLLECTIONS_PREFIX, status=FAILED, message=str(error))


def _scrubbed(
    view: StoreView,
    collections: Collections,
    executor: Executor,
    done: Mapping[str, int],
    rate: int | None,
) -> Iterator[ItemOutcome]:
    parts = collections.stored_parts()
    left = [
        ObjectItem(name=name, length=part.length, crc=part.crc)
        for name, part in sorted(parts.items())
        if done.get(name) != part.length
    ]
    work = PartWork(store=view.path, uuid=view.uuid, rate=rate)
    suspects: list[ItemOutcome] = []
    with closing(executor.run(work, packed(left, executor.workers))) as outcomes:
        for outcome in outcomes:
            if outcome.status in DAMAGE:
                suspects.append(outcome)
            else:
                yield outcome
    yield from _others(collections, parts.keys())
    yield from _judged(suspects, collections.stored_parts().keys() if suspects else ())
    yield ItemOutcome(subject=COLLECTIONS_PREFIX, status=OK)


def _others(collections: Collections, parts: Collection[str]) -> Iterator[ItemOutcome]:
    """What is wrong with other objects; and with parts that were named since."""
    for finding in collections.check(deep=True, reads_parts=False):
        if finding.severity == "damage" and finding.where not in parts:
            status = MISSING if finding.message == MISSING else DAMAGED
            yield ItemOutcome(subject=finding.where, status=status, message=finding.message)


def _judged(suspects: Sequence[ItemOutcome], needed: Collection[str]) -> Iterator[ItemOutcome]:
    """What is needed still is damaged: no name is used twice."""
    for outcome in suspects:
        if outcome.subject in needed:
            yield outcome
        else:
            message = "it was replaced meanwhile"
            yield ItemOutcome(subject=outcome.subject, status=GONE, message=message)
