"""Updates of one table: the hot path, and the ways off it.

An update enters the batch being filled at once, and has its version then; its future completes when
the frame is acknowledged. Whatever has to wait, and most of what is refused, is a commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from siltstone.container.changes.committer import Committer
from siltstone.container.commit.back_pressure import Pressure
from siltstone.container.commit.pipeline import UPDATE_BYTES, BarrierPoint, Pipeline
from siltstone.container.commit.repeats import REFUSALS
from siltstone.container.models.segments import Put, Remove, VersionIs
from siltstone.core.errors import ConditionFailedError
from siltstone.core.records.table_record import TableEntry, encode_entries

KeyValue = tuple[bytes, bytes | None]
"""A key, and its new value or its removal."""

KeyVersion = tuple[bytes, int | None]
"""A key, and the version that it must have or that it must be absent."""


class Updater:
    """Takes the updates of single tables of one container.

    Args:
        pipeline: of the container.
        committer: does what is not plain.
        pressure: of the bytes of segments.
    """

    def __init__(self, pipeline: Pipeline, committer: Committer, pressure: Pressure) -> None:
        self._pipeline = pipeline
        self._committer = committer
        self._pressure = pressure
        self._tables = pipeline.replica.tables
        self._rows = pipeline.replica.rows
        self._create_task = asyncio.get_running_loop().create_task

    def update(
        self, table: str, changes: Sequence[KeyValue], expected: Sequence[KeyVersion] = ()
    ) -> asyncio.Future[int]:
        """Change keys of a table, all or none; the awaited result is the version of the update.

        Updates take effect in the order of their calls, unless one of them has to wait for room or
        for what its table rests on.

        Args:
            table: its name.
            changes: at least one; keys of at most ``KEY_BYTES_MAX`` bytes.
            expected: what must be assigned for any of them to happen.

        Raises, when awaited, what ``Committer.commit`` raises.
        """
        pipeline = self._pipeline
        if (
            not pipeline.admits
            or not self._pressure.open
            or (table_id := self._rows.table_id(table)) is None
        ):
            return self._create_task(self._commit(table, changes, expected))
        for key, version in expected:
            current = self._tables.pending_version(table_id, key)
            if current != version:
                failed = ConditionFailedError(
                    condition=VersionIs(table, key, version), current=current
                )
                return self._create_task(
                    self._refuse(failed, pipeline.barrier_point(), _conditions(table, expected))
                )
        entries = [TableEntry(table_id, key, value) for key, value in changes]
        encoded = encode_entries(entries)
        if len(encoded) + UPDATE_BYTES > pipeline.body_bytes_max:
            return self._create_task(self._commit(table, changes, expected))
        return pipeline.promise(pipeline.assign(entries, relief=False, encoded=encoded))

    async def _commit(
        self, table: str, changes: Sequence[KeyValue], expected: Sequence[KeyVersion]
    ) -> int:
        operations = [
            Remove(table, key) if value is None else Put(table, key, value)
            for key, value in changes
        ]
        result = await self._committer.commit(operations, _conditions(table, expected))
        return result.version

    async def _refuse(
        self, failed: ConditionFailedError, point: BarrierPoint, conditions: Sequence[VersionIs]
    ) -> int:
        """Report a failed condition, once all is durable that was assigned when it was checked."""
        try:
            await self._pipeline.barrier(point)
        except REFUSALS:
            # What it rested on was dropped.
            await self._committer.check(conditions)
            raise
        raise failed


def _conditions(table: str, expected: Sequence[KeyVersion]) -> list[VersionIs]:
    return [VersionIs(table, key, version) for key, version in expected]
