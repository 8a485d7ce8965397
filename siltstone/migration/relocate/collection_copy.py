"""Collections of one store, copied into another one, of any binding and any consensus.

A copy is made as of one entry of its source, and has another id, so nothing that was taken from the
source is mistaken for it. Objects of rows come first, then its first entry, and its name last.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from siltstone.collections.state.part_names import (
    name_of_part,
    object_parts,
    part_key,
    parts_prefix,
    with_nonces,
)
from siltstone.collections.state.restored import restored_state
from siltstone.core.errors import (
    CollectionExistsError,
    CollectionNotFoundError,
    CorruptDataError,
    LeaseExpiredError,
    SettingsError,
    SiltstoneError,
)
from siltstone.core.records.collection_part import CollectionPart
from siltstone.core.records.collection_state import CollectionState
from siltstone.core.text import counted, uuid_text
from siltstone.migration.relocate.part_copy import PartCopyWork, PartItem, nonce_of
from siltstone.migration.source.held_collections import held_collections
from siltstone.pipelines.copy_plan import CONFLICT
from siltstone.pipelines.scrub import DAMAGE, DAMAGED
from siltstone.pipelines.scrub_collections import PartWork
from siltstone.pipelines.whole_objects import ObjectItem
from siltstone.pipelines.work import FAILED, OK, SAME, Executor, ItemOutcome, packed

if TYPE_CHECKING:
    from siltstone.collections.blocking.held import BlockingHold
    from siltstone.collections.blocking.new_copies import BlockingCopies
    from siltstone.collections.held_collections import HeldCollection

SUBJECT: Final = "collection "
"""Before the name of a collection, in outcomes: a segment may have the same name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionCopies:
    """Which collections are copied, and how.

    Attributes:
        names: of them; without names, all whose names begin with ``prefix``.
        prefix: see above.
        bookmarks: whether copies keep bookmarks, which hold history until they are moved.
        is_pinned: whether the caller has pinned what the source shows, as a ``store_view`` does.
        rate: bytes a second that are read at most; ``None`` means no limit.
    """

    names: Sequence[str] = ()
    prefix: str = ""
    bookmarks: bool = True
    is_pinned: bool = False
    rate: int | None = None


def copy_collections(
    source: Path | str,
    target: Path | str,
    executor: Executor,
    chosen: CollectionCopies,
    *,
    made: list[str] | None = None,
) -> Generator[ItemOutcome]:
    """Copy collections, each as of one entry, with its history; those that are there stay.

    A copy keeps rows, times, schemas and sequences of named writers. A call that died leaves no
    collection that has a name and lacks something; the next one uses what it has brought.

    Args:
        source: settings file of a store, or its folder; any process may work on it.
        target: the same of the other store. Where its collections are in a table, it is claimed.
        executor: where objects of rows are copied.
        chosen: which collections.
        made: gets the names of those that the target has now; ``None`` if that is not asked.

    Yields:
        One outcome for each: ``ok``; ``same`` if its copy is there; ``conflict`` if the target has
        another collection of its name, or a copy of an earlier entry; ``damaged`` or ``missing`` if
        it cannot be read; ``failed``.

    Raises:
        SettingsError: source and target are the same store.
        CollectionNotFoundError: the source has none of a name.
        StoreInUseError: the target is in use, and has its collections in a table.
        LeaseExpiredError: objects were deleted meanwhile, since this process stood still.
        PipelineError: a worker could not begin at all, or ended unexpectedly.
        SiltstoneError: whatever opening the collections of a store raises.
    """
    with held_collections(source, is_pinned=chosen.is_pinned) as hold:
        found = [] if hold is None else _chosen(hold, chosen)
        if hold is None or not (found or hold.damaged):
            return
        yield from _damaged(hold, chosen)
        from siltstone.collections.blocking.new_copies import open_copies

        with open_copies(target) as copies:
            if copies.store_id == hold.store_id:
                raise SettingsError("a store is not copied into itself")
            copying = _Copying(source, target, hold, copies, executor, chosen)
            for one in found:
                outcome = copying.outcome(one)
                if made is not None and outcome.status in (OK, SAME):
                    made.append(one.row.name)
                yield outcome


def verify_collections(
    store: Path | str, names: Sequence[str], executor: Executor, *, rate: int | None = None
) -> Generator[ItemOutcome]:
    """Read every object of rows of collections, and compare it with the sum of its source.

    Args:
        store: settings file of the store that has the copies, or its folder.
        names: of the copies.
        executor: where objects are read.
        rate: bytes a second that are read at most; ``None`` means no limit.

    Yields:
        One outcome for each object: ``ok``, ``missing``, ``short``, ``damaged`` or ``failed``.
    """
    if not names:
        return
    with held_collections(store) as hold:
        assert hold is not None, "it has copies"
        items = [
            ObjectItem(name=name, length=part.length, crc=part.crc)
            for one in _chosen(hold, CollectionCopies(names=names))
            for name, part in object_parts(one.state).items()
        ]
        path = str(Path(store).absolute())
        work = PartWork(store=path, uuid=uuid_text(hold.store_id), rate=rate)
        with closing(executor.run(work, packed(items, executor.workers))) as outcomes:
            yield from outcomes


def lacking_bytes(source: Path | str, chosen: CollectionCopies) -> int:
    """Bytes of objects of rows in the collections that are to be copied. Raises as a copy does."""
    with held_collections(source, is_pinned=chosen.is_pinned) as hold:
        found = [] if hold is None else _chosen(hold, chosen)
        return sum(part.length for one in found for part in object_parts(one.state).values())


def _chosen(hold: BlockingHold, chosen: CollectionCopies) -> list[HeldCollection]:
    found = {one.row.name: one for one in hold.found}
    for name in chosen.names:
        if name not in found and f"{SUBJECT}{name}" not in hold.damaged:
            raise CollectionNotFoundError("no such collection", collection=name)
    wanted = chosen.names or [name for name in found if name.startswith(chosen.prefix)]
    return [found[name] for name in dict.fromkeys(wanted) if name in found]


def _damaged(hold: BlockingHold, chosen: CollectionCopies) -> Generator[ItemOutcome]:
    for subject, message in hold.damaged.items():
        name = subject.removeprefix(SUBJECT)
        if name == subject or (
            name in chosen.names if chosen.names else name.startswith(chosen.prefix)
        ):
            yield ItemOutcome(subject=subject, status=DAMAGED, message=message)


class _Copying:
    def __init__(
        self,
        source: Path | str,
        target: Path | str,
        hold: BlockingHold,
        copies: BlockingCopies,
        executor: Executor,
        chosen: CollectionCopies,
    ) -> None:
        self._hold = hold
        self._copies = copies
        self._executor = executor
        self._bookmarks = chosen.bookmarks
        self._work = PartCopyWork(
            source=str(Path(source).absolute()),
            uuid=uuid_text(hold.store_id),
            target=str(Path(target).absolute()),
            target_uuid=uuid_text(copies.store_id),
            rate=chosen.rate,
        )

    def outcome(self, one: HeldCollection) -> ItemOutcome:
        """Copy one collection, and say what became of it."""
        subject, name = f"{SUBJECT}{one.row.name}", one.row.name
        try:
            plan = self._copies.plan(name, one.state)
            if plan.new_id is None:
                assert plan.upper is not None, "it is there"
                if plan.upper >= one.state.upper:
                    return ItemOutcome(subject=subject, status=SAME)
                message = "the target has a copy of an earlier entry: rename it or drop it"
                return ItemOutcome(subject=subject, status=CONFLICT, message=message)
            return self._copied(subject, one, plan.new_id)
        except CollectionExistsError as error:
            return ItemOutcome(subject=subject, status=CONFLICT, message=str(error))
        except LeaseExpiredError:
            raise
        except CorruptDataError as error:
            return ItemOutcome(subject=subject, status=FAILED, message=f"in the target: {error}")
        except SiltstoneError as error:
            return ItemOutcome(subject=subject, status=FAILED, message=str(error))

    def _copied(self, subject: str, one: HeldCollection, new_id: bytes) -> ItemOutcome:
        parts = object_parts(one.state)
        nonces, wrong = self._bring(new_id, parts)
        if wrong is not None:
            self._hold.check()
            message = f"{wrong.subject}: {wrong.message}"
            return ItemOutcome(subject=subject, status=wrong.status, message=message)
        first = self._first(one.state, parts, nonces, new_id)
        self._copies.make(one.row, first)
        size = sum(part.length for part in parts.values())
        message = f"{counted(len(parts), 'object')} of rows"
        return ItemOutcome(subject=subject, status=OK, length=size, message=message)

    def _bring(
        self, new_id: bytes, parts: Mapping[str, CollectionPart]
    ) -> tuple[dict[str, int], ItemOutcome | None]:
        """Copy objects of rows; return the nonces of their copies, and what went wrong first."""
        lengths = self._copies.lengths(parts_prefix(new_id))
        items = [
            PartItem(
                name=name,
                new_id=new_id,
                part=part,
                found=lengths.get(part_key(new_id, name_of_part(part))),
            )
            for name, part in sorted(parts.items())
        ]
        nonces: dict[str, int] = {}
        wrong: ItemOutcome | None = None
        packs = packed(items, self._executor.workers)
        with closing(self._executor.run(self._work, packs)) as outcomes:
            for outcome in outcomes:
                if outcome.status in DAMAGE or outcome.status == FAILED:
                    wrong = wrong or outcome
                else:
                    nonces[outcome.subject] = nonce_of(outcome)
        return nonces, wrong

    def _first(
        self,
        state: CollectionState,
        parts: Mapping[str, CollectionPart],
        nonces: Mapping[str, int],
        new_id: bytes,
    ) -> CollectionState:
        other = {
            name_of_part(part): nonces[name]
            for name, part in parts.items()
            if nonces[name] != part.nonce
        }
        return restored_state(with_nonces(state, other), new_id, bookmarks=self._bookmarks)
