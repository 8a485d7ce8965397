"""What the rows of keyspaces tell that people should know, in any process that can read the store.

What only the process knows that has a keyspace open is in its health and metrics.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from siltstone.core.errors import CorruptDataError, FormatError, TableNotFoundError
from siltstone.core.text import counted
from siltstone.objects.errors import KeyspaceNotFoundError, RebuildingError
from siltstone.objects.ledger import manifest_of
from siltstone.objects.records.keys import (
    DOUBTFUL,
    EXPIRY,
    TASK,
    LargeStatus,
    after_prefix,
    decode_expiry_key,
    expired_until,
    large_prefix,
)
from siltstone.objects.records.large_row import decode_large_row
from siltstone.objects.records.space_rows import ValueStatus, decode_task
from siltstone.objects.snapshots import FOLD_TTL_S
from siltstone.objects.space_setup import find_space

if TYPE_CHECKING:
    from siltstone.objects.space_names import SpaceNames
    from siltstone.store.async_store import AsyncStore

LATE_S: Final = 3_600
"""Upkeep comes once a minute where a keyspace is open. After an hour nothing does it."""

TASK_LATE_S: Final = FOLD_TTL_S + LATE_S
"""A snapshot may keep what was replaced for so long."""


class KeyspaceWarningKind(StrEnum):
    """What a warning is about."""

    UNREADABLE = "unreadable"
    REBUILD = "rebuild"
    DOUBTFUL = "doubtful"
    FOOTER = "footer"
    EXPIRY = "expiry"
    TASKS = "tasks"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyspaceWarning:
    """What is to be looked at.

    Attributes:
        keyspace: its name.
        kind: what it is about.
        message: what was found, and what to do.
    """

    keyspace: str
    kind: KeyspaceWarningKind
    message: str


async def warnings_of(store: AsyncStore, names: SpaceNames) -> AsyncIterator[KeyspaceWarning]:
    """Yield what is to be looked at of a keyspace. It reads rows, and no values.

    Raises:
        SiltstoneError: the store did not answer.
    """
    try:
        await find_space(store, names, changing=True)
        found = [each async for each in _of_rows(store, names)]
    except (KeyspaceNotFoundError, TableNotFoundError):
        return  # it was removed just now
    except RebuildingError:
        found = [
            (
                KeyspaceWarningKind.REBUILD,
                "it is being rebuilt or restored, or that was interrupted: repeat it then",
            )
        ]
    except (CorruptDataError, FormatError) as error:
        found = [(KeyspaceWarningKind.UNREADABLE, f"it does not open: {error}")]
    for kind, message in found:
        yield KeyspaceWarning(keyspace=names.name, kind=kind, message=message)


async def _of_rows(
    store: AsyncStore, names: SpaceNames
) -> AsyncIterator[tuple[KeyspaceWarningKind, str]]:
    table = store.table(names.ledger)
    async for _ in table.scan(DOUBTFUL, after_prefix(DOUBTFUL)):
        yield (
            KeyspaceWarningKind.DOUBTFUL,
            "objects are absent, since the last rebuild could not know their newest change: "
            "objects doubtful lists them",
        )
        break
    rows = await manifest_of(table.scan, where=names.name)
    # What a compaction makes has a higher number than the active segment, and older changes.
    last = max((row.first_sqn for row in rows if row.status is ValueStatus.SEALED), default=0)
    stuck = [row for row in rows if row.status is ValueStatus.ROLLING and row.first_sqn < last]
    if stuck:
        yield (
            KeyspaceWarningKind.FOOTER,
            f"{names.value_segment(stuck[0].number)} gets no footer, so it is not compacted and "
            "stops backups: objects check --deep says why",
        )
    now_s = int(store.environment.time())
    async for row_key, _ in table.scan(EXPIRY, expired_until(now_s - LATE_S)):
        late_s = now_s - decode_expiry_key(row_key)[0]
        yield (
            KeyspaceWarningKind.EXPIRY,
            f"what expired takes room still, for {late_s} s: no process has the keyspace open, or "
            "its upkeep fails",
        )
        break
    count = await _late_tasks(store, names, now_s)
    if count:
        yield (
            KeyspaceWarningKind.TASKS,
            f"{counted(count, 'old value')} should be deleted by now: no process has the keyspace "
            "open, or its upkeep fails",
        )


async def _late_tasks(store: AsyncStore, names: SpaceNames, now_s: int) -> int:
    """How many value segments and large values should be gone; of some no row tells the time."""
    table, late = store.table(names.ledger), 0
    async for row_key, row in table.scan(TASK, after_prefix(TASK)):
        late += _is_late(decode_task(row.value, where=row_key.hex()), now_s)
    prefix = large_prefix(LargeStatus.DEAD)
    async for row_key, row in table.scan(prefix, after_prefix(prefix)):
        late += _is_late(decode_large_row(row.value, where=row_key.hex()).not_before_s, now_s)
    return late


def _is_late(not_before_s: int, now_s: int) -> bool:
    return 0 < not_before_s < now_s - TASK_LATE_S
