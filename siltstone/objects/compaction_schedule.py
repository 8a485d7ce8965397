"""Value compaction by itself: when it is worth a look, when it may begin, and what health tells.

No rule that keeps data safe is here: a compaction that begins at a bad time is slow, not wrong.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterator
from typing import TYPE_CHECKING, Final

from siltstone.container.models.health import HealthReason
from siltstone.core.errors import CorruptDataError, FencedError, SiltstoneError
from siltstone.objects.errors import CompactionBusyError
from siltstone.objects.records.space_rows import ValueStatus
from siltstone.store.system_table import is_pressed, is_well

if TYPE_CHECKING:
    from siltstone.objects.space_parts import SpaceParts
    from siltstone.objects.value_compaction import CompactionReport
    from siltstone.store.settings.objects_section import ObjectsSection

_log = logging.getLogger(__name__)

ROUND_EVERY_S: Final = 600.0
"""A round reads one row and the manifest, unless much was changed. Old values wait for ten minutes
without harm."""

CHANGES_SHARE: Final = 8
"""A look goes through all heads. It is due after an eighth as many changes as full segments have
records: then it costs about as much as the changes did, and an eighth of the room at most is not
seen to be needless."""

REST_S: Final = 10.0
"""Between two compactions, so that other work has its turn."""

LATE_S: Final = 86_400.0
"""Compactions that are due and were held up for a day are told: hours or storage do not suffice."""

Compact = Callable[[Collection[int]], Awaitable["CompactionReport"]]
"""Compacts once, without segments of these numbers."""

Look = Callable[[], Awaitable[bool]]
"""Looks whether a compaction is worth it."""


def is_due(changes: int, records: int) -> bool:
    """Whether a look at all heads is worth it.

    Args:
        changes: since the last look.
        records: of the full value segments.
    """
    return 0 < records <= changes * CHANGES_SHARE


def is_in_hours(hours: tuple[int, int] | None, now_s: float) -> bool:
    """Whether a time, in seconds since 1970, is in these hours of the day, in UTC.

    Args:
        hours: the first one and the one after the last, perhaps of the next day; ``None`` for any.
        now_s: the time.
    """
    if hours is None:
        return True
    begin, end = hours
    hour = int(now_s // 3_600) % 24
    return begin <= hour < end if begin < end else hour >= begin or hour < end


class CompactionSchedule:
    """Compacts a keyspace, or only looks whether that is worth it, as the settings say.

    Args:
        parts: of the keyspace.
        settings: how keyspaces are used.
        compact: compacts once.
        look: looks whether a compaction is worth it.
    """

    def __init__(
        self, parts: SpaceParts, settings: ObjectsSection, compact: Compact, look: Look
    ) -> None:
        self._parts = parts
        self._settings = settings
        self._compact = compact
        self._look = look
        self._looked_sqn: int | None = None
        self._reaped = 0
        self._unreadable: tuple[int, ...] = ()
        self._failed = False
        self._wanted = False
        self._held_since_s: float | None = None

    def reaped(self, count: int) -> None:
        """So many objects expired and were removed, without a record."""
        self._reaped += count

    def reported(self, report: CompactionReport) -> None:
        """A compaction has ended, of this schedule or of a caller."""
        self._failed = False
        self._unreadable = report.unreadable
        if not report.run:
            self._wanted = False

    def reasons(self) -> Iterator[HealthReason]:
        """What to know of compaction."""
        if self._failed or self._unreadable:
            yield HealthReason.COMPACTION_FAILS
        since_s = self._held_since_s
        is_late = since_s is not None and self._monotonic() - since_s >= LATE_S
        if self._wanted or is_late:
            yield HealthReason.COMPACTION_NEEDED

    def _monotonic(self) -> float:
        return self._parts.store.environment.monotonic()

    async def run(self) -> None:
        """Make rounds until cancelled, or until another owner has the store."""
        while True:
            await self._parts.store.environment.sleep(ROUND_EVERY_S)
            try:
                await self._round()
            except FencedError:
                return
            except CompactionBusyError:
                continue
            except SiltstoneError as error:  # a container that is closed may be open again soon
                if not self._failed:
                    name = self._parts.names.name
                    _log.warning("values of keyspace %s are not compacted: %s", name, error)
                self._failed = True

    async def _round(self) -> None:
        next_sqn = await self._due()
        if next_sqn is not None:
            reaped = self._reaped
            if self._settings.compact == "manual":
                self._wanted = await self._look()
            elif not await self._compacted():
                if self._held_since_s is None:
                    self._held_since_s = self._monotonic()
                return
            self._looked_sqn = next_sqn
            self._reaped -= reaped
        self._held_since_s = None
        self._failed = False

    async def _due(self) -> int | None:
        """The SQN of the next change, if a look is due; else ``None``."""
        parts = self._parts
        found = await parts.ledger.state()
        if found is None:
            raise CorruptDataError("keyspace has no state", where=parts.names.name)
        rows = (await parts.manifest.now()).rows
        if self._looked_sqn is None:
            self._looked_sqn = 1 + max((row.as_of for row in rows), default=0)
        records = sum(row.records for row in rows if row.status is ValueStatus.SEALED)
        changes = found.state.next_sqn - self._looked_sqn + self._reaped
        return found.state.next_sqn if is_due(changes, records) else None

    async def _compacted(self) -> bool:
        """Compact until nothing is worth it; false when that had to wait."""
        while await self._may_begin():
            report = await self._compact(self._unreadable)
            if not report.run:
                return True
            await self._parts.store.environment.sleep(REST_S)
        return False

    async def _may_begin(self) -> bool:
        store, ledger = self._parts.store, self._parts.names.ledger
        return (
            is_in_hours(self._settings.hours, store.environment.time())
            and not is_pressed(store, ledger)
            and await is_well(store, ledger)
        )
