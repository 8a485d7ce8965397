"""The signatures of calls that a container binds to its parts, so that they cost no frame more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine, Sequence
    from typing import SupportsIndex

    from siltstone.container.changes.updater import KeyValue, KeyVersion
    from siltstone.core.bytes_like import BytesLike


class AppendCall(Protocol):
    """Appends to a segment."""

    def __call__(
        self, name: str, data: BytesLike, expected_offset: SupportsIndex | None = None
    ) -> asyncio.Future[int]:
        """See ``Appender.append``."""
        ...


class AppendManyCall(Protocol):
    """Appends several records in one commit."""

    def __call__(
        self,
        name: str,
        records: Sequence[BytesLike],
        expected_offset: SupportsIndex | None = None,
    ) -> asyncio.Future[int]:
        """See ``Appender.append_many``."""
        ...


class AppendAsCall(Protocol):
    """Appends exactly once."""

    def __call__(
        self, name: str, number: int, sequence: int, data: BytesLike
    ) -> Coroutine[Any, Any, int]:
        """See ``Appender.append_as``."""
        ...


class UpdateCall(Protocol):
    """Changes keys of one table."""

    def __call__(
        self, table: str, changes: Sequence[KeyValue], expected: Sequence[KeyVersion] = ()
    ) -> asyncio.Future[int]:
        """See ``Updater.update``."""
        ...
