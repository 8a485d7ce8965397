"""Bytes of tails that a reader left in the log, fetched when a read asks for them.

The log verifies a frame whenever it is read. Its checksum tells whether it still is the frame whose
pieces the reader knows.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from siltstone.container.state.log_scan import LOG_POOL
from siltstone.container.state.tail import Fetch, LogSlice, TailPiece
from siltstone.core.constants import MIB, Buffer
from siltstone.core.environment import Environment
from siltstone.core.errors import CorruptDataError, LogLostError
from siltstone.core.fenced_log import LogReader

CACHE_BYTES_MAX: Final = 4 * MIB
"""Bodies of frames that are kept for the next read; one is kept however large it is."""

NEAR_INDEXES: Final = 16
"""Frames that are passed over to read on, rather than looked for again."""


class KeptTail:
    """Fetches from one log reader. Thread-safe, for calls run on threads of a pool."""

    def __init__(self, reader: LogReader, environment: Environment) -> None:
        self._reader = reader
        self._environment = environment
        self._lock = threading.Lock()
        self._bodies: OrderedDict[int, tuple[int, bytes]] = OrderedDict()
        self._size = 0

    def remember(self, index: int, crc: int, body: bytes) -> None:
        """Keep the body of a frame for a while: a reader that follows a log reads its end next."""
        with self._lock:
            known = self._bodies.pop(index, None)
            self._size += len(body) - (0 if known is None else len(known[1]))
            self._bodies[index] = crc, body
            while self._size > CACHE_BYTES_MAX and len(self._bodies) > 1:
                _, (_, old) = self._bodies.popitem(last=False)
                self._size -= len(old)

    async def fill(self, lacks: Sequence[Fetch]) -> None:
        """Fill the buffers.

        Raises:
            LogTruncatedError: the log forgot a frame: its bytes are in chunks by now.
            CorruptDataError: a frame is damaged.
            LogLostError: the log has another frame in its place.
        """
        await self._environment.run_blocking(LOG_POOL, partial(self._fill, lacks))

    async def whole(self, pieces: Sequence[TailPiece]) -> dict[LogSlice, Buffer]:
        """The bytes of pieces, in the order of their frames; raises as ``fill``."""
        slices = [piece.data for piece in pieces if isinstance(piece.data, LogSlice)]
        found: dict[LogSlice, Buffer] = {one: bytearray(len(one)) for one in slices}
        await self.fill([Fetch(one, 0, memoryview(data)) for one, data in found.items()])
        return found

    def _fill(self, lacks: Iterable[Fetch]) -> None:
        missing = []
        for lack in lacks:
            body = self._known(lack.source)
            if body is None:
                missing.append(lack)
            else:
                _copy(lack, body)
        missing.sort(key=lambda lack: lack.source.index)
        while missing:
            missing = self._read(missing)

    def _read(self, lacks: list[Fetch]) -> list[Fetch]:
        """Fill those that lie close to each other in the log; return the others."""
        done = 0
        for frame in self._reader.read(lacks[0].source.index):
            while done < len(lacks) and lacks[done].source.index == frame.index:
                lack = lacks[done]
                if frame.crc != lack.source.crc:
                    raise LogLostError(
                        "the log has another frame than was read of it before: it was put back to "
                        "an older copy, and another owner continued that",
                        index=frame.index,
                    )
                _copy(lack, frame.body)
                self.remember(frame.index, frame.crc, frame.body)
                done += 1
            if done == len(lacks) or lacks[done].source.index - frame.index > NEAR_INDEXES:
                break
        if not done:
            raise CorruptDataError("a frame vanished", where=f"frame {lacks[0].source.index}")
        return lacks[done:]

    def _known(self, source: LogSlice) -> bytes | None:
        with self._lock:
            known = self._bodies.get(source.index)
            if known is None or known[0] != source.crc:
                return None
            self._bodies.move_to_end(source.index)
            return known[1]


def _copy(lack: Fetch, body: bytes) -> None:
    begin = lack.source.start + lack.skip
    lack.buffer[:] = memoryview(body)[begin : begin + len(lack.buffer)]
