"""What an importer hands in and gets back: frozen values, small enough to travel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from siltstone.container.models.segments import check_attribute, check_limits
from siltstone.core.errors import StoreError
from siltstone.core.records.import_row import ImportState
from siltstone.core.storage.block_sums import block_count


class ImportSessionError(StoreError):
    """The import session takes no commit: it was aborted, has expired, or is not known.

    Attributes:
        session: its name.
    """

    def __init__(self, message: str, *, session: str, **facts: Any) -> None:
        super().__init__(message, session=session, **facts)
        self.session = session


class AdoptionNotFoundError(ImportSessionError):
    """No object was taken in place under this name. ``session`` is the name."""

    def __init__(self, message: str, *, session: str) -> None:
        StoreError.__init__(self, message, adoption=session)
        self.session = session


class ImportMode(Enum):
    """What becomes of the segment that gets the imported bytes."""

    CREATE = "create"
    """They are a new segment, sealed; there must be none of that name."""
    APPEND = "append"
    """They come after what the segment holds; it is made if there is none, and stays open."""
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
        adoption: that of the objects that it may take in place; empty when it may take none.
        uuid: of the store; empty when the opener of the session did not say it.
    """

    name: str
    container: int
    session_id: int
    prefix: str
    expires_ms: int
    state: ImportState
    adoption: str = ""
    uuid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedChunk:
    """A chunk that lies on long-term storage under the prefix of a session, or in place.

    Attributes:
        name: its key there.
        length: bytes, all of the object; of one in place at most 256 GiB, of another at least 1.
        sums: CRC32C of each block of 256 KiB; the last one may be shorter. ``None`` for an object
            in place whose bytes were not read: its blocks cannot be verified.
        version: what ``ChunkStat`` said when it was looked at; another one is refused. ``None``
            compares nothing.
    """

    name: str
    length: int
    sums: tuple[int, ...] | None
    version: str | None = None

    def __post_init__(self) -> None:
        count = None if self.sums is None else len(self.sums)
        if self.length < 0 or count not in (None, block_count(self.length)):
            raise ValueError(f"{self.name}: {count} sums for {self.length} bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacedIs:
    """Condition of an import: what it replaces is what its caller saw, and no byte more.

    A segment that was deleted since is no reason to refuse.

    Attributes:
        segment: its name.
        segment_id: of the segment that had the name; ``None`` when there was none.
        length: bytes that were ever appended to it.
    """

    segment: str
    segment_id: int | None = None
    length: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOutput:
    """What one segment gets.

    Attributes:
        segment: its name; it belongs to the container of the session.
        chunks: the bytes, in this order.
        mode: what becomes of the segment.
        start: the first readable offset of a new segment, where its bytes begin.
        sealed: whether a new segment is sealed; ``None`` as the mode says.
        attributes: of a new segment, from the same step on; ``CREATE`` only.
        replaced: what may be replaced; ``None`` takes whatever has the name. ``REPLACE`` only.
    """

    segment: str
    chunks: tuple[ImportedChunk, ...]
    mode: ImportMode = ImportMode.CREATE
    start: int = 0
    sealed: bool | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    replaced: ReplacedIs | None = None

    def __post_init__(self) -> None:
        if self.replaced is not None and (
            self.mode is not ImportMode.REPLACE or self.replaced.segment != self.segment
        ):
            raise ValueError(f"{self.segment}: a condition is for the segment that is replaced")
        if self.start < 0:
            raise ValueError(f"{self.segment}: a segment begins at 0 or above, not {self.start}")
        if self.mode is ImportMode.APPEND and (self.start or self.sealed is not None):
            raise ValueError(f"{self.segment}: start and sealed are for new segments")
        if self.attributes and self.mode is not ImportMode.CREATE:
            raise ValueError(f"{self.segment}: attributes are for segments that are made")
        for key, value in self.attributes.items():
            if value is None:
                raise TypeError("a new segment's attributes have values")
            check_attribute(key, value)
        check_limits(self.segment, self.attributes)

    @property
    def length(self) -> int:
        """Bytes of all chunks."""
        return sum(chunk.length for chunk in self.chunks)

    @property
    def end(self) -> int:
        """Length of the segment, if it is a new one."""
        return self.start + self.length

    @property
    def is_sealed(self) -> bool:
        """Whether a new segment is sealed."""
        return self.mode is ImportMode.CREATE if self.sealed is None else self.sealed


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """Objects that were taken in place, under one name.

    Attributes:
        name: chosen by the opener of the sessions.
        container: index of the container that has them.
        finalised: whether what nothing needs any more is deleted; before, everything is kept.
        chunks: objects that segments name.
        length: their bytes.
        dropped: objects that no segment names any more, and that still lie there.
        dropped_length: their bytes.
    """

    name: str
    container: int
    finalised: bool
    chunks: int
    length: int
    dropped: int
    dropped_length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedAdoption:
    """What was let go.

    Attributes:
        released: objects that the store knew and no longer knows.
        in_use: objects that segments still name.
    """

    released: int
    in_use: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportBatch:
    """A batch of a stream, by which a session is known to have been imported before.

    Attributes:
        query: names the stream; at most 256 bytes.
        number: numbers of a stream grow; none is imported twice, nor after a greater one.
        target: where the stream writes, at most 1,024 bytes, for a caller that compares it with
            ``ImportResult.newest``; empty when none does.
    """

    query: str
    number: int
    target: str = ""


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
        newest: the newest batch of the stream, when another session had brought that or this
            batch before, else ``None``. With a greater number, or another target, it tells that
            two write under the name of one stream.
    """

    segments: tuple[ImportedSegment, ...]
    repeated: bool = False
    newest: ImportBatch | None = None
