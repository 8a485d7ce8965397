"""What a call reads, makes or changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from siltstone.core.errors import ChunkError, ChunkOffsetError
from siltstone.core.remote.deadline import Deadline

Error = TypeVar("Error", bound=ChunkError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """An object of the service.

    Attributes:
        name: of the chunk.
        key: of the object.
        operation: the verb that is about it.
        deadline: of the whole call.
    """

    name: str
    key: str
    operation: str
    deadline: Deadline

    def error(self, kind: type[Error], reason: str, **facts: Any) -> Error:
        """Return an error of this call."""
        return kind(reason, chunk=self.name, operation=self.operation, **facts)

    def wrong_offset(self, expected: int, actual: int) -> ChunkOffsetError:
        """The error of a range that does not begin where it may."""
        return ChunkOffsetError(
            chunk=self.name, operation=self.operation, expected=expected, actual=actual
        )
