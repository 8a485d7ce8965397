"""What a keyspace does after a recovery without tier 1, before anything is asked of it.

The recovery went on from a state of long-term storage, so the newest changes may be gone. Callers
may still know their SQNs, and give one as ``expected``: no other change may get it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from siltstone.container.models.segments import Operation, Put, Remove, VersionIs
from siltstone.objects.ledger import Versioned
from siltstone.objects.records.keys import STATE, manifest_key
from siltstone.objects.records.space_rows import encode_manifest_row, encode_state
from siltstone.objects.space_setup import FoundSpace
from siltstone.objects.value_segments import active_row, following_state, full_row

if TYPE_CHECKING:
    from siltstone.objects.space_names import SpaceNames
    from siltstone.store.async_store import AsyncStore

FAR: Final = 2**40
"""A recovery makes the table version higher by this at least, and nothing else comes to as much."""

PASSED: Final = 2**32
"""SQNs that are passed over for each recovery: more than tier 1 can have held."""


async def pass_lost_sqns(store: AsyncStore, names: SpaceNames, found: FoundSpace) -> FoundSpace:
    """Give no SQN again that a change may have had which a recovery lost; return what is there now.

    Nothing changes where there was no recovery since the last change. A segment that has records
    takes no more, so that the SQNs of each go on without a gap.

    Raises:
        ConditionFailedError: something else wrote to the keyspace.
        BackPressureError, SafeModeError, StorageFullError: no room; nothing was changed.
        OutcomeUnknownError: the log failed; a repeat tells.
    """
    state, ledger = found.found.state, names.ledger
    recoveries = (await store.table(ledger).version() - found.found.version) // FAR
    if not recoveries:
        return found
    # What was passed over after one of them may have been lost by the next one.
    next_sqn = state.next_sqn + recoveries * PASSED
    operations: list[Operation] = []
    if state.records or state.length:
        full, following = full_row(state), following_state(state, next_sqn)
        await store.create(names.value_segment(following.number), exist_ok=True)
        rows = (*found.manifest[:-1], full, active_row(following))
        operations.append(Put(ledger, manifest_key(full.first_sqn), encode_manifest_row(full)))
    else:
        following = replace(state, next_sqn=next_sqn, first_sqn=next_sqn)
        rows = (*found.manifest[:-1], active_row(following))
        operations.append(Remove(ledger, manifest_key(state.first_sqn)))
    active = rows[-1]
    operations += [
        Put(ledger, manifest_key(active.first_sqn), encode_manifest_row(active)),
        Put(ledger, STATE, encode_state(following)),
    ]
    result = await store.commit(operations, [VersionIs(ledger, STATE, found.found.version)])
    return FoundSpace(found.space, Versioned(following, result.version), rows)
