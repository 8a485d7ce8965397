"""The parts of a snapshot as files, for programs that read Parquet themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow

from siltstone.collections.part_objects import pieces_of
from siltstone.collections.place import CollectionPlace
from siltstone.collections.rows.row_schema import DIFF
from siltstone.collections.rows.snapshot import plan_snapshot
from siltstone.collections.rows.stored_run import Piece
from siltstone.collections.state.refusals import name_of
from siltstone.collections.stored_schema import row_schema_of, schemas_of
from siltstone.core.errors import CapabilityError
from siltstone.core.records.collection_part import PartFlags
from siltstone.core.records.collection_state import CollectionState
from siltstone.core.storage.optional_verbs import uri_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFile:
    """An object of Parquet, with the columns that the collection had when it was written.

    Attributes:
        uri: where Hadoop finds it.
        has_later: whether some of its rows have a ``_time`` above that of the snapshot.
        has_counts: whether its rows have ``_diff``; else each counts once.
    """

    uri: str
    has_later: bool
    has_counts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFiles:
    """All that a snapshot shows, as it lies.

    Attributes:
        columns: of the collection.
        as_of: the time; ``None`` where nothing was appended yet.
        files: the objects.
        inline: the rows that are in no object, with all columns and ``_diff``.
        cancels: whether counts of equal rows must be added up: some may be negative.
    """

    columns: pyarrow.Schema
    as_of: int | None
    files: tuple[SnapshotFile, ...]
    inline: pyarrow.Table
    cancels: bool


def files_of(state: CollectionState, place: CollectionPlace, as_of: int | None) -> SnapshotFiles:
    """Return the files of the rows at ``as_of``. Blocking, and makes no call.

    Raises:
        CapabilityError: objects of this long-term storage have no address.
        CorruptDataError: inline rows are damaged.
    """
    pieces = [
        piece
        for run in pieces_of(state.id, state.batches.items)
        for piece in run
        if as_of is not None and piece.part.time_min <= as_of
    ]
    return SnapshotFiles(
        columns=row_schema_of(state)[1].arrow,
        as_of=as_of,
        files=tuple(
            _file(state, place, piece, as_of) for piece in pieces if piece.part.inline is None
        ),
        inline=_inline_rows(
            state, place, [piece for piece in pieces if piece.part.inline is not None], as_of
        ),
        cancels=any(PartFlags.HAS_NEGATIVES in piece.part.flags for piece in pieces),
    )


def _file(
    state: CollectionState, place: CollectionPlace, piece: Piece, as_of: int | None
) -> SnapshotFile:
    assert as_of is not None, "where nothing was appended, there is no part"
    uri = uri_of(place.storage, piece.name)
    if uri is None:
        raise CapabilityError(
            "objects of this long-term storage have no address by which Spark finds them; read "
            "the collection by spark.read.format('siltstone')",
            collection=name_of(state),
        )
    return SnapshotFile(
        uri=uri,
        has_later=piece.part.time_max > as_of,
        has_counts=PartFlags.HAS_DIFF in piece.part.flags,
    )


def _inline_rows(
    state: CollectionState, place: CollectionPlace, pieces: Sequence[Piece], as_of: int | None
) -> pyarrow.Table:
    schema_id, schema = row_schema_of(state)
    shown = schema.arrow.append(pyarrow.field(DIFF, pyarrow.int64(), nullable=False))
    if as_of is None or not pieces:
        return shown.empty_table()
    splits = plan_snapshot(
        [[piece] for piece in pieces], schemas_of(state), schema_id, as_of=as_of, diffs=True
    )
    batches = [batch for split in splits for batch in split.read(place.read)]
    return pyarrow.Table.from_batches(batches, schema=shown)
