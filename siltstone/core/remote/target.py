"""What a call is about to make or change."""

from __future__ import annotations

from dataclasses import dataclass

from siltstone.core.remote.deadline import Deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """An object of the service.

    Attributes:
        name: of the chunk.
        key: of the object.
        operation: the verb that makes or changes it.
        deadline: of the whole call.
    """

    name: str
    key: str
    operation: str
    deadline: Deadline
