"""Errors of an SDK, turned into those of the contract where its calls are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from siltstone.core.errors import ChunkError, SiltstoneError
from siltstone.core.remote.target import Target


class Translation:
    """Translates what one SDK raises.

    Args:
        chunk_error: returns the error of the contract for one of the SDK, of a chunk, a verb, and
            a request that may change something. Whatever an SDK and the libraries below it raise
            that it does not know, the call came to no answer.
    """

    def __init__(self, chunk_error: Callable[[Exception, str, str, bool], ChunkError]) -> None:
        self._chunk_error = chunk_error

    @contextmanager
    def __call__(self, chunk: str, operation: str, *, changes: bool = False) -> Iterator[None]:
        """Turn what the SDK raises in the block into a ``ChunkError``.

        Args:
            chunk: the name.
            operation: the verb.
            changes: whether the one request of the block may change what others see.
        """
        try:
            yield
        except SiltstoneError:
            raise
        except Exception as error:
            raise self._chunk_error(error, chunk, operation, changes) from error

    @contextmanager
    def change(self, target: Target, *, changes: bool = True) -> Iterator[None]:
        """Translate errors of a request that changes ``target``, not sent after the deadline."""
        with self(target.name, target.operation):
            target.deadline.check()
        with self(target.name, target.operation, changes=changes):
            yield
