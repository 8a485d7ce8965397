"""The last bytes before each position of a stream: their sum is in the checkpoint.

Tier 1 may be put back to an older copy within one epoch. Then what was appended later has the
offsets of what the stream has read, and a stream that continued would pass over some of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from siltstone.container.models.segments import SegmentInfo
from siltstone.core.errors import CorruptDataError, LogLostError
from siltstone.pipelines.last_block import Bytes, block_before, sums_of
from siltstone.pipelines.open_store import OpenStore
from siltstone.spark.stream_offsets import LastRead, Positions, StreamPosition

Infos = Mapping[str, SegmentInfo]
"""The segments that there are, by name."""


class LastReads:
    """Notes the sums of what a stream has read, and compares them with the store.

    What was compared is sure until another owner has claimed the container: tier 1 cannot be put
    back under one that lives.
    """

    def __init__(self) -> None:
        self._sure: dict[str, tuple[int, int, LastRead]] = {}

    async def check(self, store: OpenStore, infos: Infos, positions: Positions) -> None:
        """See that the store has the last bytes before each position, once for each owner.

        What was truncated is not compared, nor what an older checkpoint says nothing of.

        Raises:
            LogLostError: it has others.
            CorruptDataError: they are damaged.
        """
        ranges: list[Bytes] = []
        wanted: list[tuple[str, tuple[int, int, LastRead]]] = []
        for name, position in positions.items():
            info, last = infos.get(name), position.last
            if info is None or info.segment_id != position.segment_id or last is None:
                continue
            low = position.offset - last.length
            fact = await _epoch(store, name), position.offset, last
            if (
                self._sure.get(name) == fact
                or not info.start_offset <= low <= position.offset <= info.length
            ):
                continue
            ranges.append((info, low, position.offset))
            wanted.append((name, fact))
        for (name, fact), found in zip(wanted, await _sums(store, ranges), strict=True):
            _, offset, last = fact
            if found is not None and found != last.sum:
                raise LogLostError(
                    "the store has other bytes of this segment than the stream has read: its tier "
                    "1 was put back to an older copy, or it is another store, so what it has read "
                    "may be lost: begin with a new checkpoint",
                    segment=name,
                    start=offset - last.length,
                    end=offset,
                )
            if found is not None:
                self._sure[name] = fact

    async def noted(
        self, store: OpenStore, infos: Infos, before: Positions, positions: Positions
    ) -> dict[str, StreamPosition]:
        """Add the sums of what is before each position; one that has not moved stays as it is."""
        result: dict[str, StreamPosition] = {}
        ranges: list[Bytes] = []
        for name, position in positions.items():
            known, info = before.get(name), infos[name]
            low = block_before(info.start_offset, position.offset)
            same = known is not None and (known.segment_id, known.offset) == (
                position.segment_id,
                position.offset,
            )
            result[name] = replace(position, last=known.last if same and known else None)
            if not same and low < position.offset:
                ranges.append((info, low, position.offset))
        for (info, low, end), found in zip(ranges, await _sums(store, ranges), strict=True):
            if found is not None:
                last = LastRead(length=end - low, sum=found)
                result[info.name] = replace(result[info.name], last=last)
                self._sure[info.name] = await _epoch(store, info.name), end, last
        return result


async def _epoch(store: OpenStore, name: str) -> int:
    """Of the owner whose frames were seen last."""
    return (await store.container_of(name)).stats().epoch


async def _sums(store: OpenStore, ranges: list[Bytes]) -> list[int | None]:
    async def read(info: SegmentInfo, start: int, end: int) -> bytes:
        return await (await store.container_of(info.name)).read(info.name, start, end - start)

    found = []
    for one in await sums_of(ranges, read):
        if isinstance(one, CorruptDataError):
            raise one
        found.append(one)
    return found
