"""``code_only``: old files become chunks where they are, and the store continues in their layout.

Here is what a store has to know of each segment for that, and which ones it cannot continue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace

from siltstone.container.models.segments import SegmentInfo
from siltstone.core.errors import CapabilityError, StoreError
from siltstone.migration.legacy.files import LegacyFile, resolve
from siltstone.migration.legacy.findings import ImportVerdict, LayoutFindings, LegacyFinding, Reason
from siltstone.migration.legacy.header import NO_ROLLING, parse_header
from siltstone.migration.legacy.imported import MigrationStateError, imported
from siltstone.migration.legacy.importer import IN_PLACE_BYTES_MAX
from siltstone.migration.legacy.locate import Located
from siltstone.migration.legacy.names import Naming, chunk_of, header_of, is_chained, read_name
from siltstone.migration.legacy.plan import MARK, Action, MigrationPlan, PlannedLegacySegment
from siltstone.migration.legacy.write_through.begin import LegacyLayout, LegacySegment
from siltstone.migration.legacy.write_through.layout import can_be_written, name_problem
from siltstone.migration.source.places import LegacyPlace
from siltstone.store.store import Store
from siltstone.store.store_assembly import storage_of

_TAKEN = (Action.IMPORT, Action.GO_ON, Action.DONE)


class _ProblemError(Exception):
    """Why a segment cannot be continued."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WritingPlan:
    """A plan, and how the layout of each of its segments continues.

    Attributes:
        plan: segments that cannot be continued are refused.
        segments: of those that are taken.
        layout: what the store is to be told of it.
    """

    plan: MigrationPlan
    segments: tuple[LegacySegment, ...]
    layout: LegacyLayout


def check_service(place: Located) -> str:
    """Return the prefix of a layout in which the store's long-term storage can continue.

    Raises:
        CapabilityError: the service cannot do what that takes.
        SettingsError: the layout does not lie there.
    """
    prefix = place.in_place().prefix
    with closing(storage_of(place.settings)) as storage:
        able = can_be_written(storage.capabilities)
    if place.folder is None or not able:
        raise CapabilityError(
            "code_only needs a file system (nfs): files of the legacy layout grow and are sealed, "
            "which this service cannot do; nothing was done, and layout_upgrade reads the layout"
        )
    return prefix


def check_alone(store: Store, migration: str, under: str) -> bool:
    """Return whether the store writes this layout already.

    Raises:
        MigrationStateError: it writes another one, or has segments that are not of this layout.
    """
    begun = store.written_adoption()
    if begun not in (None, migration):
        raise MigrationStateError(f"the store writes {begun} already", migration=migration)
    other = next((one.name for one in store.list(under) if not _is_of(one, migration)), None)
    if other is not None:
        raise MigrationStateError(
            f"the store has segments that are not of this layout, such as {other}; --under TEXT "
            f"keeps names apart",
            migration=migration,
        )
    return begun is not None


def check_held(layout: LayoutFindings, infos: Iterable[SegmentInfo], migration: str) -> None:
    """Check that the layout has what came from it: bytes of other segments would bypass it.

    Raises:
        MigrationStateError: it no longer has a segment, as after a restore.
    """
    for one in imported(infos, migration, layout):
        if one.finding is None or one.finding.verdict is not ImportVerdict.IMPORTABLE:
            raise MigrationStateError(
                f"the layout does not hold {one.info.name} any more, so it cannot continue there: "
                f"finalise the migration",
                migration=migration,
            )


def _is_of(info: SegmentInfo, migration: str) -> bool:
    return info.attributes.get(MARK) == migration


def plan_writing(
    plan: MigrationPlan, place: LegacyPlace, prefix: str, under: str, *, begun: bool
) -> WritingPlan:
    """Say how the layout continues; refuse segments with which it cannot.

    Args:
        plan: of this place.
        place: read again.
        prefix: of its keys.
        under: what names in the store begin with.
        begun: whether the store writes it already: then nothing is looked at.

    Raises:
        StoreError: the layout changed since the plan was made.
    """
    found = list(place.files())
    files = resolve(found, plan.layout.naming).by_name
    headers = {} if begun else _headers(plan.layout, place)
    planned: list[PlannedLegacySegment] = []
    segments: list[LegacySegment] = []
    for one in plan.segments:
        if one.action not in _TAKEN or (begun and one.action is Action.DONE):
            planned.append(one)
            continue
        try:
            if begun:
                raise _ProblemError("another program made it since the store writes here")
            segments.append(_segment(one, files, headers, plan.layout.naming))
            planned.append(one)
        except _ProblemError as error:
            message = f"{Reason.NOT_WRITABLE}: {error}"
            finding = replace(
                one.finding, verdict=ImportVerdict.REFUSED, reason=Reason.NOT_WRITABLE
            )
            planned.append(replace(one, finding=finding, action=Action.REFUSED, message=message))
    if not begun and _headers(plan.layout, place) != headers:
        raise StoreError("another program writes to the legacy layout", where=place.where)
    layout = LegacyLayout(
        adoption=plan.migration,
        prefix=prefix,
        under=under,
        rolling_bytes=_usual_size(plan.layout.segments),
        suffix=_newest_suffix((file.key for file in found), plan.layout.naming),
    )
    return WritingPlan(
        plan=replace(plan, segments=tuple(planned)), segments=tuple(segments), layout=layout
    )


def _headers(layout: LayoutFindings, place: LegacyPlace) -> dict[str, bytes]:
    """The bytes of the headers of open segments that can be taken, by key."""
    found = {}
    for finding in layout.of(ImportVerdict.IMPORTABLE):
        if finding.header_key is not None and not finding.sealed:
            buffer = bytearray(place.length_of(finding.header_key))
            count = place.read_into(finding.header_key, 0, memoryview(buffer))
            found[finding.header_key] = bytes(buffer[:count])
    return found


def _segment(
    planned: PlannedLegacySegment,
    files: Mapping[str, LegacyFile],
    headers: Mapping[str, bytes],
    naming: Naming,
) -> LegacySegment:
    """How a segment continues. Raises ``_ProblemError`` when it cannot."""
    finding = planned.finding
    for piece in finding.pieces:
        # Such a file is copied, and what lies in the layout would not be what the store reads.
        if piece.length != piece.physical:
            raise _ProblemError(f"{piece.key} holds more than belongs to the segment")
        if piece.length > IN_PLACE_BYTES_MAX:
            raise _ProblemError(f"{piece.key} has more than {IN_PLACE_BYTES_MAX} bytes")
    if is_chained(finding.segment, finding.main_key):
        raise _ProblemError(f"{finding.main_key} is named as on HDFS before 0.3")
    problem = name_problem(finding.segment)
    if problem and not finding.sealed:
        raise _ProblemError(problem)
    if finding.header_key is None:
        return LegacySegment(
            name=planned.name,
            source=finding.segment,
            rolling_bytes=NO_ROLLING,
            suffix=finding.main_key.removeprefix(finding.segment),
            bare=finding.length > 0,
            sealed=finding.sealed,
        )
    name = header_of(finding.segment)
    known = read_name(finding.header_key, naming)
    if known is None or known.name != name:
        raise _ProblemError(f"{finding.header_key} stands for the header")
    suffix = finding.header_key.removeprefix(name)
    if finding.sealed:
        return LegacySegment(
            name=planned.name,
            source=finding.segment,
            rolling_bytes=finding.rolling_bytes,
            suffix=suffix,
            sealed=True,
        )
    header = parse_header(headers[finding.header_key], finding.header_key)
    if header.torn:
        raise _ProblemError(f"the header ends with {header.torn!r}")
    return LegacySegment(
        name=planned.name,
        source=finding.segment,
        rolling_bytes=finding.rolling_bytes,
        suffix=suffix,
        header=headers[finding.header_key],
        listed=_listed(finding, [chunk.name for chunk in header.chunks], files),
    )


def _listed(finding: LegacyFinding, names: list[str], files: Mapping[str, LegacyFile]) -> str:
    """Key of the empty file that the header ends with; empty when the next one is a new one."""
    last = files[names[-1]] if names else None
    if last is not None and not last.length:
        if last.sealed:
            raise _ProblemError(f"{last.key} is empty and sealed")
        return last.key
    name = chunk_of(finding.segment, finding.length)
    there = files.get(name)
    if there is not None and (there.length or there.sealed or there.key != name):
        raise _ProblemError(f"{there.key} is in the way")
    return ""


def _usual_size(findings: Iterable[LegacyFinding]) -> int:
    """The size at which most segments roll over."""
    sizes = Counter(
        one.rolling_bytes
        for one in findings
        if one.header_key and one.verdict is ImportVerdict.IMPORTABLE
    )
    return sizes.most_common(1)[0][0] if sizes else NO_ROLLING


def _newest_suffix(keys: Iterable[str], naming: Naming) -> str:
    """What names of new files end with: the newest epoch that is there."""
    if naming is Naming.FILES:
        return ""
    known = (read_name(key, naming) for key in keys)
    return f"_{max((one.epoch or 0 for one in known if one is not None), default=0)}"
