"""Imports of tables that lie elsewhere: all of their rows in one append, once for each content."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from siltstone.collections.async_writer import (
    AppendResult,
    AsyncCollectionWriter,
    CollectionBatchRows,
)
from siltstone.collections.import_plan import ImportWish, planned_import
from siltstone.collections.part_objects import PartObjects
from siltstone.collections.place import CollectionPlace
from siltstone.collections.rows.encode_parts import at_time
from siltstone.collections.shared_state import SharedState
from siltstone.collections.source_parts import SourceParts
from siltstone.collections.sources.table_source import Note, TableSource
from siltstone.collections.state.appends import Appended
from siltstone.collections.stored_schema import row_schema_of
from siltstone.collections.uploads import Uploads
from siltstone.core.errors import Outcome, SiltstoneError
from siltstone.core.records.collection_frontier import TIME_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionImport:
    """An import that counts once.

    Attributes:
        time: of the rows; in a dry run the one that they would have now.
        upper: of the collection after it; 2^64 - 1 if no time is left.
        repeated: an earlier call had imported this content of the source; this one read nothing.
        rows: how many rows this call appended, none in a dry run.
        files: how many files it read.
        taken: how many of them became objects of the collection as they are.
    """

    time: int
    upper: int
    repeated: bool
    rows: int
    files: int
    taken: int


class RowImports:
    """Imports into one collection. Used on one loop.

    Args:
        shared: the collection.
        place: where it is.
        uploads: rows of writers that upload.
        writer_of: gives the writer of a name.
    """

    def __init__(
        self,
        shared: SharedState,
        place: CollectionPlace,
        uploads: Uploads,
        writer_of: Callable[[str], AsyncCollectionWriter],
    ) -> None:
        self._shared = shared
        self._place = place
        self._uploads = uploads
        self._writer_of = writer_of
        self._objects = PartObjects(place, shared.id)

    async def run(
        self,
        source: TableSource,
        wish: ImportWish,
        *,
        progress: Note | None = None,
        dry_run: bool = False,
        begun: SourceParts | None = None,
    ) -> CollectionImport:
        """Append all rows of ``source`` at one time. See ``AsyncCollection.import_rows``.

        Args:
            source: what is imported.
            wish: how.
            progress: told what is read.
            dry_run: look only at what is looked at before rows are read.
            begun: parts for this collection as it was made; not used where it has changed since.
        """
        state = await self._shared.refresh()
        now_ms = self._place.now_ms()
        plan = planned_import(state, now_ms, source, wish, who=self._place.who)
        if plan.repeated or dry_run:
            return told_plan(plan)
        schema_id, schema = row_schema_of(state)
        made = begun
        if made is None or (made.schema_id, made.schema) != (schema_id, schema):
            size = self._place.settings.part_bytes
            made = SourceParts(source, schema, schema_id, size, progress)
        expected = None if wish.time is None else state.upper
        return _import(await self._appended(made, wish, expected), made)

    async def _appended(
        self, made: SourceParts, wish: ImportWish, expected: int | None
    ) -> AppendResult:
        by = self._writer_of(wish.writer)
        async with self._uploads.taken() as row:
            try:
                runs = made.split(await self._uploads.upload(row, made.parts()))
            except Exception:
                with suppress(SiltstoneError):  # Its lease ends.
                    await self._uploads.end(row)  # So the sweep may delete what was uploaded.
                raise
            time = wish.time
            if time is not None:
                runs = [tuple(at_time(part, time) for part in run) for run in runs]
            batch = CollectionBatchRows(collection_id=self._shared.id, runs=tuple(runs))
            try:
                result = await by.append_batches(
                    [batch],
                    sequence=wish.sequence,
                    expected_upper=expected,
                    new_upper=wish.new_upper,
                )
            except SiltstoneError as error:
                if error.outcome is Outcome.NOT_APPLIED:  # None of its tries: no state has them.
                    await self._objects.discard(runs)
                raise
            if result.repeated:  # Another process was faster.
                await self._objects.discard(runs)
            return result


def told_plan(plan: Appended) -> CollectionImport:
    """What a caller is told of an import that reads nothing."""
    return CollectionImport(
        time=min(max(0, plan.upper - 1), TIME_MAX),
        upper=plan.upper,
        repeated=plan.repeated,
        rows=0,
        files=0,
        taken=0,
    )


def _import(result: AppendResult, made: SourceParts) -> CollectionImport:
    return CollectionImport(
        time=result.time,
        upper=result.upper,
        repeated=result.repeated,
        rows=0 if result.repeated else made.rows,
        files=0 if result.repeated else made.files,
        taken=0 if result.repeated else made.taken,
    )
