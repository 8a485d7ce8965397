"""What this owner remembers of its chunks beyond their rows. It is lost with the owner, and may be.

It also remembers what went wrong at long-term storage without being an error of any call.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable

from siltstone.core.errors import ChunkError, SiltstoneError
from siltstone.core.layout_store import NewChunk

_COUNTED_MAX = 10_000
_OPEN_MAX = 100_000


class ChunkMemory:
    """Chunks never to be appended to again, appends made so far, and names that came to nothing."""

    def __init__(self) -> None:
        self._spoilt: set[int] = set()
        self._appends: OrderedDict[int, int] = OrderedDict()
        self._open: OrderedDict[int, None] = OrderedDict()
        self._abandoned: list[NewChunk] = []

    def spoil(self, chunk_id: int) -> None:
        """Never append to this chunk again: it has, or may get, bytes that no row knows."""
        self._spoilt.add(chunk_id)

    def is_spoilt(self, chunk_id: int) -> bool:
        """Whether ``spoil`` was called and the row does not say closed yet."""
        return chunk_id in self._spoilt

    def forget(self, chunk_ids: Iterable[int]) -> None:
        """Drop what is known of chunks whose rows say closed, or are gone."""
        for chunk_id in chunk_ids:
            self._spoilt.discard(chunk_id)
            self._appends.pop(chunk_id, None)

    def count_write(self, chunk_id: int) -> None:
        """Count one ``create`` or ``write``. Counts of chunks not written for long are dropped."""
        self._appends[chunk_id] = self._appends.pop(chunk_id, 0) + 1
        if len(self._appends) > _COUNTED_MAX:
            self._appends.popitem(last=False)

    def writes(self, chunk_id: int) -> int | None:
        """How often the chunk was written, ``None`` when it is not known any more."""
        return self._appends.get(chunk_id)

    def note_end(self, segment_id: int, *, is_open: bool) -> None:
        """Note whether a segment now ends in a chunk that may be appended to.

        Of very many segments the ones not written for longest are forgotten.
        """
        self._open.pop(segment_id, None)
        if is_open:
            self._open[segment_id] = None
            if len(self._open) > _OPEN_MAX:
                self._open.popitem(last=False)

    def has_open_chunk(self, segment_id: int) -> bool:
        """Whether the segment was last known to end in such a chunk. A hint: the rows decide."""
        return segment_id in self._open

    def abandon(self, chunks: Iterable[NewChunk]) -> None:
        """Remember names that may exist on storage and will never be committed."""
        self._abandoned.extend(chunks)

    def take_abandoned(self) -> list[NewChunk]:
        """Return what was abandoned since the last call."""
        taken, self._abandoned = self._abandoned, []
        return taken


logger = logging.getLogger(__name__)


class Mishaps:
    """What went wrong since this object was made.

    Attributes:
        seal_error: why the last closed chunk was not sealed; ``None`` once a seal succeeded again.
        read_backs_failed: count of writes that were repeated elsewhere because what was read back
            was not what was written, or could not be read.
    """

    __slots__ = ("read_backs_failed", "seal_error")

    def __init__(self) -> None:
        self.seal_error: SiltstoneError | None = None
        self.read_backs_failed = 0

    def seal_failed(self, error: SiltstoneError) -> None:
        """Note a chunk that stays unsealed."""
        self.seal_error = error
        logger.warning("chunk cannot be sealed: %s", error)

    def read_back_failed(self, error: ChunkError) -> None:
        """Count a write whose bytes did not come back."""
        self.read_backs_failed += 1
        logger.error("written bytes did not come back: %s", error)
