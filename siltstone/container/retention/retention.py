"""Retention: rules by which segments are truncated in the background.

A round goes through the segments that a rule is about, in the order of their names, and truncates
as a caller would. How far it came is a row when there is more than a page, so that the next owner
continues there.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

from siltstone.container.changes.segment_changes import SegmentVerbs
from siltstone.container.commit.pipeline import Pipeline
from siltstone.container.models.segments import RetentionCut, RetentionRule, rule_of_row
from siltstone.container.retention.plan import plan_cut
from siltstone.container.state.backoff import Backoff, Failures
from siltstone.container.state.clock_watch import ClockWatch
from siltstone.container.state.replica import Replica
from siltstone.core.constants import ROWS_PER_SLICE
from siltstone.core.environment import Environment
from siltstone.core.errors import (
    CapabilityError,
    ReadOnlyError,
)
from siltstone.core.records.keys import METADATA_TABLE, retention_key, task_key
from siltstone.core.records.retention_row import RetentionRow, RetentionScope
from siltstone.core.records.task import Task, TaskKind, decode_task
from siltstone.metadata.changes import put_retention, put_task, remove_retention, remove_task
from siltstone.metadata.retention_rules import RULES_MAX

logger = logging.getLogger(__name__)

ROUND_S = 60.0
"""Finer than any age worth a rule; a round costs a few look-ups for each segment."""
PAGE_PAUSE_S = 0.05
"""Between pages of a round at least."""
LOOKS_MAX = 50
"""Segments that are looked at without a rest: some milliseconds in which appends wait."""
RESTS = 19
"""In the background it rests this many times as long as it works: 5% of the loop, however many
segments there are; a million then take half an hour."""

_CURSOR = Task(due_ms=0, kind=TaskKind.RETAIN, subject=0)
_CURSOR_KEY = task_key(_CURSOR.due_ms, _CURSOR.kind, _CURSOR.subject)


class ReadRetention:
    """What may be asked of the rules without owning the container.

    Args:
        seen: returns the newest acknowledged state.
        environment: gives the time.
    """

    def __init__(self, seen: Callable[[], Awaitable[Replica]], environment: Environment) -> None:
        self._seen = seen
        self._environment = environment

    async def rules(self) -> list[RetentionRule]:
        """The rules, in the order of their names."""
        found = [rule_of_row(row) for row in (await self._seen()).rules.rows]
        return sorted(found, key=lambda rule: (rule.name.encode(), not rule.prefix))

    async def plan(self) -> AsyncIterator[RetentionCut]:
        """Yield what a round would cut now; change nothing."""
        start_after = ""
        while True:
            replica = await self._seen()
            page = list(replica.rules.segments(replica.rows, start_after, ROWS_PER_SLICE))
            now_ms = self._now_ms()
            found = [plan_cut(replica, segment_id, now_ms) for _, segment_id in page]
            for cut in found:
                if cut is not None:
                    yield cut
            if len(page) < ROWS_PER_SLICE:
                return
            start_after = page[-1][0]

    async def set(self, row: RetentionRow) -> None:
        """Refused."""
        raise ReadOnlyError("the store was opened read-only", verb="set_retention")

    async def remove(self, scope: RetentionScope, name: str) -> bool:
        """Refused."""
        raise ReadOnlyError("the store was opened read-only", verb="remove_retention")

    def round(self) -> AsyncIterator[RetentionCut]:
        """Refused."""
        raise ReadOnlyError("the store was opened read-only", verb="retain")

    def _now_ms(self) -> int:
        return int(self._environment.time() * 1000)


class Retention(ReadRetention):
    """The rules of an owned container, and what carries them out.

    Attributes:
        backoff: why a round last failed.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        verbs: SegmentVerbs,
        environment: Environment,
        clock: ClockWatch,
    ) -> None:
        async def seen() -> Replica:
            pipeline.check_alive()
            return pipeline.replica

        super().__init__(seen, environment)
        self._pipeline = pipeline
        self._replica = pipeline.replica
        self._verbs = verbs
        self._clock = clock
        self.backoff = Backoff(environment)

    async def set(self, row: RetentionRow) -> None:
        """Set a rule. The next round goes by it.

        Raises:
            CapabilityError: the container has as many rules as it can have.
        """
        await self._pipeline.admit_update()
        known = self._pipeline.pending(METADATA_TABLE, retention_key(row.scope, row.name))
        if known is None and len(self._replica.rules.rows) >= RULES_MAX:
            raise CapabilityError("container has too many rules of retention", limit=RULES_MAX)
        await self._pipeline.update([put_retention(row)], relief=False)

    async def remove(self, scope: RetentionScope, name: str) -> bool:
        """Remove a rule; return whether there was one. Nothing is cut by it after that."""
        self._pipeline.check_alive()
        if self._pipeline.pending(METADATA_TABLE, retention_key(scope, name)) is None:
            await self._pipeline.barrier()
            return False
        await self._pipeline.update([remove_retention(scope, name)])
        return True

    def _now_ms(self) -> int:
        """A cut is final, so a clock that has just jumped ahead makes nothing old."""
        return int(self._clock.believed_s() * 1000)

    async def run(self) -> None:
        """Do one round after another until cancelled, from where an earlier owner stopped."""
        while True:
            await self._environment.sleep(ROUND_S)
            with self.backoff.attempt(logger, "retention"):
                await self._background_round()

    async def round(self) -> AsyncIterator[RetentionCut]:
        """Go through all segments now; yield each cut once it is acknowledged.

        Raises:
            CorruptDataError, StorageFullError: the first failure, at the end.
            LogError: this owner has ended.
        """
        failures = Failures()
        start_after: str | None = ""
        while start_after is not None:
            done, start_after = await self._page(start_after, failures, rests=0)
            for cut in done:
                yield cut
        failures.raise_first()

    async def _background_round(self) -> None:
        failures = Failures()
        entry = self._replica.tables.get(METADATA_TABLE, _CURSOR_KEY)
        start_after: str | None = ""
        if entry is not None:
            cursor = decode_task(_CURSOR.due_ms, _CURSOR.kind, _CURSOR.subject, entry.value)
            start_after = cursor.name
        while start_after is not None:
            done, start_after = await self._page(start_after, failures, rests=RESTS)
            for cut in done:
                logger.info("retention cut %s at %d", cut.segment, cut.cut_offset)
            await self._note(start_after)
            await self._environment.sleep(PAGE_PAUSE_S)
        failures.raise_first()

    async def _page(
        self, start_after: str, failures: Failures, *, rests: int
    ) -> tuple[list[RetentionCut], str | None]:
        """Cut what is due in the next page; return that, and the last name if there may be more."""
        self._pipeline.check_alive()
        replica = self._replica
        done = []
        page = list(replica.rules.segments(replica.rows, start_after, ROWS_PER_SLICE))
        begin = self._environment.monotonic()
        for count, (_, segment_id) in enumerate(page, 1):
            if count % LOOKS_MAX == 0:
                spent = self._environment.monotonic() - begin
                await self._environment.sleep(rests * spent)
                begin = self._environment.monotonic()
            with failures.kept():
                cut = await self._cut(segment_id)
                if cut is not None:
                    done.append(cut)
        return done, page[-1][0] if len(page) == ROWS_PER_SLICE else None

    async def _cut(self, segment_id: int) -> RetentionCut | None:
        """Truncate a segment if it is time, by the rule that is in force at this moment."""
        cut = plan_cut(self._replica, segment_id, self._now_ms())
        segment = None if cut is None else self._replica.open(segment_id)
        state = self._replica.rows.pending_state(segment_id)
        if cut is None or segment is None or state is None:
            return None
        await self._verbs.cut(segment, state, cut.cut_offset)
        return cut

    async def _note(self, name: str | None) -> None:
        """Say in a row after which segment the round continues; none when it is at its end."""
        if name is not None:
            await self._pipeline.update([put_task(replace(_CURSOR, name=name))])
        elif self._pipeline.pending(METADATA_TABLE, _CURSOR_KEY) is not None:
            await self._pipeline.update([remove_task(_CURSOR)])
