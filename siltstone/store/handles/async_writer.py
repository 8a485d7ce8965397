"""An exactly-once writer as asyncio applications hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.core.bytes_like import as_bytes
from siltstone.store.handles.arguments import check_offset
from siltstone.store.handles.container_slot import Handle

if TYPE_CHECKING:
    from typing import SupportsIndex

    from siltstone.container.models.segments import WriterInfo
    from siltstone.core.bytes_like import BytesLike
    from siltstone.store.handles.container_slot import ContainerSlot


class AsyncWriter(Handle):
    """Appends that may be repeated: a sequence that was appended before returns its offset again.

    Attributes:
        segment: name of the segment.
        name: of the writer.
        sequence: the last acknowledged sequence when the writer was registered, -1 before the
            first. ``segment.writers()`` and ``segment.writer(name)`` tell the newest.
    """

    __slots__ = ("_number", "name", "segment", "sequence")

    def __init__(self, slot: ContainerSlot, segment: str, info: WriterInfo) -> None:
        self.segment = segment
        self.name = info.name
        self.sequence = info.sequence
        self._number = info.number
        super().__init__(slot)

    def __repr__(self) -> str:
        return f"AsyncWriter({self.segment!r}, {self.name!r})"

    async def append(self, data: BytesLike, *, sequence: SupportsIndex) -> int:
        """Append ``data`` once, however often this is called with one ``sequence``.

        Args:
            data: at most what fits in one frame; not empty.
            sequence: grows strictly from append to append; gaps are fine.

        Returns:
            The offset where the bytes begin, also when they were appended before.

        Raises:
            SequenceError: older than the newest one, so what became of it is unknown; or the newest
                one with other bytes.
            WriterExpiredError: register the writer again and compare its sequence.
            SegmentSealedError, BackPressureError, SafeModeError, StorageFullError: a sequence that
                is new was refused; nothing was appended.
        """
        number = check_offset(sequence, what="sequence")
        kept = as_bytes(data)
        if not kept:
            raise ValueError("an exactly-once append needs at least one byte")
        return await self._container.append_as(self.segment, self._number, number, kept)
