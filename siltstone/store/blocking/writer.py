"""The writers of blocking applications: exactly-once, and of many small events."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from weakref import WeakSet

from siltstone.core.bytes_like import as_bytes
from siltstone.core.closed_on_exit import Closing
from siltstone.core.errors import ClosedError

if TYPE_CHECKING:
    from typing import SupportsIndex

    from siltstone.core.bytes_like import BytesLike
    from siltstone.store.blocking.background_loop import BackgroundLoop
    from siltstone.store.handles.async_buffered_writer import AsyncBufferedWriter
    from siltstone.store.handles.async_writer import AsyncWriter


class Writer:
    """Appends that may be repeated. See ``AsyncWriter``."""

    __slots__ = ("_loop", "_writer")

    def __init__(self, loop: BackgroundLoop, writer: AsyncWriter) -> None:
        self._loop = loop
        self._writer = writer

    @property
    def name(self) -> str:
        """The writer's name."""
        return self._writer.name

    @property
    def sequence(self) -> int:
        """The last acknowledged sequence when the writer was registered, -1 before the first."""
        return self._writer.sequence

    def __repr__(self) -> str:
        return f"Writer({self._writer.segment!r}, {self.name!r})"

    def append(self, data: BytesLike, *, sequence: SupportsIndex) -> int:
        """Append ``data`` once, however often this is called with one ``sequence``."""
        return self._loop.run(self._writer.append(as_bytes(data), sequence=sequence))


_writers: WeakSet[BufferedWriter] = WeakSet()


class BufferedWriter(Closing):
    """Takes events of any thread at once. See ``AsyncBufferedWriter``.

    A child that was forked after it was made cannot use it.
    """

    def __init__(self, loop: BackgroundLoop, writer: AsyncBufferedWriter) -> None:
        self._loop = loop
        self._writer = writer
        self._add = writer.buffer.add
        _writers.add(self)

    def __repr__(self) -> str:
        written, durable = self.written_count, self.durable_count
        return f"BufferedWriter({self.segment!r}, {written=}, {durable=})"

    @property
    def segment(self) -> str:
        """Name of the segment."""
        return self._writer.segment

    @property
    def written_count(self) -> int:
        """Events that were taken; the number of the next one."""
        return self._writer.written_count

    @property
    def durable_count(self) -> int:
        """Events that are durable: those whose number is below it."""
        return self._writer.durable_count

    def pending(self) -> list[bytes]:
        """Return the events that are not durable for certain, in their order."""
        return self._writer.pending()

    def write(self, event: BytesLike) -> int:
        """Take ``event``, return its number. Raises like ``AsyncBufferedWriter.write``."""
        data = as_bytes(event, what="an event")
        number = self._add(data)
        while number is None:
            self._loop.run(self._writer.wait_for_room(len(data)))
            number = self._add(data)
        return number

    def flush(self) -> int:
        """Return when what was written is durable. See ``AsyncBufferedWriter.flush``."""
        return self._loop.run(self._writer.flush())

    def close(self) -> None:
        """Take no more events, and flush. See ``AsyncBufferedWriter.close``."""
        try:
            self._loop.run(self._writer.close())
        except ClosedError:
            if self._loop.forked:
                raise
            self._writer.close_behind_store()

    def refuse_after_fork(self) -> None:
        """Refuse all events; called in a forked child, where nothing appends them."""
        error = "the writer was made before a fork; make another one in this process"
        self._writer.buffer.refuse_after_fork(lambda: ClosedError(error))


def _refuse_in_child() -> None:
    for writer in list(_writers):
        writer.refuse_after_fork()


os.register_at_fork(after_in_child=_refuse_in_child)
