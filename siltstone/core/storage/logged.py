"""A chunk storage that logs each call to the service, for people who look for a fault."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, TypeVar

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.environment import Environment
from siltstone.core.storage.wrapper import WrappedChunkStorage

T = TypeVar("T")

_log: Final = logging.getLogger(__name__)


def logged(storage: ChunkStorage, environment: Environment) -> ChunkStorage:
    """Let the calls of storage be logged if logs of this detail are on."""
    return LoggedChunkStorage(storage, environment) if _log.isEnabledFor(logging.DEBUG) else storage


class LoggedChunkStorage(WrappedChunkStorage):
    """Delegates everything to ``inner`` and logs verb, chunk, time and error; never a byte.

    Args:
        inner: closed by ``close``.
        environment: gives time.
    """

    def __init__(self, inner: ChunkStorage, environment: Environment) -> None:
        super().__init__(inner)
        self._clock = environment.monotonic

    def _call(self, operation: str, name: str, action: Callable[[], T]) -> T:
        begun, end = self._clock(), "done"
        try:
            return action()
        except BaseException as error:
            end = f"{type(error).__name__}: {error}"
            raise
        finally:
            took_ms = (self._clock() - begun) * 1000
            _log.debug("%s chunk=%s ms=%.1f: %s", operation, name, took_ms, end)
