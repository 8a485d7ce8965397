"""What a store has of a migration: segments with its mark, next to what the layout holds now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from siltstone.container.models.segments import SegmentInfo
from siltstone.core.errors import StoreError
from siltstone.migration.legacy.findings import ImportVerdict, LayoutFindings, LegacyFinding
from siltstone.migration.legacy.plan import (
    INTERNAL,
    MARK,
    ORIGIN,
    SOURCE,
    LegacyOrigin,
    Way,
    read_origin,
)


class MigrationStateError(StoreError):
    """The migration is not as far, or too far, for what was asked. Nothing was changed.

    Attributes:
        migration: its name.
    """

    def __init__(self, message: str, *, migration: str) -> None:
        super().__init__(message, migration=migration)
        self.migration = migration


@dataclass(frozen=True, slots=True, kw_only=True)
class MigratedSegment:
    """A segment of the store that a migration brought.

    Attributes:
        info: as it is now.
        source: its name in the layout.
        origin: what it was there.
        finding: what the layout holds of it now; ``None`` when nothing does.
    """

    info: SegmentInfo
    source: str
    origin: LegacyOrigin
    finding: LegacyFinding | None

    @property
    def is_whole(self) -> bool:
        """Whether all of it came."""
        sealed = self.info.sealed or not self.origin.sealed
        return self.info.length >= self.origin.length and sealed

    @property
    def is_unwritten(self) -> bool:
        """Whether the store made it, and the layout need not have it before its first byte."""
        is_there = self.finding is not None and self.finding.verdict is not ImportVerdict.ABSENT
        return self.origin.way is Way.CODE_ONLY and not self.origin.length and not is_there


def imported(
    infos: Iterable[SegmentInfo], migration: str, layout: LayoutFindings | None
) -> list[MigratedSegment]:
    """The segments that a migration brought, in the order of ``infos``."""
    findings = {} if layout is None else {found.segment: found for found in layout.segments}
    return list(_imported(infos, migration, findings))


def _imported(
    infos: Iterable[SegmentInfo], migration: str, findings: dict[str, LegacyFinding]
) -> Iterator[MigratedSegment]:
    for info in infos:
        origin = read_origin(info.attributes.get(ORIGIN, ""))
        if info.attributes.get(MARK) != migration or origin is None:
            continue
        source = info.attributes.get(SOURCE, info.name)
        finding = findings.get(source)
        yield MigratedSegment(info=info, source=source, origin=origin, finding=finding)


def with_files(infos: Iterable[SegmentInfo], migration: str) -> set[tuple[str, int]]:
    """Names and ids of segments of a migration that have bytes in the layout."""
    return {
        (one.info.name, one.info.segment_id)
        for one in imported(infos, migration, None)
        if one.origin.length or one.info.flushed_length
    }


def sources_of(infos: Iterable[SegmentInfo], migration: str) -> set[str]:
    """Names in the layout of the segments that a migration brought."""
    return {one.source for one in imported(infos, migration, None)}


def unmarked(layout: LayoutFindings, known: Iterable[MigratedSegment]) -> list[LegacyFinding]:
    """Segments of the layout that could be imported, and were not.

    The original's own books do not count, where names in the store begin as in the layout.
    """
    came = list(known)
    sources = {one.source for one in came}
    has_books_aside = all(one.info.name == one.source for one in came)
    return [
        one
        for one in layout.of(ImportVerdict.IMPORTABLE)
        if one.segment not in sources and not (has_books_aside and one.segment.startswith(INTERNAL))
    ]
