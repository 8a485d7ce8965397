"""What an examination finds of each legacy segment: frozen values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from siltstone.migration.legacy.names import Naming


class ImportVerdict(StrEnum):
    """Whether a segment can be imported."""

    IMPORTABLE = "importable"
    ABSENT = "absent"
    """Its creation died half-way: the original says that there is no such segment."""
    REFUSED = "refused"


class Reason(StrEnum):
    """Why a segment is refused."""

    BAD_HEADER = "bad-header"
    """The header is none, or its grammar is broken."""
    EMPTY_HEADER = "empty-header"
    """The header is empty, though chunks lie there."""
    NESTED_CONCAT = "nested-concat"
    """A source that held a concat was merged: the original never opens it again."""
    UNFINISHED_CONCAT = "unfinished-concat"
    """Some chunks of a source are in the header and others are not."""
    MISSING_LAST_CHUNK = "missing-last-chunk"
    """The original says that there is no such segment."""
    MISSING_CHUNK = "missing-chunk"
    """A chunk between others is gone."""
    SHORT_CHUNK = "short-chunk"
    """A chunk holds fewer bytes than the header says: they are lost."""
    DUPLICATE_CHUNK = "duplicate-chunk"
    """The header names a chunk for two places: a concat was carried out twice."""
    MERGED_ELSEWHERE = "merged-elsewhere"
    """Another segment's header lists its chunks: it was the source of a concat."""
    SHARED_CHUNK = "shared-chunk"
    """Several headers list a chunk that is none of theirs: a source was merged twice."""
    CYCLIC_CONCAT = "cyclic-concat"
    """Two headers list chunks of one another."""
    AMBIGUOUS_FILES = "ambiguous-files"
    """Files of several epochs have the same name, and more than one holds bytes."""
    BAD_NAME = "bad-name"
    """No segment, or no header, can have this name."""
    UNREADABLE = "unreadable"
    """The header cannot be read."""
    NOT_WRITABLE = "not-writable"
    """The store cannot continue in the files of this segment."""
    LINK = "link"
    """A file of the segment, or the folder of some, is a link, which is never followed."""
    SEALED_UNKNOWN = "sealed-unknown"
    """The place does not tell whether a file is sealed."""


class Oddity(StrEnum):
    """What differs from a segment to which nothing happened. None prevents its import."""

    NO_HEADER = "no-header"
    TORN_HEADER = "torn-header"
    FAILED_CONCAT = "failed-concat"
    TRUNCATED = "truncated"
    MAYBE_HALF_DELETED = "maybe-half-deleted"
    GARBAGE_TAIL = "garbage-tail"
    UNLISTED_CHUNK = "unlisted-chunk"
    OPEN_CHUNK = "open-chunk"
    LAST_CHUNK_SEALED = "last-chunk-sealed"
    LONG_CHUNK = "long-chunk"
    REPLACING = "replacing"
    OLDER_EPOCH = "older-epoch"
    EMPTY_HEADER = "empty-header"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """An oddity, and what there is to say of it."""

    oddity: Oddity
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyPiece:
    """Bytes of a segment in one file.

    Attributes:
        key: of the file, below the place.
        start: offset in the segment of its first byte.
        length: bytes that belong to the segment, at least 1.
        physical: bytes that the file has, no fewer.
        version: of the file, see ``PlacedFile``.
    """

    key: str
    start: int
    length: int
    physical: int
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyFinding:
    """What was found of one segment.

    Attributes:
        segment: its name.
        verdict: what can become of it.
        reason: why it is refused, else ``None``.
        message: of the refusal; empty without one.
        pieces: its bytes, in order and without gap, from ``start`` to ``length``.
        start: first readable offset.
        length: offset after the last byte.
        sealed: whether it takes no more bytes.
        rolling_bytes: a chunk gets no more once it has this many bytes.
        header_key: file of the header; ``None`` where there is none.
        other_keys: files of the segment that hold none of its bytes, such as an empty chunk.
        notes: oddities.
    """

    segment: str
    verdict: ImportVerdict
    reason: Reason | None = None
    message: str = ""
    pieces: tuple[LegacyPiece, ...] = ()
    start: int = 0
    length: int = 0
    sealed: bool = False
    rolling_bytes: int = 0
    header_key: str | None = None
    other_keys: tuple[str, ...] = ()
    notes: tuple[Note, ...] = field(default=())

    @property
    def main_key(self) -> str:
        """The file that says whether it is sealed: its header, or else its only one."""
        if self.header_key is not None:
            return self.header_key
        return self.pieces[0].key if self.pieces else self.other_keys[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutFindings:
    """What was found in a place.

    Attributes:
        where: the place.
        naming: which binding wrote it.
        segments: in the order of their names.
        strays: files that belong to no segment; left alone.
        missing_sealed: keys of which a person said that their files are sealed, and there is none.
    """

    where: str
    naming: Naming
    segments: tuple[LegacyFinding, ...]
    strays: tuple[str, ...]
    missing_sealed: tuple[str, ...] = ()

    def of(self, verdict: ImportVerdict) -> Iterable[LegacyFinding]:
        """The segments with that verdict."""
        return (finding for finding in self.segments if finding.verdict is verdict)
