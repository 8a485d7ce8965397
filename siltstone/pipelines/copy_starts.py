"""Where the copies of segments continue: missing ones are made, the others are compared.

A copy continues after the bytes that it has. The last block of those is compared with the source's:
tier 1 may have been put back to an older copy since, within one epoch, and what was appended then
has the offsets of what was copied before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from siltstone.container.models.segments import SegmentInfo
from siltstone.core.constants import container_of
from siltstone.core.errors import AttributeLimitError, CorruptDataError, SegmentNotFoundError
from siltstone.pipelines.copy_plan import (
    CONFLICT,
    MARK,
    UNREADABLE,
    CopyOrigin,
    origin_of,
    problem_of,
)
from siltstone.pipelines.copy_recovered import difference_since
from siltstone.pipelines.import_sessions import NotedRanges
from siltstone.pipelines.last_block import block_before, last_block, sums_of
from siltstone.pipelines.owned_store import OwnedStore
from siltstone.pipelines.store_view import StoreView
from siltstone.pipelines.work import ItemOutcome

AT_ONCE: Final = 256
"""Segments of which the last blocks are compared at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where a copy continues.

    Attributes:
        offset: in the source.
        low: the bytes from here to ``offset`` are compared.
        base: offset in the source of the copy's first byte.
    """

    offset: int
    low: int
    base: int


def starts(
    view: StoreView, target: OwnedStore, segments: Sequence[SegmentInfo]
) -> Iterator[tuple[SegmentInfo, ItemOutcome | int]]:
    """Yield from which offset of the source each copy continues, or what keeps it from that.

    Copies that are missing are made, without bytes.
    """
    for first in range(0, len(segments), AT_ONCE):
        some = segments[first : first + AT_ONCE]
        found = [(info, _prepared(view, target, info)) for info in some]
        known = [(info, start) for info, start in found if isinstance(start, Start)]
        refused = _differences(view, target, known)
        for info, start in found:
            if isinstance(start, ItemOutcome):
                yield info, start
            else:
                yield info, refused.get(info.name, start.offset)


def _differences(
    view: StoreView, target: OwnedStore, known: Sequence[tuple[SegmentInfo, Start]]
) -> dict[str, ItemOutcome]:
    """What keeps copies from continuing whose last block differs from the source's."""
    compared = [(info, start) for info, start in known if start.low < start.offset]
    ours = view.sums([(info, start.low, start.offset) for info, start in compared])

    async def read(info: SegmentInfo, low: int, high: int) -> bytes:
        container = target.containers[container_of(info.name, len(target.containers))]
        return await container.read(info.name, low, high - low)

    there = [(info, one.low - one.base, one.offset - one.base) for info, one in compared]
    theirs = target.loop.run(sums_of(there, read))
    refused = {}
    for (info, start), our, their in zip(compared, ours, theirs, strict=True):
        damage = next((one for one in (our, their) if isinstance(one, CorruptDataError)), None)
        if damage is not None:
            refused[info.name] = ItemOutcome(
                subject=info.name, status=UNREADABLE, message=str(damage)
            )
        elif our != their and isinstance(our, int) and isinstance(their, int):
            message = (
                f"the source has other bytes than the copy between {start.low} and {start.offset}: "
                "its tier 1 was put back to an older copy, or it is another store; "
                "remove the copy, and repeat"
            )
            refused[info.name] = ItemOutcome(subject=info.name, status=CONFLICT, message=message)
    return refused


def noted_differs(view: StoreView, infos: Sequence[SegmentInfo], noted: NotedRanges) -> bool:
    """Whether the source has other bytes now than those that a killed copy has brought and noted.

    Of each segment the last block is compared.
    """
    wanted, sums = [], []
    for info in infos:
        ranges = [key for key in noted.known if key[0] == info.name]
        if not ranges:
            continue
        key = max(ranges, key=lambda one: one[1])
        *before, chunk = noted.known[key]
        begin = key[1] + sum(one.length for one in before)
        assert chunk.sums, "what is copied has sums"
        wanted.append((info, *last_block(begin, chunk.length)))
        sums.append(chunk.sums[-1])
    found = view.sums(wanted)
    return any(isinstance(one, int) and one != sum for one, sum in zip(found, sums, strict=True))


def target_info(target: OwnedStore, name: str) -> SegmentInfo | None:
    """The segment of this name in the target, if there is one."""
    container = target.containers[container_of(name, len(target.containers))]
    try:
        return target.loop.run(container.info(name))
    except SegmentNotFoundError:
        return None


def _prepared(view: StoreView, target: OwnedStore, info: SegmentInfo) -> ItemOutcome | Start:
    """Make the segment in the target if it is not there; return where the copy continues."""
    there = target_info(target, info.name)
    if there is not None:
        found = problem_of(info, there, view.uuid)
        if isinstance(found, int):
            try:
                found = difference_since(view, target, info, there) or found
            except CorruptDataError as error:
                return ItemOutcome(subject=info.name, status=UNREADABLE, message=str(error))
        if isinstance(found, str):
            return ItemOutcome(subject=info.name, status=CONFLICT, message=found)
        origin = origin_of(there.attributes[MARK])
        assert origin is not None, "it is known as a copy"
        low = block_before(max(info.start_offset, origin.base + there.start_offset), found)
        return Start(offset=found, low=low, base=origin.base)
    origin = CopyOrigin(
        store=view.uuid,
        segment_id=info.segment_id,
        base=info.start_offset,
        lineage=view.lineage_of(info),
    )
    attributes = {**info.attributes, MARK: origin.text()}
    container = target.containers[container_of(info.name, len(target.containers))]
    try:
        target.loop.run(container.create(info.name, exist_ok=False, attributes=attributes))
    except AttributeLimitError as error:
        return ItemOutcome(subject=info.name, status=CONFLICT, message=str(error))
    return Start(offset=info.start_offset, low=info.start_offset, base=info.start_offset)
