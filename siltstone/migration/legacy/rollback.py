"""The end of a migration: back to the layout, or for good.

Until it is finalised, every old file is where it was. A rollback first writes what was appended
since in the old layout, checks whether a reader of it would find everything, and only then removes
segments from the store. Each step may be repeated.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from typing import Final

from siltstone.core.errors import ChunkNotFoundError, SiltstoneError
from siltstone.core.posix import SystemFileCalls, sync_folder
from siltstone.core.text import counted
from siltstone.migration.legacy.findings import ImportVerdict, LayoutFindings, LegacyFinding, Reason
from siltstone.migration.legacy.folder_write import (
    BUFFER_BYTES,
)
from siltstone.migration.legacy.folder_writer import WAY_OUT, FolderWriter
from siltstone.migration.legacy.imported import (
    MigratedSegment,
    MigrationStateError,
    imported,
    sources_of,
    with_files,
)
from siltstone.migration.legacy.locate import Located
from siltstone.migration.legacy.names import (
    NoLegacyLayoutError,
    is_chained,
)
from siltstone.migration.legacy.plan import MARK, ORIGIN, SOURCE
from siltstone.migration.legacy.storage_write import CannotWriteError, LegacyStorageWriter
from siltstone.pipelines.work import FAILED, OK, ItemOutcome
from siltstone.store.store import Store
from siltstone.store.store_assembly import storage_of

REAPPEARS: Final = "reappears"
"""The layout shows bytes that were truncated in the store since."""


def roll_back(place: Located, store: Store) -> Generator[ItemOutcome]:
    """Go back to the layout, and let the store forget what came from it.

    Args:
        place: where the layout lies.
        store: open, and owned with all of its containers.

    Yields:
        For each segment ``ok`` or ``reappears`` with the bytes that were written to the layout, or
        ``failed``; then the store still has it.

    Raises:
        NoLegacyLayoutError: the folder is gone, though it is needed; nothing was changed.
        MigrationStateError: there is no such migration, it was finalised, or a segment changed that
            the layout cannot take; nothing was changed.
    """
    _check_folder(place, store)
    goes_on = store.written_adoption() == place.migration
    if goes_on:
        store.flush()  # which is what brings all of it to the layout
    layout, known, adoption = _back(place, store)
    written: dict[str, int] = {}
    failed: dict[str, str] = {}
    for one in known:
        try:
            if not goes_on:
                _check_same(place, store, one)
            written[one.info.name] = _write_back(place, layout, store, one)
        except (SiltstoneError, OSError, CannotWriteError) as error:
            failed[one.info.name] = str(error)
    if any(map(_is_changed, known)):
        layout = _layout(place, store)
    again = imported((one.info for one in known), place.migration, layout)
    problems = {one.info.name: failed.get(one.info.name) or _not_back(one) for one in again}
    if goes_on:
        if any(problems.values()):
            # What is deleted from the store goes from the layout as well, as long as it continues.
            for name, problem in problems.items():
                text = problem or "another segment is not back, so nothing was removed"
                yield ItemOutcome(subject=name, status=FAILED, message=text)
            return
        store.end_write_through()
    for one in again:
        name, problem = one.info.name, problems[one.info.name]
        if problem:
            yield ItemOutcome(subject=name, status=FAILED, message=problem)
            continue
        store.segment(name).delete()
        message = _shown_again(one)
        status = REAPPEARS if message else OK
        yield ItemOutcome(subject=name, status=status, length=written[name], message=message)
    if adoption is not None:
        released = store.release_adoption(place.migration)
        if released.in_use:
            message = f"{counted(released.in_use, 'file')} of it: chunks of segments that stay"
            yield ItemOutcome(subject=place.migration, status=FAILED, message=message)


def look_at_roll_back(place: Located, store: Store) -> Generator[ItemOutcome]:
    """Say of each segment what ``roll_back`` would do; ``store`` may be read-only.

    Raises like ``roll_back``. It does not report what only writing, or comparing bytes, can show.
    """
    _check_folder(place, store)
    for one in _back(place, store)[1]:
        lacks = one.info.length - one.finding.length if one.finding and _is_changed(one) else 0
        text = f"would leave the store, with {counted(max(0, lacks), 'byte')} written to the layout"
        yield ItemOutcome(subject=one.info.name, status=OK, length=max(0, lacks), message=text)


def look_at_end(place: Located, store: Store) -> Generator[ItemOutcome]:
    """Say of each segment that ``finalise`` would end its migration; ``store`` may be read-only.

    Raises like ``finalise``.
    """
    _check_folder(place, store)
    known, adoption = _ready(place, store)
    for one in known:
        spent = sum(1 for _ in _spent(one.finding)) if one.finding and adoption is not None else 0
        text = f"would be an ordinary segment; {counted(spent, 'file')} of the layout would go"
        yield ItemOutcome(subject=one.info.name, status=OK, message=text)


def _back(
    place: Located, store: Store
) -> tuple[LayoutFindings | None, Sequence[MigratedSegment], bool | None]:
    """What a rollback begins with: the layout, what came from it, the state of its adoption.

    Raises:
        MigrationStateError: see ``roll_back``.
    """
    layout = _layout(place, store)
    known = imported(store.list(), place.migration, layout)
    adoption = _adoption(store, place.migration)
    if adoption is not None and adoption:
        raise MigrationStateError("the migration was finalised", migration=place.migration)
    if not known and adoption is None:
        raise MigrationStateError("no such migration", migration=place.migration)
    _check_writable(place, layout, store, known)
    return layout, known, adoption


def _ready(place: Located, store: Store) -> tuple[Sequence[MigratedSegment], bool | None]:
    """What the end of a migration begins with: what came, and the state of its adoption.

    Raises:
        MigrationStateError: see ``finalise``.
    """
    known = imported(store.list(), place.migration, _layout(place, store))
    adoption = _adoption(store, place.migration)
    if not known and adoption is None:
        raise MigrationStateError("no such migration", migration=place.migration)
    partial = [one.info.name for one in known if not one.is_whole]
    if partial:
        count = counted(len(partial), "segment")
        text = f"{count} did not come whole, such as {partial[0]}: migrate again"
        raise MigrationStateError(text, migration=place.migration)
    return known, adoption


def finalise(place: Located, store: Store) -> Generator[ItemOutcome]:
    """Make a migration final: if it was in place, old files are ordinary chunks from then on.

    Headers of imported segments, and their empty files, are deleted where the layout became chunks;
    where it was copied it stays as it is.

    Yields:
        For each segment ``ok``.

    Raises:
        NoLegacyLayoutError: the folder is gone, though it is needed; nothing was changed.
        MigrationStateError: there is no such migration, or some of it did not come yet.
    """
    _check_folder(place, store)
    if store.written_adoption() == place.migration:
        store.end_write_through()
    known, adoption = _ready(place, store)
    if adoption is not None:
        store.finalise_adoption(place.migration)
        spent = [key for one in known if one.finding for key in _spent(one.finding)]
        _remove(place, spent)
    for one in known:
        store.segment(one.info.name).set_attributes({MARK: None, ORIGIN: None, SOURCE: None})
        yield ItemOutcome(subject=one.info.name, status=OK)


def _check_folder(place: Located, store: Store) -> None:
    """Accept that a folder is gone only where its files became chunks that no segment has.

    Raises:
        NoLegacyLayoutError: it is gone otherwise.
    """
    try:
        place.check_folder()
    except NoLegacyLayoutError:
        adopted = _adoption(store, place.migration) is not None
        if not adopted or with_files(store.list(), place.migration):
            raise


def _layout(place: Located, store: Store) -> LayoutFindings | None:
    try:
        return place.examine(sources_of(store.list(), place.migration))
    except NoLegacyLayoutError:
        return None


def _adoption(store: Store, migration: str) -> bool | None:
    """Whether an adoption of this name was finalised; ``None`` when there is none."""
    states = [one.finalised for one in store.adoptions() if one.name == migration]
    return any(states) if states else None


def _spent(finding: LegacyFinding) -> Iterator[str]:
    if finding.header_key is not None:
        yield finding.header_key
    yield from finding.other_keys


def _remove(place: Located, keys: Sequence[str]) -> None:
    """Delete files of the layout that hold no byte of a segment. Repeatable."""
    if place.folder is not None:
        for key in keys:
            (place.folder / key).unlink(missing_ok=True)
        for folder in {(place.folder / key).parent for key in keys}:
            sync_folder(SystemFileCalls(), str(folder))
        return
    with closing(storage_of(place.settings)) as storage:
        for key in keys:
            try:
                storage.delete(f"{place.prefix}{key}")
            except ChunkNotFoundError:
                continue


# --- what was appended since ----------------------------------------------------------------------


def _write_back(
    place: Located, layout: LayoutFindings | None, store: Store, one: MigratedSegment
) -> int:
    """Write what the layout lacks of a segment; return how many bytes."""
    finding = one.finding
    if layout is None or finding is None or not _is_changed(one):
        return 0
    if finding.length < one.origin.length:
        return 0
    if place.folder is None:
        with closing(storage_of(place.settings)) as storage:
            writer = LegacyStorageWriter(storage, place.prefix or "", layout.naming, store)
            return writer.write(one, finding)
    return FolderWriter(place.folder, layout, store).write(one, finding)


def _check_same(place: Located, store: Store, one: MigratedSegment) -> None:
    """Compare what the layout has since: written by the store, or by a rollback that died.

    Raises:
        CannotWriteError: the layout has other bytes there than the store.
    """
    finding = one.finding
    if finding is None:
        return
    segment, end = store.segment(one.info.name), min(finding.length, one.info.length)
    for piece in finding.pieces:
        position = max(piece.start, one.origin.length, one.info.start_offset)
        while position < (stop := min(piece.start + piece.length, end)):
            theirs = bytearray(min(BUFFER_BYTES, stop - position))
            place.place.read_into(piece.key, position - piece.start, memoryview(theirs))
            if bytes(segment.read(position, len(theirs))) != theirs:
                raise CannotWriteError(f"the layout has other bytes from {position} on; {WAY_OUT}")
            position += len(theirs)


def _is_changed(one: MigratedSegment) -> bool:
    """Whether the layout lacks what happened since; a later look reports what it lost."""
    finding = one.finding
    if finding is None or finding.verdict is not ImportVerdict.IMPORTABLE:
        return False
    lacks = finding.length < one.info.length and one.is_whole
    return lacks or finding.sealed != _shall_be_sealed(one)


def _check_writable(
    place: Located, layout: LayoutFindings | None, store: Store, known: Sequence[MigratedSegment]
) -> None:
    """Check whether the layout can take all that changed, before anything is written.

    Raises:
        MigrationStateError: it cannot; one segment is named, and why.
    """
    changed = [
        (one, one.finding)
        for one in known
        if one.finding is not None and _is_changed(one) and one.finding.length >= one.origin.length
    ]
    problems = [
        f"{one.info.name}: its files are named as on HDFS before 0.3, and nothing is added to such"
        for one, finding in changed
        if is_chained(finding.segment, finding.main_key)
    ]
    if place.folder is None and layout is not None and changed and not problems:
        with closing(storage_of(place.settings)) as storage:
            writer = LegacyStorageWriter(storage, place.prefix or "", layout.naming, store)
            for one, finding in changed:
                try:
                    writer.check(one, finding, sealed=_shall_be_sealed(one))
                except CannotWriteError as error:
                    problems.append(f"{one.info.name}: {error}")
    if problems:
        raise MigrationStateError(
            f"{counted(len(problems), 'segment')} changed and cannot be written back, such as "
            f"{problems[0]}; {WAY_OUT}",
            migration=place.migration,
        )


def _shall_be_sealed(one: MigratedSegment) -> bool:
    return one.info.sealed and one.is_whole


def _not_back(one: MigratedSegment) -> str:
    """Why the layout does not hold a segment as the store has it; empty when it does."""
    finding = one.finding
    if one.is_unwritten and not one.info.length and not one.info.sealed:
        return ""
    if finding is not None and finding.reason is Reason.UNREADABLE:
        return f"the layout cannot be read, so repeat: {finding.message}"
    if finding is None or finding.verdict is not ImportVerdict.IMPORTABLE:
        return f"the layout does not hold it any more; {WAY_OUT}"
    wanted = max(one.info.length, one.origin.length) if one.is_whole else one.origin.length
    if finding.length != wanted:
        return f"the layout ends at {finding.length}, and the store at {one.info.length}"
    if one.is_whole and finding.sealed != one.info.sealed:
        return "the layout does not say that it is sealed"
    return ""


def _shown_again(one: MigratedSegment) -> str:
    if one.finding is not None and one.finding.start < one.info.start_offset and one.is_whole:
        return f"bytes from {one.finding.start} to {one.info.start_offset} can be read again"
    return ""
