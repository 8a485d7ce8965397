"""What answers mean that all services give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from siltstone.core.errors import (
    ChunkAccessDeniedError,
    ChunkExistsError,
    ChunkNameError,
    ChunkNotFoundError,
    ChunkStorageFullError,
    ChunkThrottledError,
    ChunkUnavailableError,
)
from siltstone.core.remote.answers import UNKNOWN, Meaning

DENIED: Final = Meaning(ChunkAccessDeniedError, "the service refused")
CREDENTIALS: Final = Meaning(ChunkAccessDeniedError, "the service refused the credentials")
THROTTLED: Final = Meaning(ChunkThrottledError, "the service asks for fewer requests")
FULL: Final = Meaning(ChunkStorageFullError, "no room, or the quota is used up")
CORRUPT: Final = Meaning(ChunkUnavailableError, "the bytes arrived damaged, and were refused")
NO_BUCKET: Final = Meaning(ChunkUnavailableError, "the bucket does not exist")
NO_CHUNK: Final = Meaning(ChunkNotFoundError, "no such chunk")
EXISTS: Final = Meaning(ChunkExistsError, "chunk exists")
NAME: Final = Meaning(ChunkNameError, "the service cannot hold this name")
CONFLICT: Final = Meaning(ChunkUnavailableError, "another request changes the same key")
REFUSED: Final = Meaning(ChunkUnavailableError, "the service refused the request")
BROKEN: Final = Meaning(ChunkUnavailableError, "the service failed", UNKNOWN)

BY_STATUS: Final[Mapping[int, Meaning]] = {
    401: CREDENTIALS,
    403: DENIED,
    404: NO_CHUNK,
    429: THROTTLED,
    503: THROTTLED._replace(outcome=UNKNOWN),
    507: FULL,
}
"""What every service means; each has more in a table of its own."""


def of_status(status: int, table: Mapping[int, Meaning]) -> Meaning:
    """Return what a status means by itself.

    All answers that the table lacks are refusals from 400 on, and from 500 on failures that may
    have begun.
    """
    return table.get(status) or (REFUSED if 400 <= status < 500 else BROKEN)
