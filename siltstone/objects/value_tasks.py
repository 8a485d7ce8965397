"""Deleting value segments that nothing needs: replaced ones, and those that were never named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.container.models.segments import AttributeIs, SetAttribute
from siltstone.core.errors import (
    ConditionFailedError,
    CorruptDataError,
    SegmentNotFoundError,
)
from siltstone.objects.records.keys import TASK, after_prefix, number_of_task
from siltstone.objects.records.space_rows import decode_task
from siltstone.objects.space_names import FATE_ATTRIBUTE, SegmentFate

if TYPE_CHECKING:
    from siltstone.container.models.segments import SegmentInfo
    from siltstone.objects.space_parts import SpaceParts


async def do_tasks(space: SpaceParts) -> int:
    """Delete value segments that no snapshot needs any longer; return how many those were.

    Raises:
        ClosedError: the keyspace was closed.
        SiltstoneError: the store refused, or did not answer; what is left is done later.
    """
    count = 0
    table = space.store.table(space.names.ledger)
    async for row_key, found in table.scan(TASK, after_prefix(TASK)):
        not_before_s = decode_task(found.value, where=row_key.hex())
        # Asked for each task: a compaction may add some while others are being done.
        space.check_living()
        oldest = space.snapshots.oldest
        is_needed = oldest is not None and oldest < found.version
        if is_needed or space.store.environment.time() < not_before_s:
            continue
        await _delete(space, space.names.value_segment(number_of_task(row_key)))
        await table.remove(row_key)
        count += 1
    return count


async def delete_unnamed(space: SpaceParts) -> None:
    """Delete value segments that a compaction made and that the manifest never named.

    The commit that names them may be on its way: its caller was cancelled, or belongs to the same
    keyspace before it was closed and opened again. So each of them is first said to be replaced, on
    the condition that it has not been named, and the other commit has the like condition.

    Raises:
        SiltstoneError: the store refused, or did not answer.
    """
    await space.ledger.settle()
    state = await space.ledger.state()
    manifest = await space.manifest.now()
    if state is None:
        raise CorruptDataError("keyspace has no state", where=space.names.name)
    table = space.store.table(space.names.ledger)
    tasks = [number_of_task(key) async for key, _ in table.scan(TASK, after_prefix(TASK))]
    known = {*manifest.numbers, *tasks}
    for info in [each async for each in space.store.list(space.names.values)]:
        number = space.names.number_of(info.name)
        if number is None or number in known or number >= state.state.next_number:
            continue
        if await _is_given_up(space, info):
            await _delete(space, info.name)


async def _is_given_up(space: SpaceParts, info: SegmentInfo) -> bool:
    """Say that a segment is to be deleted, unless the manifest names it meanwhile."""
    fate = info.attributes.get(FATE_ATTRIBUTE)
    if fate == SegmentFate.REPLACED.value:
        return True
    says = SetAttribute(info.name, FATE_ATTRIBUTE, SegmentFate.REPLACED.value)
    try:
        await space.store.commit([says], [AttributeIs(info.name, FATE_ATTRIBUTE, None)])
    except (ConditionFailedError, SegmentNotFoundError):
        return False
    return True


async def free_number(space: SpaceParts, number: int) -> None:
    """Delete the empty segment that a roll may have left under a number that was given just now.

    The commit of that roll did not take place, else the number were not given, and cannot any more.

    Raises:
        SiltstoneError: the store refused, or did not answer.
    """
    await _delete(space, space.names.value_segment(number))


async def _delete(space: SpaceParts, segment: str) -> None:
    try:
        await space.store.segment(segment).delete()
    except SegmentNotFoundError:
        return
