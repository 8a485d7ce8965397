"""Whether the large values of a keyspace are there: their rows, their segments, and their bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, NamedTuple

from siltstone.container.models.segments import Finding
from siltstone.core.errors import SegmentNotFoundError, SegmentTruncatedError
from siltstone.objects.errors import LostObjectError
from siltstone.objects.large_values import LargeValue
from siltstone.objects.object_views import NoteLoss, forget_loss, lost
from siltstone.objects.records.keys import LargeStatus, large_key
from siltstone.objects.row_check import damage, object_text

if TYPE_CHECKING:
    from siltstone.objects.records.head import Head
    from siltstone.objects.records.keys import ObjectKey
    from siltstone.objects.records.large_place import LargePlace
    from siltstone.objects.records.large_row import LargeRow
    from siltstone.objects.space_names import SpaceNames
    from siltstone.store.async_store import AsyncStore


class SeenLarge(NamedTuple):
    """An object whose value is a large one.

    Attributes:
        key: of the object.
        head: of the object.
        place: where the head says that the value lies.
    """

    key: ObjectKey
    head: Head
    place: LargePlace


class LargeCheck:
    """Compares large values with rows and segments. Rows are noted first, and then heads.

    Args:
        store: of the keyspace.
        names: of the keyspace.
        next_number: of the next value segment or large value, at the moment that is looked at.
        note: told the objects whose values are lost.
    """

    def __init__(
        self,
        store: AsyncStore,
        names: SpaceNames,
        next_number: int,
        note: NoteLoss = forget_loss,
    ) -> None:
        self._note_loss = note
        self._store = store
        self._names = names
        self._next_number = next_number
        self._rows: dict[int, tuple[LargeStatus, LargeRow]] = {}
        self._seen: dict[int, SeenLarge] = {}

    def note_row(self, status: LargeStatus, number: int, row: LargeRow) -> None:
        """Note a row about a large value."""
        self._rows[number] = (status, row)

    def note_head(self, seen: SeenLarge) -> Iterator[Finding]:
        """Note an object, and yield what is wrong with the row of its value."""
        number, head = seen.place.number, seen.head
        where = object_text(self._names, seen.key)
        if number in self._seen:
            yield damage(where, "another object has its large value", number=number)
        self._seen[number] = seen
        status, row = self._rows.get(number, (None, None))
        if status is not LargeStatus.LIVE or row is None:
            yield damage(where, "no row keeps its large value", number=number)
        elif (row.sqn, row.size) != (head.sqn, head.size):
            yield damage(where, "the row of its large value is another one's", number=number)

    async def findings(self, *, deep: bool) -> AsyncIterator[Finding]:
        """Yield what is wrong with segments, after all rows and heads were noted."""
        for number, (status, _) in self._rows.items():
            if status is LargeStatus.LIVE and number not in self._seen:
                where = self._names.large_segment(number)
                yield Finding(
                    severity="warning", where=where, message="it is kept, and no object has it"
                )
        lengths = {info.name: info.length async for info in self._store.list(self._prefix)}
        for number, seen in self._seen.items():
            segment = self._names.large_segment(number)
            wanted = seen.head.size + seen.place.sums_bytes(seen.head.size)
            length = lengths.pop(segment, None)
            if length == wanted:
                if deep:
                    async for finding in self._read(seen):
                        yield finding
            elif await self._is_live(number):
                where = object_text(self._names, seen.key)
                what = "gone" if length is None else f"cut: length={length} wanted={wanted}"
                self._note_loss(seen.key, lost(seen.key, seen.head, segment, what))
                yield damage(where, f"its large value is {what}", segment=segment)
        named = {self._names.large_segment(number) for number in self._rows}
        for name in sorted(set(lengths) - named):
            found = self._names.number_of_large(name)
            if found is None:
                yield Finding(severity="warning", where=name, message="it is no large value")
            elif found < self._next_number:
                yield Finding(severity="garbage", where=name, message="no row names it")

    @property
    def _prefix(self) -> str:
        return self._names.large_values

    async def _read(self, seen: SeenLarge) -> AsyncIterator[Finding]:
        segment = self._store.segment(self._names.large_segment(seen.place.number))
        value = LargeValue(segment, seen.key, seen.head, seen.place)
        try:
            async for _ in value.parts():
                pass
        except LostObjectError as error:
            self._note_loss(seen.key, error)
            yield damage(object_text(self._names, seen.key), str(error))
        except (SegmentNotFoundError, SegmentTruncatedError) as error:
            if await self._is_live(seen.place.number):
                self._note_loss(seen.key, lost(seen.key, seen.head, segment.name, str(error)))
                yield damage(object_text(self._names, seen.key), f"its value is lost: {error}")

    async def _is_live(self, number: int) -> bool:
        """Whether the value is needed now, too: it may have been replaced meanwhile."""
        table = self._store.table(self._names.ledger)
        return await table.get(large_key(LargeStatus.LIVE, number)) is not None
