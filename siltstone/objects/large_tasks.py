"""Deleting large values that nothing needs: replaced ones, and what is left of uploads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.container.models.segments import Put, Remove, VersionIs
from siltstone.core.errors import ConditionFailedError, SegmentNotFoundError
from siltstone.objects.records.keys import (
    LargeStatus,
    after_prefix,
    decode_large_key,
    large_key,
    large_prefix,
)
from siltstone.objects.records.large_row import LargeRow, decode_large_row, encode_large_row

if TYPE_CHECKING:
    from siltstone.objects.space_parts import SpaceParts


async def do_large_tasks(space: SpaceParts) -> int:
    """Delete large values that nothing needs any longer; return how many those were.

    Raises:
        ClosedError: the keyspace was closed.
        SiltstoneError: the store refused, or did not answer; what is left is done later.
    """
    await _end_uploads(space)
    count = 0
    table = space.store.table(space.names.ledger)
    prefix = large_prefix(LargeStatus.DEAD)
    async for row_key, found in table.scan(prefix, after_prefix(prefix)):
        row = decode_large_row(found.value, where=row_key.hex())
        # Asked for each of them: a snapshot may end while others are being deleted.
        space.check_living()
        oldest = space.snapshots.oldest
        is_shown = row.sqn and oldest is not None and oldest < found.version
        if is_shown or space.store.environment.time() < row.not_before_s:
            continue
        _, number = decode_large_key(row_key)
        if not space.large.use.begin_delete(number):
            continue
        try:
            await _delete(space, number)
            await table.remove(row_key)
        finally:
            space.large.use.end_delete(number)
        count += 1
    return count


async def _end_uploads(space: SpaceParts) -> None:
    """Let what no upload goes on with be dead."""
    ledger = space.names.ledger
    prefix = large_prefix(LargeStatus.UPLOADING)
    async for row_key, found in space.store.table(ledger).scan(prefix, after_prefix(prefix)):
        _, number = decode_large_key(row_key)
        space.check_living()
        if space.large.use.is_uploading(number):
            continue
        dead = Put(ledger, large_key(LargeStatus.DEAD, number), encode_large_row(LargeRow()))
        try:
            await space.store.commit(
                [Remove(ledger, row_key), dead], [VersionIs(ledger, row_key, found.version)]
            )
        except ConditionFailedError:  # a put made it live meanwhile
            continue


async def _delete(space: SpaceParts, number: int) -> None:
    try:
        await space.store.segment(space.names.large_segment(number)).delete()
    except SegmentNotFoundError:
        return
