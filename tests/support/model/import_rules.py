"""Rules of imports: sessions that stay open meanwhile, and ends cut short or repeated."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from siltstone.container.models.imports import (
    ImportBatch,
    ImportMode,
    ImportOutput,
    ImportResult,
    ImportSessionError,
    ImportTicket,
)
from siltstone.core.errors import ChunkError, SegmentExistsError, SegmentSealedError
from tests.support.container.container_world import Owner, close_quietly, small_slices
from tests.support.container.imported_chunks import DAY_S, bring, gives
from tests.support.model.container_model import ModelSegment, compare
from tests.support.model.machine_base import LOST, TABLE, names, sizes
from tests.support.model.owner_rules import OwnerRules

DEAD = (*LOST, ChunkError)
REFUSED = (SegmentExistsError, SegmentSealedError)
JOBS_MAX = 3
LIFETIME_S = 20.0
"""Of sessions that may expire before they are ended."""

modes = st.sampled_from(list(ImportMode))
parts = st.lists(sizes.filter(bool), max_size=3)
indexes = st.integers(0, JOBS_MAX - 1)
gifts = st.lists(st.tuples(names, modes, parts), max_size=3, unique_by=lambda gift: gift[0])


@dataclass(frozen=True)
class Job:
    """A session, and what it is to give to segments; it may be a batch of the one stream."""

    ticket: ImportTicket
    outputs: tuple[ImportOutput, ...]
    data: tuple[bytes, ...]
    batch: int | None


def has_jobs(machine: Any) -> bool:
    """Whether a session is open."""
    return bool(machine.jobs)


class ImportRules(OwnerRules):
    """Imports of one container.

    Nothing of a session is seen before its end, and then all of it. The end of a session that was
    brought to an end before changes nothing, nor does a batch that came before.
    """

    jobs: tuple[Job, ...] = ()
    done: frozenset[str] = frozenset()
    sessions = 0
    newest_batch = -1

    @rule(several=gifts, large=st.booleans())
    def import_at_once(self, several: list[tuple[str, ImportMode, list[int]]], large: bool) -> None:
        self.open_import(several, -1, expires=False)
        self.commit_import(len(self.jobs) - 1, large, again=False)

    @precondition(lambda self: len(self.jobs) < JOBS_MAX)
    @rule(several=gifts, batch=st.integers(-1, 2), expires=st.booleans())
    def open_import(
        self, several: list[tuple[str, ImportMode, list[int]]], batch: int, expires: bool
    ) -> None:
        """Chunks come to a session that stays open; next to them lies that of a lost attempt."""
        self.sessions += 1
        lifetime_s = LIFETIME_S if expires and batch < 0 else DAY_S
        work = self.container.imports.open(f"job {self.sessions}", lifetime_s=lifetime_s)
        ticket = self.run(work)
        storage = self.world.new_storage()
        bring(storage, ticket, [b"lost"], attempt=7)
        outputs, data = [], []
        for partition, (name, mode, lengths) in enumerate(several):
            every = [self.made(length) for length in lengths]
            outputs.append(gives(name, bring(storage, ticket, every, partition=partition), mode))
            data.append(b"".join(every))
        number = max(0, self.newest_batch + batch) if batch >= 0 else None
        self.jobs += (Job(ticket, tuple(outputs), tuple(data), number),)

    @precondition(has_jobs)
    @rule(which=indexes, large=st.booleans(), again=st.booleans())
    def commit_import(self, which: int, large: bool, again: bool) -> None:
        job = self.taken(which)
        with small_slices(1) if large else nullcontext():
            if self.commit_job(job) and again:
                self.commit_job(job)

    @precondition(has_jobs)
    @rule(which=indexes)
    def abort_import(self, which: int) -> None:
        job = self.taken(which)
        assert self.run(self.container.imports.abort(job.ticket.name)) or self.expired(job)
        if self.is_stale(job):
            newest = ImportBatch(query="q", number=self.newest_batch)
            assert self.run(self.committing(self.owner, job)) == ImportResult(
                segments=(), repeated=True, newest=newest
            )
        else:
            self.fails(ImportSessionError, self.committing(self.owner, job))

    @precondition(has_jobs)
    @rule(
        which=indexes,
        large=st.booleans(),
        delay=st.floats(0, 1),
        takeover=st.booleans(),
        abort=st.booleans(),
    )
    def end_while_importing(
        self, which: int, large: bool, delay: float, takeover: bool, abort: bool
    ) -> None:
        """Then the whole import is there or nothing of it; it is then aborted, or repeated."""
        job = self.taken(which)
        old = self.owner
        self.index += takeover
        index = f"index-{self.index}" if takeover else old.folder.name

        async def work() -> tuple[Owner, Any]:
            importing = asyncio.create_task(self.committing(old, job))
            await self.world.environment.sleep(delay)
            if not takeover:
                await self.world.crash(old)
            owner = await self.world.open(takeover=takeover, index=index)
            return owner, (await asyncio.gather(importing, return_exceptions=True))[0]

        with small_slices(1) if large else nullcontext():
            self.owner, result = self.run(work())
            self.run(close_quietly(old))
            assert isinstance(result, (ImportResult, ImportSessionError, *REFUSED, *DEAD)), result
            whole = self.run(self.is_whole(job))
            gave = isinstance(result, ImportResult) and result.segments
            assert whole or not gave, "a commit is gone"
            if not abort:
                self.commit_job(job)
            elif not self.run(self.container.imports.abort(job.ticket.name)) and whole:
                self.take(job)
        self.run(compare(self.model, self.container, TABLE))

    # --- steps ------------------------------------------------------------------------------------

    def taken(self, which: int) -> Job:
        """An open session, which the caller has to end now."""
        job = self.jobs[which % len(self.jobs)]
        self.jobs = tuple(each for each in self.jobs if each is not job)
        return job

    async def committing(self, owner: Owner, job: Job) -> ImportResult:
        batch = None if job.batch is None else ImportBatch(query="q", number=job.batch)
        return await owner.container.imports.commit(job.ticket.name, job.outputs, batch)

    def commit_job(self, job: Job) -> bool:
        """Commit, for the first time or again; whether the session brought what it has."""
        begins, refused = self.begins(job), self.refused(job)
        try:
            result: ImportResult = self.run(self.committing(self.owner, job))
        except ImportSessionError:
            assert self.expired(job)
            return False
        except REFUSED:
            assert refused
            assert self.run(self.container.imports.abort(job.ticket.name))
            return False
        if not result.segments and job.outputs:
            assert result.repeated
            assert self.is_stale(job)
            return False
        if job.ticket.name in self.done:
            assert result.repeated
            return True
        assert result.repeated or not refused
        assert [(part.segment, part.offset) for part in result.segments] == begins
        self.take(job)
        return True

    def begins(self, job: Job) -> list[tuple[str, int]]:
        """Where the bytes of each segment will begin, if they are imported now."""
        found = []
        for output in job.outputs:
            joined = output.mode is ImportMode.APPEND and self.has(output.segment)
            length = len(self.model.segments[output.segment].data) if joined else output.start
            found.append((output.segment, length))
        return found

    def expired(self, job: Job) -> bool:
        return bool(self.world.environment.time() * 1000 >= job.ticket.expires_ms)

    def is_stale(self, job: Job) -> bool:
        """Another session had brought its batch, or a later one."""
        return job.batch is not None and job.batch <= self.newest_batch

    def refused(self, job: Job) -> bool:
        """Whether a segment does not take what it is to get."""
        segments = self.model.segments
        return any(
            output.mode is ImportMode.CREATE
            or (output.mode is ImportMode.APPEND and segments[output.segment].sealed)
            for output in job.outputs
            if output.segment in segments
        )

    async def is_whole(self, job: Job) -> bool:
        """Whether all is there, or else nothing."""
        before, self.model = self.model, deepcopy(self.model)
        done, newest = self.done, self.newest_batch
        self.take(job)
        try:
            await compare(self.model, self.container, TABLE)
        except AssertionError:
            await compare(before, self.container, TABLE)
            return False
        finally:
            self.model, self.done, self.newest_batch = before, done, newest
        return True

    def take(self, job: Job) -> None:
        """Everything that the session gives is there now."""
        for output, data in zip(job.outputs, job.data, strict=True):
            known = self.model.segments.get(output.segment)
            if output.mode is ImportMode.APPEND and known is not None:
                known.data += data
                continue
            made = ModelSegment(
                bytearray(output.start) + data, start=output.start, sealed=output.is_sealed
            )
            if known is not None:
                made.attributes = known.attributes
                self.forget(output.segment)
            self.model.create(output.segment, made)
        self.done |= {job.ticket.name}
        if job.batch is not None:
            self.newest_batch = max(self.newest_batch, job.batch)
