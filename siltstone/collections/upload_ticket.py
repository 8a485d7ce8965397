"""Uploads by processes that have no collection open: by a writer that another one registers.

A ticket is made by a collection, is used anywhere, by long-term storage alone, and ends with the
one append that takes what was uploaded. Nothing renews its lease: neither the process that made it
nor any that uses it has to live as long as the work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

import pyarrow

from siltstone.collections.async_writer import CollectionBatchRows
from siltstone.collections.part_puts import put_part
from siltstone.collections.place import CollectionPlace
from siltstone.collections.rows.encode_parts import encode_updates
from siltstone.collections.rows.encoded_part import EncodedPart
from siltstone.collections.rows.input_rows import table_of_rows
from siltstone.collections.rows.row_schema import DIFF, PackedSchema, RowSchema
from siltstone.collections.shared_state import SharedState
from siltstone.collections.state.writers import leave_writer, register_writer
from siltstone.collections.stored_schema import row_schema_of
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import MIB
from siltstone.core.environment import Environment, SystemEnvironment
from siltstone.core.records.collection_batch import CollectionRun
from siltstone.core.records.collection_part import CollectionPart
from siltstone.core.text import uuid_text
from siltstone.store.worker_store import worker_store

TICKET_LEASE_MS: Final = 24 * 60 * 60 * 1000
"""As long as a job may take. Garbage since its beginning stays as long if no process ends it."""

RUN_BYTES: Final = 128 * MIB
"""Of rows in memory that are sorted at once. A worker holds about three times as much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadTicket:
    """The right to upload rows, all of which one append takes. It pickles, and holds no secrets.

    Attributes:
        store_id: of the store, 16 bytes.
        collection_id: 16 bytes.
        writer: name of the writer that was registered.
        writer_id: its id, in the names of parts.
        born: what parts have in their names.
        schema_id: id of the schema of the rows.
        schema: the same, packed.
        part_bytes: of an object of rows, at most.
    """

    store_id: bytes
    collection_id: bytes
    writer: str
    writer_id: int
    born: int
    schema_id: int
    schema: PackedSchema
    part_bytes: int

    @property
    def row_schema(self) -> RowSchema:
        """Columns of the rows."""
        return RowSchema.unpacked(self.schema, where="schema of an upload ticket")

    def put(
        self, storage: ChunkStorage, encoded: EncodedPart, number: int, environment: Environment
    ) -> CollectionPart:
        """Write the object of a part, and return its row. Blocking; raises as ``put_part``.

        Args:
            storage: long-term storage.
            encoded: what is written; a part that is inline stays as it is.
            number: of the part among those of its uploader.
            environment: gives randomness.
        """
        if encoded.part.inline is not None:
            return encoded.part
        part = replace(encoded.part, writer=self.writer_id, born=self.born, number=number)
        return put_part(storage, self.collection_id, part, encoded.buffers, environment)


class UploadTickets:
    """Tickets of one collection. Used on one loop.

    Args:
        shared: the collection.
        place: where it is.
    """

    def __init__(self, shared: SharedState, place: CollectionPlace) -> None:
        self._shared = shared
        self._place = place

    async def lend(self) -> UploadTicket:
        """Register a writer for a day, and return its ticket.

        Raises:
            CollectionLimitError: there are too many writers.
            CollectionDroppedError: the collection was dropped.
            OutcomeUnknownError: whether it was registered is not known.
            ChunkError: long-term storage did not answer.
        """
        writer_id = self._place.random_u64()
        row = await self._shared.run(
            partial(
                register_writer,
                name=f"ticket-{writer_id:016x}",
                writer_id=writer_id,
                lease_ms=TICKET_LEASE_MS,
                who=self._place.who,
            )
        )
        schema_id, schema = row_schema_of(self._shared.state)
        return UploadTicket(
            store_id=self._place.store_id,
            collection_id=self._shared.id,
            writer=row.name,
            writer_id=row.id,
            born=row.hold,
            schema_id=schema_id,
            schema=schema.packed(),
            part_bytes=self._place.settings.part_bytes,
        )

    async def end(self, ticket: UploadTicket) -> None:
        """Take a ticket back: what was not appended never can be, and is swept. May be repeated.

        Raises:
            OutcomeUnknownError: whether it ended is not known.
            ChunkError: long-term storage did not answer.
        """
        await self._shared.run(partial(leave_writer, name=ticket.writer))


def upload_rows(
    path: Path | str, ticket: UploadTicket, tables: Iterable[pyarrow.Table]
) -> CollectionBatchRows:
    """Upload rows in any process, to be appended once together with all others of the ticket.

    Args:
        path: of the settings file of the store, or of its folder, as this process sees it.
        ticket: by the collection.
        tables: rows; or updates with ``_diff``, which take rows away where it is negative. 128 MiB
            of them are held in memory, and sorted.

    Raises:
        CollectionSchemaError: rows do not fit the schema; the message names the column.
        StoreError: another store is there.
        ChunkError: long-term storage failed. What was written, the sweep deletes.
    """
    with (
        closing(SystemEnvironment()) as environment,
        closing(worker_store(str(path), uuid_text(ticket.store_id))) as storage,
    ):
        return rows_uploaded(storage, ticket, tables, environment)


def rows_uploaded(
    storage: ChunkStorage,
    ticket: UploadTicket,
    tables: Iterable[pyarrow.Table],
    environment: Environment,
) -> CollectionBatchRows:
    """Upload rows by a client that stays the caller's. Raises as ``upload_rows``."""
    numbers = count()
    schema = ticket.row_schema
    runs: list[CollectionRun] = []
    for table in heaps_of(_updates_of(schema, table) for table in tables):
        encoded = encode_updates(
            table, schema, ticket.schema_id, part_size=ticket.part_bytes, inline=False
        )
        run = tuple(ticket.put(storage, one, next(numbers), environment) for one in encoded)
        if run:
            runs.append(run)
    return CollectionBatchRows(collection_id=ticket.collection_id, runs=tuple(runs))


def _updates_of(schema: RowSchema, table: pyarrow.Table) -> pyarrow.Table:
    if DIFF not in table.column_names:
        return table_of_rows(schema, table)
    rows = table_of_rows(schema, table.drop_columns([DIFF]))
    return rows.append_column(table.schema.field(DIFF), table[DIFF])


def heaps_of(tables: Iterable[pyarrow.Table]) -> Iterator[pyarrow.Table]:
    """Join tables to heaps of about ``RUN_BYTES``, each of which becomes one run."""
    held: list[pyarrow.Table] = []
    size = 0
    for table in tables:
        held.append(table)
        size += table.nbytes
        if size >= RUN_BYTES:
            yield pyarrow.concat_tables(held)
            held, size = [], 0
    if held:
        yield pyarrow.concat_tables(held)
