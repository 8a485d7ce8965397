"""What ends with its block: ``with`` and ``async with`` for anything that has a ``close``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from siltstone.core.errors import SiltstoneError


@contextmanager
def _beside(failure: BaseException | None) -> Iterator[None]:
    """Close after a block: what made that fail is what its caller has to know first.

    That the close failed too, such as for storage that does not answer, is noted there.
    """
    try:
        yield
    except SiltstoneError as error:
        if failure is None:
            raise
        failure.add_note(str(error))


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether a block ended by Ctrl-C, by a signal, or because its task was cancelled."""
    return error is not None and not isinstance(error, Exception)


class Closing(ABC):
    """The end of a ``with`` block closes it, also when the block failed.

    What the block raised is raised on, with what closing raises as a note of it.
    """

    @abstractmethod
    def close(self) -> None:
        """End it. Idempotent."""

    def close_interrupted(self) -> None:
        """``close`` at the end of a block that was interrupted: no time is spent on flushes."""
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with _beside(error):
            if _is_interrupt(error):
                self.close_interrupted()
            else:
                self.close()


class AsyncClosing(ABC):
    """The end of an ``async with`` block closes it, also when the block failed."""

    @abstractmethod
    async def close(self) -> None:
        """End it. Idempotent."""

    async def close_interrupted(self) -> None:
        """``close`` at the end of a block that was interrupted: no time is spent on waiting."""
        await self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with _beside(error):
            if _is_interrupt(error):
                await self.close_interrupted()
            else:
                await self.close()
