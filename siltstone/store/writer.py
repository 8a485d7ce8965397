"""An exactly-once writer as blocking applications hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.core.bytes_like import as_bytes

if TYPE_CHECKING:
    from typing import SupportsIndex

    from siltstone.core.bytes_like import BytesLike
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

    def append(self, data: BytesLike, *, sequence: SupportsIndex) -> int:
        """Append ``data`` once, however often this is called with one ``sequence``."""
        return self._loop.run(self._writer.append(as_bytes(data), sequence=sequence))
