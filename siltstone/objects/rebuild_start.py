"""The beginning of a rebuild: value segments are found, and one commit takes the ledger away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from siltstone.container.models.segments import (
    Operation,
    Put,
    RemoveRange,
    SegmentInfo,
    VersionIs,
)
from siltstone.core.errors import (
    ConditionFailedError,
    CorruptDataError,
    LostDataError,
    TableNotFoundError,
)
from siltstone.objects.errors import KeyspaceNotFoundError, RebuildingError, UnsupportedError
from siltstone.objects.ledger import Ledger
from siltstone.objects.rebuild_plan import (
    FoundSegment,
    bare_row,
    manifest_of_segments,
    state_after,
)
from siltstone.objects.records.footer import HeaderNote, note_of
from siltstone.objects.records.head import decode_head
from siltstone.objects.records.keys import (
    HEAD,
    INDEX,
    LARGE_VALUE,
    MANIFEST,
    SPACE,
    STATE,
    TASK,
    after_prefix,
    manifest_key,
    number_of_task,
)
from siltstone.objects.records.rebuild_rows import (
    Rebuild,
    RebuildPhase,
    decode_rebuild,
    encode_rebuild,
    is_rebuild,
)
from siltstone.objects.records.space_rows import (
    ManifestRow,
    Space,
    SpaceState,
    Strategy,
    ValueStatus,
    decode_space,
    decode_state,
    encode_manifest_row,
    encode_space,
)
from siltstone.objects.records.value_record import ValueKind
from siltstone.objects.space_names import FATE_ATTRIBUTE, SegmentFate, SpaceNames
from siltstone.objects.sure_headers import (
    GONE,
    HeaderGap,
    footer_headers,
    header_at,
    read_directory,
    read_trailer,
)
from siltstone.objects.value_log import FoundHeader
from siltstone.objects.value_segments import active_row

if TYPE_CHECKING:
    from siltstone.container.models.segments import TableValue
    from siltstone.store.async_store import AsyncStore


@dataclass(frozen=True, slots=True)
class _Known:
    """The value segments of a keyspace.

    Attributes:
        state: what the next batch begins with.
        lost: the manifest, when its rows have to be written again; ``None`` when they are right.
    """

    state: SpaceState
    lost: tuple[ManifestRow, ...] | None


async def space_to_rebuild(
    store: AsyncStore, names: SpaceNames, tags: Mapping[str, Strategy] | None
) -> Space:
    """Return what a keyspace is that is to be rebuilt. Nothing is changed.

    Args:
        store: of the keyspace.
        names: of the keyspace.
        tags: strategies by tag from now on; ``None`` means those of its row.

    Raises:
        KeyspaceNotFoundError: there is neither a ledger nor a value segment of this name.
        LostDataError: the row with the tags is lost, and none are given.
        UnsupportedError: that row is lost, and its heads have no values to be made again from.
        FormatError: a newer version wrote it.
    """
    try:
        row = await store.table(names.ledger).get(SPACE)
    except TableNotFoundError:
        row = None
    if row is None and not [info async for info in store.list(names.values)]:
        raise KeyspaceNotFoundError("no such keyspace", keyspace=names.name)
    try:
        space = None if row is None else decode_space(row.value, where=names.name)
    except CorruptDataError:
        space = None
    if space is None:
        if tags is None:
            raise LostDataError("the tags of the keyspace are lost: give them", where=names.name)
        await _check_has_values(store, names)
        space = Space(tags=dict(tags))
    return space if tags is None else replace(space, tags=dict(tags))


async def _check_has_values(store: AsyncStore, names: SpaceNames) -> None:
    """Refuse a keyspace of heads only whose own row is lost: a rebuild would remove all of them."""
    try:
        async for row_key, row in store.table(names.ledger).scan(HEAD, after_prefix(HEAD)):
            try:
                head = decode_head(row.value, where=row_key.hex())
            except CorruptDataError:
                continue
            if head.number:
                return
            raise UnsupportedError(
                "the row that says what the keyspace is, is lost, and its heads have no values:"
                " a backup of the store has it",
                keyspace=names.name,
            )
    except TableNotFoundError:
        return


async def begin_rebuild(store: AsyncStore, names: SpaceNames, space: Space) -> None:
    """Begin a rebuild of a keyspace that is not open, or go on with one.

    Args:
        store: of the keyspace.
        names: of the keyspace.
        space: what it is from now on.

    Raises:
        LostDataError: the manifest is lost, and cannot be told from the segments.
        RebuildingError: it is being restored, or something else rebuilds it.
        FormatError: a newer version wrote it.
        ChunkError: long-term storage refused, or did not answer.
    """
    await store.create_table(names.ledger, exist_ok=True)
    await Ledger(store, names).settle()
    state = await store.table(names.ledger).get(STATE)
    found = {
        number: info
        async for info in store.list(names.values)
        if (number := names.number_of(info.name)) is not None
    }
    operations: list[Operation] = [Put(names.ledger, SPACE, encode_space(space))]
    if state is not None and is_rebuild(state.value):
        begun = state.value
        if decode_rebuild(begun, where=names.name).phase is RebuildPhase.VALUES:
            raise RebuildingError("its restore was not ended: repeat it", keyspace=names.name)
    else:
        known = await _known(store, names, found, state) or await _found(store, names, found)
        operations.append(RemoveRange(names.ledger, LARGE_VALUE, after_prefix(INDEX)))
        if known.lost is not None:
            await store.create(names.value_segment(known.state.number), exist_ok=True)
            rows = [*known.lost, active_row(known.state)]
            operations.append(RemoveRange(names.ledger, MANIFEST, after_prefix(TASK)))
            operations += [
                Put(names.ledger, manifest_key(each.first_sqn), encode_manifest_row(each))
                for each in rows
            ]
        begun = encode_rebuild(Rebuild(phase=RebuildPhase.RECORDS, state=known.state))
    operations.append(Put(names.ledger, STATE, begun))
    version = None if state is None else state.version
    try:
        await store.commit(operations, [VersionIs(names.ledger, STATE, version)])
    except ConditionFailedError as error:
        raise RebuildingError("something else rebuilds it", keyspace=names.name) from error


async def _known(
    store: AsyncStore, names: SpaceNames, found: Mapping[int, SegmentInfo], row: TableValue | None
) -> _Known | None:
    """What the rows say of the value segments; ``None`` when they do not name all that count."""
    ledger = Ledger(store, names)
    if row is None:
        return None
    try:
        state = decode_state(row.value, where=names.name)
        manifest = await ledger.manifest()
        tasks = [
            number_of_task(key)
            async for key, _ in store.table(names.ledger).scan(TASK, after_prefix(TASK))
        ]
    except CorruptDataError:
        return None
    active = [
        (each.number, each.first_sqn) for each in manifest if each.status is ValueStatus.ACTIVE
    ]
    firsts = [each.first_sqn for each in manifest]
    lasts = [0, *(each.last_sqn for each in manifest)]
    if (
        active != [(state.number, state.first_sqn)]
        or any(first <= last for first, last in zip(firsts, lasts, strict=False))
        or state.number not in found
        or found[state.number].length != state.length
    ):
        return None
    named = {*(each.number for each in manifest), *tasks, state.next_number}
    for number, info in found.items():
        if number not in named and await _counts(store, info):
            return None
    return _Known(state, None)


async def _counts(store: AsyncStore, info: SegmentInfo) -> bool:
    """Whether a segment that no row names should be named, for all that is known."""
    fate = _fate(info)
    if fate is not SegmentFate.NONE or not info.length:
        return fate is SegmentFate.NAMED
    try:
        trailer = await read_trailer(store.segment(info.name), info.length)
    except GONE:
        return True
    return not trailer.as_of  # what a compaction made and never named does not count


def _fate(info: SegmentInfo) -> SegmentFate:
    value = info.attributes.get(FATE_ATTRIBUTE, "")
    return SegmentFate(value) if value in {each.value for each in SegmentFate} else SegmentFate.NONE


async def _found(store: AsyncStore, names: SpaceNames, found: Mapping[int, SegmentInfo]) -> _Known:
    """What the value segments themselves say, from their names, footers and attributes."""
    segments = []
    for number, info in found.items():
        fate = _fate(info)
        if info.length and fate is not SegmentFate.REPLACED:
            row = await _row(store, info, number)
            segments.append(FoundSegment(row=row, fate=fate))
    rows = manifest_of_segments(segments, where=names.name)
    number_max = max(found, default=0)
    async for info in store.list(names.large_values):  # the values of lost records stay, too
        number_max = max(number_max, names.number_of_large(info.name) or 0)
    return _Known(state_after(rows, number_max), tuple(rows))


async def _row(store: AsyncStore, info: SegmentInfo, number: int) -> ManifestRow:
    """What the manifest has to say of a segment that is not empty."""
    segment = store.segment(info.name)
    try:
        trailer = await read_trailer(segment, info.length)
        pieces = await read_directory(segment, trailer)
    except GONE:
        pieces = ()
    if not pieces:
        return await _bare_row(store, info, number)
    row = ManifestRow(
        number=number,
        status=ValueStatus.SEALED,
        first_sqn=trailer.first_sqn,
        last_sqn=trailer.last_sqn,
        length=pieces[0].offset,
        records=trailer.records,
        footer_end=info.length,
        as_of=trailer.as_of,
    )
    if not trailer.as_of:
        return row
    kept = 0
    async for page in footer_headers(
        segment,
        footer_end=row.footer_end,
        length=row.length,
        after_sqn=0,
        last_sqn=row.last_sqn,
    ):
        if not isinstance(page, HeaderGap):
            kept += sum(
                each.header.record_length
                for each in page
                if each.header.kind is not ValueKind.STANDARD
            )
    return replace(row, kept=kept)


async def _bare_row(store: AsyncStore, info: SegmentInfo, number: int) -> ManifestRow:
    """The same of a segment that has no whole footer, from its records.

    Raises:
        LostDataError: records cannot be read.
    """
    segment = store.segment(info.name)
    notes: list[HeaderNote] = []
    ends: list[FoundHeader] = []
    position = 0
    while position < info.length:
        try:
            found = await header_at(segment, position, info.length)
        except GONE:
            break
        if ends and found.header.sqn <= ends[-1].header.sqn:
            break  # the headers of the footer begin with the first one
        ends = [*ends[:1], found]
        notes.append(note_of(found.raw, found.header))
        position += found.header.record_length
    if not ends:
        raise LostDataError("records of a value segment cannot be read", where=info.name, at=0)
    try:
        rest = await segment.read(position, info.length - position)
    except CorruptDataError:
        rest = bytes(info.length - position)
    return bare_row(number, [ends[0], ends[-1]], notes, rest, info.name)
