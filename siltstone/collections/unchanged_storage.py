"""Long-term storage for a process that may only read collections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from siltstone.core.errors import ReadOnlyError
from siltstone.core.storage.wrapper import WrappedChunkStorage

T = TypeVar("T")

_READS: Final = frozenset({"read_into", "stat", "list", "used_space", "free_space"})


class UnchangedStorage(WrappedChunkStorage):
    """Passes reads on; whatever else is asked of it is a ``ReadOnlyError``, and not sent."""

    def _call(self, operation: str, name: str, action: Callable[[], T]) -> T:
        if operation not in _READS:
            raise ReadOnlyError(
                "collections of a store that is open to be read only", verb=operation, object=name
            )
        return action()
