"""An exactly-once writer as blocking applications hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from siltstone.core.words import Buffer
    from siltstone.store.async_writer import AsyncWriter
    from siltstone.store.background_loop import BackgroundLoop


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

    def append(self, data: Buffer, *, sequence: int) -> int:
        """Append ``data`` once, however often this is called with one ``sequence``."""
        return self._loop.run(self._writer.append(data, sequence=sequence))
