"""A merge of all batches whose ranges of keys are merged by several workers.

It is planned here, each range is merged in any process by long-term storage alone, and what came of
all ranges is put in the place of the batches at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from siltstone.collections.compaction import always_changed, put_merge
from siltstone.collections.missing_parts import PLANS_MAX, state_without
from siltstone.collections.part_objects import pieces_of
from siltstone.collections.place import CollectionPlace, read_object
from siltstone.collections.rows.key_ranges import key_ranges
from siltstone.collections.rows.merge import merge_runs
from siltstone.collections.rows.row_schema import PackedSchema, RowSchema
from siltstone.collections.rows.stored_run import Bounds, Piece
from siltstone.collections.shared_state import SharedState
from siltstone.collections.state.compaction_plan import BatchMerge, plan_whole
from siltstone.collections.state.refusals import check_open
from siltstone.collections.state.schemas import newest_schema
from siltstone.collections.stored_schema import schemas_of
from siltstone.collections.upload_ticket import UploadTicket, UploadTickets
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import MIB
from siltstone.core.environment import Environment
from siltstone.core.errors import ChunkNotFoundError
from siltstone.core.records.collection_batch import CollectionRun
from siltstone.core.records.collection_state import CollectionState

RANGE_BYTES: Final = 64 * MIB
"""Of encoded rows that one worker merges at a time, about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRange:
    """A range of keys to be merged. It pickles, and holds no secret.

    Attributes:
        ticket: by which what comes of it is uploaded.
        number: of the range, from 0 on, in the order of keys.
        bounds: of the range.
        runs: the parts that may have such keys, in their runs.
        schemas: by id, those of the parts, packed.
        schema_id: id of the schema to write with.
        since: times below it become it.
        size: bytes that are read, about.
    """

    ticket: UploadTicket
    number: int
    bounds: Bounds
    runs: tuple[tuple[Piece, ...], ...]
    schemas: Mapping[int, PackedSchema]
    schema_id: int
    since: int
    size: int

    def merged(self, storage: ChunkStorage, environment: Environment) -> CollectionRun:
        """Merge the rows of the range, upload them, and return their parts. Blocking; repeatable.

        Args:
            storage: a client that stays the caller's.
            environment: gives randomness.

        Raises:
            CorruptDataError: bytes of a part are not what was written.
            ChunkNotFoundError: a part is gone: others merged meanwhile, or it is lost.
            ChunkError: long-term storage failed. What was written, the sweep deletes.
        """
        schemas = {
            one: RowSchema.unpacked(packed, where=f"schema {one} of a range")
            for one, packed in self.schemas.items()
        }
        merged = merge_runs(
            self.runs,
            schemas,
            self.schema_id,
            partial(read_object, storage),
            since=self.since,
            part_size=self.ticket.part_bytes,
            bounds=self.bounds,
        )
        return tuple(
            self.ticket.put(storage, one, number, environment) for number, one in enumerate(merged)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeMerge:
    """A merge that was planned.

    Attributes:
        merge: what becomes one batch.
        ticket: by which all ranges are uploaded.
        ranges: all keys, in order.
    """

    merge: BatchMerge
    ticket: UploadTicket
    ranges: tuple[MergeRange, ...]


class LargeMerges:
    """Plans large merges of one collection, and puts what came of them. Used on one loop.

    Args:
        shared: the collection.
        place: where it is.
    """

    def __init__(self, shared: SharedState, place: CollectionPlace) -> None:
        self._shared = shared
        self._place = place
        self._tickets = UploadTickets(shared, place)

    async def planned(self, range_bytes: int = RANGE_BYTES) -> LargeMerge | None:
        """Plan a merge of all batches up to the since; ``None`` where one batch is that already.

        Raises:
            LostDataError: a part is gone that the collection needs.
            CorruptDataError: a footer is not what was written.
            CollectionLimitError: there are too many writers.
            CollectionDroppedError: the collection was dropped.
            ChunkError: long-term storage did not answer.
        """
        state = await self._shared.refresh()
        for _ in range(PLANS_MAX):
            check_open(state)
            merge = plan_whole(state)
            if merge is None:
                return None
            try:
                bounds = await self._place.work(
                    partial(_bounds, state, merge, self._place, range_bytes)
                )
            except ChunkNotFoundError as error:
                state = await state_without(self._shared, error, None)
                continue
            ticket = await self._tickets.lend()
            ranges = _ranges(state, merge, ticket, bounds)
            return LargeMerge(merge=merge, ticket=ticket, ranges=ranges)
        raise always_changed(self._shared)

    async def put(self, large: LargeMerge, runs: Sequence[CollectionRun]) -> bool:
        """Put what came of all ranges, in their order; False if others changed the batches.

        Raises as ``put_merge``.
        """
        run = tuple(part for some in runs for part in some)
        return await put_merge(self._shared, self._place, large.merge, run)

    async def end(self, large: LargeMerge) -> None:
        """Take the ticket back. What was not put is swept. Raises as ``UploadTickets.end``."""
        await self._tickets.end(large.ticket)


def _bounds(
    state: CollectionState, merge: BatchMerge, place: CollectionPlace, range_bytes: int
) -> list[Bounds]:
    """Ranges of keys of a merge. Blocking."""
    runs = pieces_of(state.id, merge.inputs)
    return key_ranges(runs, schemas_of(state), place.read, range_bytes)


def _ranges(
    state: CollectionState, merge: BatchMerge, ticket: UploadTicket, bounds: Sequence[Bounds]
) -> tuple[MergeRange, ...]:
    runs = pieces_of(state.id, merge.inputs)
    schemas = {one: schema.packed() for one, schema in schemas_of(state).items()}
    total = sum(batch.length for batch in merge.inputs)
    found = []
    for number, one in enumerate(bounds):
        overlapping = (
            tuple(piece for piece in run if one.may_have(piece.part.key_min, piece.part.key_max))
            for run in runs
        )
        found.append(
            MergeRange(
                ticket=ticket,
                number=number,
                bounds=one,
                runs=tuple(run for run in overlapping if run),
                schemas=schemas,
                schema_id=newest_schema(state).schema_id,
                since=merge.since,
                size=total // len(bounds),
            )
        )
    return tuple(found)
