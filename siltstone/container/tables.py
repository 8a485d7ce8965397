"""Making tables. What is in them changes by commits."""

from __future__ import annotations

from siltstone.container.pipeline import Pipeline
from siltstone.container.repeats import assured
from siltstone.core.errors import TableExistsError
from siltstone.core.records.keys import CounterKind
from siltstone.core.words import check_segment_name
from siltstone.metadata.changes import put_counter, put_table


class TableVerbs:
    """Creates the tables of one container."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._rows = pipeline.replica.rows

    async def create(self, table: str, *, exist_ok: bool) -> None:
        """Make an empty table; names of tables follow the rules of segment names.

        Raises:
            TableExistsError: there is one, unless ``exist_ok``.
        """
        check_segment_name(table)
        if not await self._exists(table):
            await self._pipeline.admit_update()
            if not await self._exists(table):
                await self._make(table)
                return
        if not exist_ok:
            raise TableExistsError("table exists", table=table)

    async def _exists(self, table: str) -> bool:
        if self._rows.pending_table_id(table) is None:
            return False
        await assured(self._pipeline, lambda: self._rows.table_id(table) is not None)
        return True

    async def _make(self, table: str) -> None:
        table_id = self._rows.pending_counter(CounterKind.TABLE_ID)
        entries = [put_counter(CounterKind.TABLE_ID, table_id + 1), put_table(table, table_id)]
        await self._pipeline.update(entries, relief=False)
