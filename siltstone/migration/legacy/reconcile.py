"""A look at a layout and at what a store has of it, while an owner may write both."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from siltstone.core.records.legacy_row import NEW_SEGMENTS
from siltstone.metadata.adoption_rows import layout_adoption
from siltstone.metadata.import_rows import is_named
from siltstone.metadata.legacy_rows import legacy_pages, pending_legacy
from siltstone.metadata.tables import Tables
from siltstone.migration.legacy.findings import ImportVerdict, LayoutFindings, LegacyFinding
from siltstone.migration.legacy.imported import (
    MigratedSegment,
    imported,
    sources_of,
    unmarked,
    with_files,
)
from siltstone.migration.legacy.locate import Located
from siltstone.migration.legacy.names import Naming, NoLegacyLayoutError
from siltstone.migration.legacy.plan import Action, MigrationPlan, Way, plan_migration
from siltstone.migration.source.range_compare import LOOKS_MAX
from siltstone.pipelines.store_view import StoreView

_SETTLED: Final = (Action.DONE, Action.ABSENT, Action.LEFT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a layout and a store hold of one another.

    Attributes:
        known: segments of the store that came from the layout, by their names.
        missing: segments of the layout that the store should have and lacks, by their names.
    """

    known: dict[str, MigratedSegment]
    missing: dict[str, LegacyFinding]

    def is_same(self, other: Look, name: str) -> bool:
        """Whether both show the same of a segment."""
        here = (self.known.get(name), self.missing.get(name))
        return here == (other.known.get(name), other.missing.get(name))

    def only(self, names: Collection[str]) -> Look:
        """What it shows of some segments."""
        known = {name: one for name, one in self.known.items() if name in names}
        missing = {name: one for name, one in self.missing.items() if name in names}
        return Look(known=known, missing=missing)


def look(place: Located, view: StoreView) -> Look:
    """Look at a layout, and at what a store has of it.

    The layout is examined between two looks at the store. So of a segment that the store has all
    the time, it holds no less than was flushed at the first look, and no more than there is at the
    second. Nothing can be said of what is made or deleted meanwhile.

    Args:
        place: where the layout lies.
        view: the store, opened before: whatever it shows is kept from deletion.

    Raises:
        LegacyLayoutError, OSError, ChunkError: as ``examine``.
    """
    before = view.segments()
    layout = _examined(place, view)
    view.refresh()
    after = view.segments()
    shown = {info.name: info for info in before}
    came = imported(after, place.migration, layout)
    known = {
        one.info.name: one
        for one in came
        if (was := shown.get(one.info.name)) is not None
        and was.segment_id == one.info.segment_id
        and (was.flushed_length or not one.is_unwritten)
    }
    came += imported(before, place.migration, None)
    missing = {finding.segment: finding for finding in unmarked(layout, came)}
    for name in _leaving(place, view, missing.values()):
        del missing[name]
    return Look(known=known, missing=missing)


def plan_going_on(place: Located, view: StoreView, under: str) -> MigrationPlan:
    """Say what is to be done for a store that writes the layout.

    What is not as it should be is looked at again, for an owner may change it.

    Args:
        place: where the layout lies.
        view: the store.
        under: what names in the store begin with.

    Raises:
        LegacyLayoutError, OSError, ChunkError: as ``examine``.
    """
    before = None
    for left in reversed(range(LOOKS_MAX)):
        layout = _examined(place, view)
        view.refresh()
        known = {info.name: info for info in view.segments(prefix=under)}
        plan = plan_migration(
            _without_deleted(layout, known, place, view, under),
            known,
            migration=place.migration,
            way=Way.CODE_ONLY,
            under=under,
            goes_on=True,
        )
        doubts = [one for one in plan.segments if one.action not in _SETTLED]
        if not doubts or not left or doubts == before:
            break
        before = doubts
    return plan


def _examined(place: Located, view: StoreView) -> LayoutFindings:
    """The layout; an empty one, where the store continues in it and nothing of it is left."""
    with suppress(NoLegacyLayoutError):
        return place.examine(sources_of(view.segments(), place.migration))
    # The owner may have deleted the last segment since the view was made, or make the first one.
    view.refresh()
    before = with_files(view.segments(), place.migration)
    try:
        return place.examine(sources_of(view.segments(), place.migration))
    except NoLegacyLayoutError:
        view.refresh()
        kept = before & with_files(view.segments(), place.migration)
        if kept or view.written_adoption() != place.migration:
            raise
    return LayoutFindings(where=place.place.where, naming=Naming.FILES, segments=(), strays=())


def _without_deleted(
    layout: LayoutFindings,
    known: Collection[str],
    place: Located,
    view: StoreView,
    under: str,
) -> LayoutFindings:
    """The layout as it will be when the files of deleted segments are gone."""
    new = [one for one in layout.segments if under + one.segment not in known]
    gone = _leaving(place, view, new)
    message = "the store deleted it, and its files are about to go"
    segments = (
        replace(one, verdict=ImportVerdict.ABSENT, message=message) if one.segment in gone else one
        for one in layout.segments
    )
    return replace(layout, segments=tuple(segments))


def _leaving(place: Located, view: StoreView, findings: Iterable[LegacyFinding]) -> set[str]:
    """Which of these the store deleted, and has not let go of."""
    files = {one.segment: [piece.key for piece in one.pieces] for one in findings}
    if not files:
        return set()
    return set().union(*view.ask_tables(partial(_with_rows, adoption=place.migration, files=files)))


def _with_rows(tables: Tables, *, adoption: str, files: Mapping[str, Collection[str]]) -> set[str]:
    """Which segments of a layout that is written have rows still: also deleted ones.

    Args:
        tables: of one container.
        adoption: of the layout; of another one nothing is known.
        files: segments of the layout, each with keys of its files.
    """
    new = pending_legacy(tables, NEW_SEGMENTS)
    if new is None or layout_adoption(tables, new) != adoption:
        return set()
    found = {
        name
        for name, keys in files.items()
        if any(is_named(tables, new.prefix + key) for key in keys)
    }
    for page in legacy_pages(tables):
        rows = [pending_legacy(tables, segment_id) for segment_id in page]
        found |= {row.source for row in rows if row is not None} & files.keys()
    return found
