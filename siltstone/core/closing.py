"""What ends with its block: ``with`` and ``async with`` for whatever has a ``close``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Closing(ABC):
    """The end of a ``with`` block closes it, also when the block failed."""

    @abstractmethod
    def close(self) -> None:
        """End it. Idempotent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class AsyncClosing(ABC):
    """The end of an ``async with`` block closes it, also when the block failed."""

    @abstractmethod
    async def close(self) -> None:
        """End it. Idempotent."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
