"""What whoever imports hands in and gets back: frozen values, small enough to travel."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from siltstone.core.block_sums import block_count
from siltstone.core.errors import StoreError
from siltstone.core.records.import_row import ImportState


class ImportSessionError(StoreError):
    """The import session takes no commit: it was aborted, has expired, or is not known.

    Attributes:
        session: its name.
    """

    def __init__(self, message: str, *, session: str, **facts: Any) -> None:
        super().__init__(message, session=session, **facts)
        self.session = session


class ImportMode(Enum):
    """What becomes of the segment that gets the imported bytes."""

    CREATE = "create"
    """They are a new segment, sealed; there must be none of that name."""
    APPEND = "append"
    """They come behind what the segment holds; it is made if there is none, and stays open."""
    REPLACE = "replace"
    """They are a new segment that takes the name, open; one that has it is deleted in that step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportTicket:
    """An import session, as it is carried to those who bring its chunks. It holds no secret.

    Attributes:
        name: of the session.
        container: index of the container that it belongs to.
        session_id: never used again.
        prefix: its chunks have names that begin so.
        expires_ms: from then on it takes no commit, milliseconds since 1970.
        state: when the ticket was made.
    """

    name: str
    container: int
    session_id: int
    prefix: str
    expires_ms: int
    state: ImportState


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedChunk:
    """A chunk that lies on long-term storage under the prefix of a session.

    Attributes:
        name: its key there.
        length: bytes, at least 1.
        sums: CRC32C of each block of 256 KiB; the last one may be shorter.
    """

    name: str
    length: int
    sums: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.length < 1 or len(self.sums) != block_count(self.length):
            raise ValueError(f"{self.name}: {len(self.sums)} sums for {self.length} bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOutput:
    """What one segment gets.

    Attributes:
        segment: its name; it belongs to the container of the session.
        chunks: the bytes, in this order.
        mode: what becomes of the segment.
    """

    segment: str
    chunks: tuple[ImportedChunk, ...]
    mode: ImportMode = ImportMode.CREATE

    @property
    def length(self) -> int:
        """Bytes of all chunks."""
        return sum(chunk.length for chunk in self.chunks)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportBatch:
    """A batch of a stream, by which a session is known to have been imported before.

    Attributes:
        query: names the stream; at most 256 bytes.
        number: numbers of a stream grow; none is imported twice, nor after a greater one.
    """

    query: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedSegment:
    """Where imported bytes are.

    Attributes:
        segment: name of the segment.
        offset: where they begin.
        length: bytes.
    """

    segment: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    """What a commit came to.

    Attributes:
        segments: where the bytes are, in the order in which they were given; none when another
            session had brought the batch before.
        repeated: whether it had taken place before, and nothing was done now.
    """

    segments: tuple[ImportedSegment, ...]
    repeated: bool = False
