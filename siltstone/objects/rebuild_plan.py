"""What a rebuild decides: which value segments count, what becomes of an object. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from siltstone.core.errors import LostDataError
from siltstone.objects.errors import UnsupportedError
from siltstone.objects.object_views import ObjectHead
from siltstone.objects.records.footer import HeaderNote, encode_footer
from siltstone.objects.records.head import Head
from siltstone.objects.records.rebuild_rows import Rebuild
from siltstone.objects.records.space_rows import (
    ManifestRow,
    Space,
    SpaceState,
    Strategy,
    ValueStatus,
)
from siltstone.objects.records.value_record import RecordHeader, ValueKind
from siltstone.objects.space_names import SegmentFate

if TYPE_CHECKING:
    from siltstone.objects.changes import Terms
    from siltstone.objects.value_log import FoundHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalc:
    """How a rebuild makes the index of the objects of a tag whose strategy is ``recalc``.

    Attributes:
        index: gets the head of an object, without its index, and the value, or ``None`` when it
            asks for none; returns by field the terms under which the object is found. It is called
            on the loop of the store, so it does not block.
        reads_value: whether it asks for values: a rebuild has to read all of them then.
    """

    index: Callable[[ObjectHead, bytes | None], Terms]
    reads_value: bool = False


def check_recalc(space: Space, recalc: Mapping[str, Recalc]) -> None:
    """Refuse functions that do not fit the tags. Raises ``UnsupportedError``."""
    wanted = {tag for tag, strategy in space.tags.items() if strategy is Strategy.RECALC}
    for tag in sorted(wanted - set(recalc)):
        raise UnsupportedError(f"the strategy of the tag {tag!r} is recalc: give its function")
    for tag in sorted(set(recalc) - wanted):
        raise UnsupportedError(f"the strategy of the tag {tag!r} is not recalc: it has no function")


def head_of(header: RecordHeader, place: tuple[int, int, int], now_s: float) -> Head | None:
    """The head that a record gives its object; ``None`` when the object is absent after it.

    Args:
        header: of the record.
        place: number of the value segment with the record, where the record begins in it, and how
            long it is, in bytes.
        now_s: by which objects have expired, seconds since 1970.
    """
    if header.kind is not ValueKind.STANDARD:
        return None
    number, offset, length = place
    head = Head(
        sqn=header.sqn,
        previous=header.previous,
        number=number,
        offset=offset,
        length=length,
        size=header.size,
        value_hash=header.value_hash,
        modified_ms=header.modified_ms,
        expires_s=header.expires_s,
        entries=header.entries,
        metadata=header.metadata,
        large=header.large,
    )
    return head if head.is_visible(now_s) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSegment:
    """A value segment as it was found, without a row that tells of it.

    Attributes:
        row: what its manifest row has to say; ``first_sqn`` is that of its first record.
        fate: what the compaction said that made it, or that it was compacted by.
    """

    row: ManifestRow
    fate: SegmentFate


def bare_row(
    number: int, found: Sequence[FoundHeader], notes: Sequence[HeaderNote], rest: bytes, where: str
) -> ManifestRow:
    """The row of a segment whose footer does not tell: it was never whole, or is damaged.

    Args:
        number: of the segment.
        found: its first and its last header.
        notes: of all its records.
        rest: what comes after the last record.
        where: the segment, for messages.

    Raises:
        LostDataError: what comes after the last record is no footer of them, so there may be more.
    """
    end = found[-1].offset + found[-1].header.record_length
    footer = encode_footer(notes, start=end, as_of=0, where=where)
    row = ManifestRow(
        number=number,
        status=ValueStatus.ROLLING,
        first_sqn=found[0].header.sqn,
        last_sqn=found[-1].header.sqn,
        length=end,
        records=len(notes),
    )
    if len(rest) == len(footer):
        return replace(row, status=ValueStatus.SEALED, footer_end=end + len(footer))
    if footer.startswith(rest):
        return row
    raise LostDataError("records of a value segment cannot be read", where=where, at=end)


def manifest_of_segments(found: Sequence[FoundSegment], *, where: str) -> list[ManifestRow]:
    """Choose the value segments that a manifest names, in the order of their SQNs.

    What a compaction made that never came to be named is left out. Those that one replaced are not
    to be given.

    Raises:
        LostDataError: two of them have the same SQNs, and nothing tells which one counts.
    """
    rows = sorted(
        (each.row for each in found if not _is_unnamed(each, found)),
        key=lambda row: row.first_sqn,
    )
    for before, after in pairwise(rows):
        if after.first_sqn <= before.last_sqn:
            raise LostDataError(
                "the manifest is lost, and nothing tells which of two value segments counts",
                where=where,
                numbers=(before.number, after.number),
            )
    return rows


def _is_unnamed(one: FoundSegment, found: Sequence[FoundSegment]) -> bool:
    """Whether a compaction made it, and ended before the manifest named it."""
    row = one.row
    return bool(row.as_of and one.fate is SegmentFate.NONE) and any(
        other.row.first_sqn <= row.last_sqn and row.first_sqn <= other.row.last_sqn
        for other in found
        if other is not one
    )


def state_after(rows: Sequence[ManifestRow], number_max: int) -> SpaceState:
    """The state in which a new segment takes the next records.

    Args:
        rows: of all segments, in the order of their SQNs.
        number_max: the highest number that was ever seen.
    """
    next_sqn = rows[-1].last_sqn + 1 if rows else 1
    return SpaceState(
        next_sqn=next_sqn,
        number=number_max + 1,
        first_sqn=next_sqn,
        length=0,
        records=0,
        next_number=number_max + 2,
    )


def with_number(now: Rebuild, number: int) -> Rebuild:
    """A rebuild after which this number of a large value is given to nothing else."""
    if number < now.state.next_number:
        return now
    return replace(now, state=replace(now.state, next_number=number + 1))
