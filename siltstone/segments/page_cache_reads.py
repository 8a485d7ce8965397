"""Reads of flushed bytes that this machine has in memory, by whichever thread asks for them.

A *place* is what the rows said of a run of a segment's bytes when it was last read in the ordinary
way. While no row has changed, which the keeper of the place has to know, a read within it asks no
row, no loop and no other thread. It makes the same checks as the ordinary one. Whatever is not as
it should be, such as bytes that are not in memory, another version of the chunk or a block that
does not match its sum, is no answer here: the ordinary read tells what it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from siltstone.core.constants import BLOCK_BYTES, GROUP_BLOCKS, MIB
from siltstone.core.records.chunk import Chunk
from siltstone.core.storage.block_reads import NOW_BYTES_MAX, BlockRange, read_part_now
from siltstone.core.storage.optional_verbs import ReadNow
from siltstone.segments.context import Context
from siltstone.segments.read import plan_extent

NEAR_BYTES_MAX: Final = NOW_BYTES_MAX
"""Most bytes that the loop's own thread reads so: no other task is served meanwhile."""

SHARE_BYTES_MIN: Final = 2 * MIB
"""To share fewer with another thread takes longer than to read them."""

_PART_BYTES: Final = MIB
"""What is read and then verified at a time."""

Share = Callable[[Callable[[], None]], Callable[[], None]]
"""Offers work that never raises to another thread; returns what waits for its end, if it began."""


@dataclass(frozen=True, slots=True)
class ReadPlace:
    """Where readable bytes ``[start, end)`` of a segment lie, all in one chunk.

    Attributes:
        segment_id: the segment.
        start: first offset.
        end: offset after the last byte.
        shift: what makes an offset in the segment one in the chunk, when it is added.
        chunk: the chunk's row.
        sums: sums of its blocks, by group; those that a read has looked up.
        near: reads there.
    """

    segment_id: int
    start: int
    end: int
    shift: int
    chunk: Chunk
    sums: dict[int, tuple[int, ...]]
    near: NearReads

    def read(self, offset: int, buffer: memoryview | bytearray) -> bool:
        """Fill ``buffer``, of at most ``NEAR_BYTES_MAX`` bytes, and say whether that was done.

        Args:
            offset: in the segment; all that is asked for lies in the place.
            buffer: of bytes; undefined when they could not be read.
        """
        near = self.near
        if near.ahead.wants(self.segment_id, offset):
            return False
        done = near.read_one(self, offset + self.shift, buffer, NOW_BYTES_MAX)
        if done:
            near.ahead.quick()
        return done

    def read_all(self, offset: int, view: memoryview, share: Share) -> bool:
        """Read any number of bytes as ``read`` does; not for the thread of a loop."""
        near = self.near
        if near.ahead.wants(self.segment_id, offset):
            return False
        done = near.read_parts(self, offset + self.shift, view, share)
        if done:
            near.ahead.quick()
        return done

    def read_unverified(self, offset: int, buffer: memoryview | bytearray) -> bool:
        """Fill ``buffer`` as ``read`` does, of any length, and compare nothing.

        For callers who verify the bytes themselves. Of an older row they may be other ones.
        """
        near = self.near
        if near.read_now(self.chunk.name, offset + self.shift, buffer) is None:
            return False
        near.ahead.quick()
        return True


class NearReads:
    """Finds places and reads there. Finding is for the loop, reading for any thread.

    Args:
        context: tools of the segment layer.
        read_now: reads what is in memory.

    Attributes:
        ahead: what is read ahead of readers.
        read_now: the same; nothing is compared.
    """

    def __init__(self, context: Context, read_now: ReadNow) -> None:
        self.read_now = read_now
        self.ahead = context.ahead
        self._context = context
        self._blocks = context.blocks
        mode = context.settings.verify_reads
        self._verifies = mode != "never"
        self._remembers = mode == "remembered" and context.storage.capabilities.append

    def find(self, segment_id: int, offset: int) -> ReadPlace | None:
        """The place of the byte at ``offset``, as the rows say now; ``None`` if it is not shown."""
        context = self._context
        state = context.layouts.state(segment_id)
        if state is None or state.deleted:
            return None
        extents = context.layouts.extents(segment_id, offset, offset + 1, 1)
        chunk = context.layouts.chunk(extents[0].chunk_id) if extents else None
        if chunk is None:
            return None
        extent = extents[0]
        start = max(extent.start, state.start_offset)
        # A concat may have put extents there that are not shown yet.
        end = min(extent.end, context.layouts.layout(segment_id).storage_length)
        if not start <= offset < end or extent.chunk_offset + extent.length > chunk.length:
            return None
        shift = extent.chunk_offset - extent.start
        return ReadPlace(segment_id, start, end, shift, chunk, {}, self)

    def holds(self, segment_id: int, offset: int) -> bool:
        """Whether this machine has the flushed byte at ``offset`` in memory."""
        place = self.find(segment_id, offset)
        if place is None:
            return False
        return self.read_now(place.chunk.name, offset + place.shift, bytearray(1)) is not None

    def learn(self, place: ReadPlace, offset: int, end: int) -> None:
        """Look the sums up that a read of ``[offset, end)`` of the place needs."""
        if not self._verifies:
            return
        first = (offset + place.shift) // BLOCK_BYTES // GROUP_BLOCKS
        last = (end - 1 + place.shift) // BLOCK_BYTES // GROUP_BLOCKS
        for group in range(first, last + 1):
            if group not in place.sums:
                place.sums[group] = self._context.layouts.sums(place.chunk.chunk_id, group)

    def read_one(
        self, place: ReadPlace, begin: int, buffer: memoryview | bytearray, most: int
    ) -> bool:
        """Fill ``buffer`` from ``begin`` in the chunk; verify at most ``most`` bytes of blocks."""
        chunk = place.chunk
        known = self._known(chunk, begin, begin + len(buffer))
        if known is not None:
            version = self.read_now(chunk.name, begin, buffer)
            if version == known or version is None:
                return version is not None
        return self._read_verified(place, begin, memoryview(buffer), most)

    def read_parts(self, place: ReadPlace, begin: int, view: memoryview, share: Share) -> bool:
        """Fill ``view`` from ``begin`` in the chunk, part by part, maybe on two threads."""
        todo = iter(list(plan_extent(place.chunk, begin, begin + len(view), 0, _PART_BYTES)))
        failed: list[bool] = []

        def work() -> None:
            for part in todo:
                if failed:
                    return
                target = view[part.position : part.position + part.length]
                if not self.read_one(place, part.offset, target, part.length + 2 * BLOCK_BYTES):
                    failed.append(True)

        def help_out() -> None:
            try:
                work()
            except BaseException:  # noqa: BLE001 - the ordinary read meets it again, and tells
                failed.append(True)

        if len(view) < SHARE_BYTES_MIN:
            work()
            return not failed
        wait = share(help_out)
        try:
            work()
        except BaseException:
            failed.append(True)
            raise
        finally:
            wait()
        return not failed

    def _known(self, chunk: Chunk, begin: int, end: int) -> str | None:
        """The version in which the blocks of ``[begin, end)`` were verified, if that counts.

        Whole blocks are verified each time.
        """
        if self._remembers and (begin % BLOCK_BYTES or (end % BLOCK_BYTES and end != chunk.length)):
            return self._blocks.version(chunk.name, begin // BLOCK_BYTES, -(-end // BLOCK_BYTES))
        return None

    def _read_verified(self, place: ReadPlace, begin: int, view: memoryview, most: int) -> bool:
        """Read and compare whole blocks, whatever is remembered of them."""
        chunk, end = place.chunk, begin + len(view)
        if not self._verifies:
            return self.read_now(chunk.name, begin, view) is not None
        first, stop = begin // BLOCK_BYTES, -(-end // BLOCK_BYTES)
        sums = _sums(place, first, stop)
        if sums is None:
            return False
        blocks = BlockRange(
            name=chunk.name,
            chunk_length=chunk.length,
            offset=begin,
            length=len(view),
            sums=sums,
        )
        if begin == blocks.start and end == blocks.end:
            return self.read_now(chunk.name, begin, view) is not None and blocks.match(view)
        version = read_part_now(
            self.read_now, blocks, view, self._context.scratch, known=None, most=most
        )
        if version is None:
            return False
        # The last block of a chunk that still grows has a sum of only what it holds now.
        if self._remembers and (chunk.closed or stop * BLOCK_BYTES <= chunk.length):
            self._blocks.remember(chunk.name, version, first, stop)
        return True


def _sums(place: ReadPlace, first: int, stop: int) -> tuple[int, ...] | None:
    """Sums of blocks ``[first, stop)`` of the chunk, if they were looked up."""
    found: tuple[int, ...] = ()
    while (block := first + len(found)) < stop:
        group, index = divmod(block, GROUP_BLOCKS)
        more = place.sums.get(group, ())[index : index + stop - block]
        if not more:
            return None
        found += more
    return found
