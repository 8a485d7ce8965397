"""What a migration has to do: compare what was found with what the store has. Pure.

Three attributes of a segment say that it came from a legacy layout, from which segment there, and
as what. They are committed with its first bytes, so a later run knows how far it came.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from siltstone.container.models.segments import SegmentInfo
from siltstone.core.constants import RESERVED_PREFIX, check_segment_name
from siltstone.core.errors import SegmentNameError
from siltstone.migration.legacy.findings import ImportVerdict, LayoutFindings, LegacyFinding, Reason

MARK: Final = "siltstone.legacy"
"""The attribute that names the migration."""

ORIGIN: Final = "siltstone.legacy.origin"
"""The attribute that says what the segment was in the legacy layout."""

SOURCE: Final = "siltstone.legacy.segment"
"""The attribute that names the segment of the layout."""

INTERNAL: Final = "_system/containers/"
"""Segments in which the original keeps its own books; they mean nothing to a store."""

_NAME_BYTES_MAX: Final = 200


class Way(StrEnum):
    """What becomes of the files of a layout."""

    COPY = "copy"
    """They stay, and their bytes are copied."""
    IN_PLACE = "in-place"
    """They become chunks, and stay as they are."""
    CODE_ONLY = "code-only"
    """They become chunks, and new bytes go to files next to them: the layout continues."""


class Action(StrEnum):
    """What is to be done with a segment."""

    IMPORT = "import"
    GO_ON = "go-on"
    """An earlier run brought a part of it."""
    DONE = "done"
    CONFLICT = "conflict"
    """The store has another segment of this name."""
    REFUSED = "refused"
    ABSENT = "absent"
    """The original says that there is no such segment."""
    LEFT = "left"
    """The original keeps its own books there."""


_HOW: Final[Mapping[Way, str]] = {
    Way.COPY: "by copy",
    Way.IN_PLACE: "in place",
    Way.CODE_ONLY: "as code_only",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyOrigin:
    """What a segment of the store was in the legacy layout.

    Attributes:
        start: first readable offset there.
        length: offset after the last byte.
        sealed: whether it took no more bytes.
        rolling_bytes: a chunk got no more once it had this many bytes.
        way: what became of its files.
    """

    start: int
    length: int
    sealed: bool
    rolling_bytes: int
    way: Way

    def text(self) -> str:
        """What the attribute says."""
        state = "sealed" if self.sealed else "open"
        return f"{self.start}/{self.length}/{state}/{self.rolling_bytes}/{self.way}"


def read_origin(text: str) -> LegacyOrigin | None:
    """What an attribute says; ``None`` when it is not ours."""
    match text.split("/"):
        case [start, length, ("sealed" | "open") as state, size, way] if way in list(Way):
            if not all(part.isdecimal() for part in (start, length, size)):
                return None
            return LegacyOrigin(
                start=int(start),
                length=int(length),
                sealed=state == "sealed",
                rolling_bytes=int(size),
                way=Way(way),
            )
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLegacySegment:
    """What is to be done with one segment.

    Attributes:
        finding: what was found.
        name: in the store.
        action: what is to be done.
        message: why not, or what is odd.
        position: from which offset on bytes are missing, for ``import`` and ``go-on``.
    """

    finding: LegacyFinding
    name: str
    action: Action
    message: str = ""
    position: int = 0

    @property
    def lacking_bytes(self) -> int:
        """Bytes that are to be brought."""
        if self.action in (Action.IMPORT, Action.GO_ON):
            return self.finding.length - self.position
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationPlan:
    """What a migration has to do.

    Attributes:
        migration: its name, which marks and adoptions bear.
        way: what becomes of files.
        layout: what was found.
        segments: one for each found segment.
    """

    migration: str
    way: Way
    layout: LayoutFindings
    segments: tuple[PlannedLegacySegment, ...]

    @property
    def in_place(self) -> bool:
        """Whether files become chunks."""
        return self.way is not Way.COPY

    def count(self, *actions: Action) -> int:
        """Segments with one of these actions."""
        return sum(planned.action in actions for planned in self.segments)


def migration_name(place: str) -> str:
    """The name of the migration of a place: the same whenever the place is the same."""
    name = f"legacy:{place}"
    raw = name.encode("utf-8", errors="replace")
    if len(raw) <= _NAME_BYTES_MAX:
        return name
    return f"legacy#{hashlib.blake2b(raw, digest_size=16).hexdigest()}"


def plan_migration(
    layout: LayoutFindings,
    known: Mapping[str, SegmentInfo],
    *,
    migration: str,
    way: Way,
    under: str = "",
    goes_on: bool = False,
) -> MigrationPlan:
    """Say for every segment what is to be done.

    Args:
        layout: what was found.
        known: segments of the store, by their names.
        migration: name of the migration.
        way: what is to become of files.
        under: what names in the store begin with.
        goes_on: whether the store writes this layout, or may do so.
    """
    planned = tuple(
        _planned(finding, known.get(under + finding.segment), migration, under, way, goes_on)
        for finding in layout.segments
    )
    return MigrationPlan(migration=migration, way=way, layout=layout, segments=planned)


def marks_of(finding: LegacyFinding, migration: str, way: Way) -> dict[str, str]:
    """The attributes of a segment that comes from ``finding``."""
    origin = origin_of(finding, way)
    return {MARK: migration, ORIGIN: origin.text(), SOURCE: finding.segment}


def origin_of(finding: LegacyFinding, way: Way) -> LegacyOrigin:
    """What the store is to note about a segment."""
    return LegacyOrigin(
        start=finding.start,
        length=finding.length,
        sealed=finding.sealed,
        rolling_bytes=finding.rolling_bytes,
        way=way,
    )


def _planned(
    finding: LegacyFinding,
    there: SegmentInfo | None,
    migration: str,
    under: str,
    way: Way,
    goes_on: bool,
) -> PlannedLegacySegment:
    name = under + finding.segment
    if name.startswith(INTERNAL):
        message = "the original keeps its own books there"
        return PlannedLegacySegment(finding=finding, name=name, action=Action.LEFT, message=message)
    if finding.verdict is ImportVerdict.ABSENT:
        return PlannedLegacySegment(
            finding=finding, name=name, action=Action.ABSENT, message=finding.message
        )
    if finding.verdict is ImportVerdict.REFUSED:
        message = f"{finding.reason}: {finding.message}"
        return PlannedLegacySegment(
            finding=finding, name=name, action=Action.REFUSED, message=message
        )
    try:
        check_segment_name(name)
    except SegmentNameError as error:
        message = f"{Reason.BAD_NAME}: {error}"
        if name.startswith(RESERVED_PREFIX):
            message += "; with --under TEXT names begin otherwise in the store"
        finding = replace(finding, verdict=ImportVerdict.REFUSED, reason=Reason.BAD_NAME)
        return PlannedLegacySegment(
            finding=finding, name=name, action=Action.REFUSED, message=message
        )
    notes = "; ".join(f"{note.oddity}: {note.text}" for note in finding.notes)
    if there is None:
        return PlannedLegacySegment(
            finding=finding,
            name=name,
            action=Action.IMPORT,
            message=notes,
            position=finding.start,
        )
    problem = _problem(finding, there, migration, way, goes_on)
    if problem:
        return PlannedLegacySegment(
            finding=finding, name=name, action=Action.CONFLICT, message=problem
        )
    if there.length < finding.length or (finding.sealed and not there.sealed):
        return PlannedLegacySegment(
            finding=finding,
            name=name,
            action=Action.GO_ON,
            message=notes,
            position=min(there.length, finding.length),
        )
    return PlannedLegacySegment(finding=finding, name=name, action=Action.DONE, message=notes)


def _problem(
    finding: LegacyFinding, there: SegmentInfo, migration: str, way: Way, goes_on: bool
) -> str:
    """Why a segment of the store is not what an earlier run brought; empty when it is."""
    origin = read_origin(there.attributes.get(ORIGIN, ""))
    known = (there.attributes.get(MARK), there.attributes.get(SOURCE))
    if known != (migration, finding.segment) or origin is None:
        return "the store has another segment of this name"
    if origin.way is not way:
        return f"it was imported {_HOW[origin.way]}"
    if goes_on and went_on(finding, there):
        return ""
    if way is Way.CODE_ONLY and not goes_on and there.length > finding.length:
        return "the store continued without the layout: finalise the migration, or roll it back"
    if origin == origin_of(finding, way):
        return ""
    return "the legacy segment changed since it was imported"


def went_on(finding: LegacyFinding, there: SegmentInfo) -> bool:
    """Whether a segment in the layout can be what the store wrote there since."""
    origin = read_origin(there.attributes.get(ORIGIN, ""))
    return (
        origin is not None
        and finding.rolling_bytes == origin.rolling_bytes
        and origin.start <= finding.start <= max(origin.start, there.start_offset)
        and origin.length <= finding.length <= there.length
        and origin.sealed <= finding.sealed <= there.sealed
    )
