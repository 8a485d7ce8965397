"""Carry a plan out: bytes of a legacy layout become segments of a store, by copy or in place.

Copied bytes go straight to long-term storage, as chunks of an import session, and become visible
when the session is committed; in place, the session names the old files instead. A commit happens
whole or not at all, and says with the bytes where they came from. So a migration that was killed is
planned again. It continues after the last commit, and in the open session after what was noted.
Nothing here writes to the layout.
"""

from __future__ import annotations

import pickle
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final

from siltstone.container.models.imports import (
    ImportedChunk,
    ImportMode,
    ImportOutput,
    ImportTicket,
)
from siltstone.core.constants import GIB, container_of
from siltstone.core.errors import ChunkStorageFullError, FencedError, SiltstoneError
from siltstone.core.storage.optional_verbs import PieceRoom
from siltstone.core.text import counted
from siltstone.migration.legacy.copy_plan import SessionShare, runs_of_piece, sessions_of
from siltstone.migration.legacy.findings import LegacyPiece
from siltstone.migration.legacy.plan import (
    Action,
    MigrationPlan,
    PlannedLegacySegment,
    marks_of,
)
from siltstone.migration.source.file_runs import FileRun, groups_of
from siltstone.migration.source.places import LegacyPlace
from siltstone.migration.source.worker_layout import WorkerLayout
from siltstone.pipelines.import_sessions import (
    NotedRanges,
    in_one_of_two,
    open_session,
    serves_repeat,
    session_name,
)
from siltstone.pipelines.work import (
    FAILED,
    OK,
    SAME,
    Executor,
    ItemOutcome,
    PipelineError,
    Step,
    packed,
    share_of,
)
from siltstone.store.handles.import_writer import ImportTarget, ImportWriter, open_import_target
from siltstone.store.store import Store

CONFLICT: Final = "conflict"
REFUSED: Final = "refused"
ABSENT: Final = "absent"
LEFT: Final = "left"

LIFETIME: Final = timedelta(days=7)
"""Of a session that is never ended; its chunks are deleted then."""

IN_PLACE_BYTES_MAX: Final = 256 * GIB
"""A longer file is copied: the sums of one chunk have to fit in memory."""

Came = dict[tuple[str, int], tuple[ImportedChunk, ...]]
"""What was made of each run, by segment and start."""

_STATUS: Final[Mapping[Action, str]] = {
    Action.DONE: SAME,
    Action.CONFLICT: CONFLICT,
    Action.REFUSED: REFUSED,
    Action.ABSENT: ABSENT,
    Action.LEFT: LEFT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InPlace:
    """The names of files of the layout on the store's own long-term storage.

    Attributes:
        prefix: of their keys; empty, or with ``/`` at its end.
        versions: what the storage said of each key when the layout was looked at.
    """

    prefix: str
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyCopyItem:
    """Runs that one task copies into one session."""

    ticket: ImportTicket
    number: int
    runs: Sequence[FileRun]

    @property
    def size(self) -> int:
        """Bytes that are copied."""
        return sum(run.length for run in self.runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyCopyWork:
    """Copies runs.

    Attributes:
        layout: where they are read, and the store that they come to.
        rate: bytes a second that all openings together read; ``None`` for no limit.
    """

    layout: WorkerLayout
    rate: int | None

    @contextmanager
    def open(self, openings: int = 1) -> Iterator[Step]:
        """Open the layout, and check that the store is the one that is meant."""
        with (
            open_import_target(self.layout.store, self.layout.uuid) as target,
            self.layout.open(share_of(self.rate, openings)) as place,
        ):
            yield partial(_copied, target, place, PieceRoom())


def bring(
    plan: MigrationPlan,
    layout: WorkerLayout,
    store: Store,
    executor: Executor,
    in_place: InPlace | None,
    *,
    rate: int | None = None,
) -> Generator[ItemOutcome]:
    """Bring what the store lacks of a layout.

    Args:
        plan: of this layout and store; nothing else changes either meanwhile.
        layout: where the files are.
        store: open, and owned with all of its containers.
        executor: where bytes are copied.
        in_place: how files are called on the store's long-term storage; ``None`` copies them.
        rate: bytes a second that are read at most; ``None`` means no limit.

    Yields:
        For each segment and step ``ok`` with the bytes that became visible, ``same``, ``conflict``,
        ``refused``, ``absent``, ``left`` or ``failed``.

    Raises:
        FencedError: another owner took the store over; what became visible stays.
        PipelineError: a worker does not have the settings, the store or the folder.
    """
    lacking: dict[int, list[PlannedLegacySegment]] = {}
    for planned in plan.segments:
        if planned.action in (Action.IMPORT, Action.GO_ON):
            index = container_of(planned.name, store.container_count)
            lacking.setdefault(index, []).append(planned)
        else:
            status = _STATUS[planned.action]
            yield ItemOutcome(subject=planned.name, status=status, message=planned.message)
    work = LegacyCopyWork(layout=layout, rate=rate)
    bringing = _Bringing(plan, work, store, executor, in_place)
    for some in lacking.values():
        spoilt: set[str] = set()
        for session in sessions_of(some, whole=plan.in_place):
            # After a part that failed nothing of that segment can become visible.
            left = [share for share in session if share.planned.name not in spoilt]
            for outcome in bringing.carry_out(left) if left else ():
                if outcome.status != OK:
                    spoilt.add(outcome.subject)
                yield outcome


class _Bringing:
    """What all sessions of one run share."""

    def __init__(
        self,
        plan: MigrationPlan,
        work: LegacyCopyWork,
        store: Store,
        executor: Executor,
        in_place: InPlace | None,
    ) -> None:
        self._plan = plan
        self._work = work
        self._store = store
        self._executor = executor
        self._in_place = in_place

    def carry_out(self, shares: Sequence[SessionShare]) -> Iterator[ItemOutcome]:
        """Bring what one session has, and commit it."""
        try:
            problems = in_one_of_two(lambda: self._session(shares))
        except (FencedError, PipelineError):
            raise
        except (SiltstoneError, OSError) as error:
            problems = {share.planned.name: str(error) for share in shares}
        for share in shares:
            name = share.planned.name
            if name in problems:
                yield ItemOutcome(subject=name, status=FAILED, message=problems[name])
                continue
            if share.is_last and share.planned.finding.sealed and not share.is_first:
                self._store.segment(name).seal()
            length = share.stop - share.start
            parts = [] if share.is_first and share.is_last else [f"{share.start} to {share.stop}"]
            parts += [share.planned.message] if share.planned.message else []
            yield ItemOutcome(subject=name, status=OK, length=length, message="; ".join(parts))

    def _session(self, shares: Sequence[SessionShare]) -> dict[str, str]:
        """Commit what can be brought; return the segments that cannot, and why."""
        adoption = None if self._in_place is None else self._plan.migration
        ticket, _ = open_session(
            session_name("legacy", self._facts(shares)),
            lambda name: self._store.open_import(
                name, shares[0].planned.name, lifetime=LIFETIME, adoption=adoption
            ),
        )
        try:
            came, problems = self._copied(ticket, shares)
            found = (
                self._output(share, came) for share in shares if share.planned.name not in problems
            )
            outputs = [output for output in found if output is not None]
            if outputs:
                self._store.commit_import(ticket, outputs)
            else:
                self._store.abort_import(ticket)
        except BaseException as error:
            if not serves_repeat(error):
                self._store.abort_import(ticket)
            raise
        return problems

    def _facts(self, shares: Sequence[SessionShare]) -> Iterator[object]:
        """What a session brings: other bytes, or the same ones cut otherwise, are another."""
        yield self._plan.migration, self._plan.way.name
        for share in shares:
            planned, finding = share.planned, share.planned.finding
            yield planned.name, share.start, share.stop, finding.start, finding.sealed
            yield tuple((piece.key, piece.version) for piece in finding.pieces)
            for run in self._to_copy(share):
                yield run.key, run.offset, run.length, run.physical

    def _copied(
        self, ticket: ImportTicket, shares: Sequence[SessionShare]
    ) -> tuple[Came, dict[str, str]]:
        """Copy what a session lacks yet; return all that it has, and what cannot be copied."""
        groups = list(groups_of(run for share in shares for run in self._to_copy(share)))
        if not groups:
            return {}, {}
        problems: dict[str, str] = {}
        ranges = ((run.segment, run.start, run.length) for group in groups for run in group)
        with NotedRanges(self._work.layout.store, ticket, ranges) as noted:
            came: Came = dict(noted.known)
            lacking = (
                tuple(run for run in g if (run.segment, run.start) not in came) for g in groups
            )
            items = [
                LegacyCopyItem(ticket=ticket, number=number, runs=runs)
                for number, runs in enumerate(some for some in lacking if some)
            ]
            if not items:
                return came, problems
            packs = packed(items, self._executor.workers)
            with closing(self._executor.run(self._work, packs)) as outcomes:
                for outcome in outcomes:
                    if outcome.status != OK:
                        item = items[int(outcome.subject)]
                        problems.update({run.segment: outcome.message for run in item.runs})
                        continue
                    made, wrong = pickle.loads(outcome.detail)
                    for key, chunks in made.items():
                        noted.add(key, chunks)
                    came.update(made)
                    problems.update(wrong)
        return came, problems

    def _to_copy(self, share: SessionShare) -> Iterator[FileRun]:
        for piece in share.planned.finding.pieces:
            if not self._stays(piece):
                yield from runs_of_piece(piece, share.planned.name, share.start, share.stop)

    def _stays(self, piece: LegacyPiece) -> bool:
        """Whether a file becomes a chunk as it is."""
        return self._in_place is not None and piece.length == piece.physical <= IN_PLACE_BYTES_MAX

    def _output(self, share: SessionShare, came: Came) -> ImportOutput | None:
        planned, finding = share.planned, share.planned.finding
        chunks = tuple(self._chunks(share, came))
        if not share.is_first:
            if not chunks:
                return None
            return ImportOutput(segment=planned.name, chunks=chunks, mode=ImportMode.APPEND)
        return ImportOutput(
            segment=planned.name,
            chunks=chunks,
            mode=ImportMode.CREATE,
            start=finding.start,
            sealed=finding.sealed and share.is_last,
            attributes=marks_of(finding, self._plan.migration, self._plan.way),
        )

    def _chunks(self, share: SessionShare, came: Came) -> Iterator[ImportedChunk]:
        name = share.planned.name
        for piece in share.planned.finding.pieces:
            if self._in_place is not None and self._stays(piece):
                key = self._in_place.prefix + piece.key
                version = self._in_place.versions.get(key)
                yield ImportedChunk(name=key, length=piece.length, sums=None, version=version)
                continue
            for run in runs_of_piece(piece, name, share.start, share.stop):
                yield from came[name, run.start]


def _copied(
    target: ImportTarget, place: LegacyPlace, room: PieceRoom, item: LegacyCopyItem
) -> ItemOutcome:
    """Copy the runs of one task. A file that cannot be read spoils its segment alone."""
    subject = str(item.number)
    came: Came = {}
    problems: dict[str, str] = {}
    try:
        with ImportWriter(target, item.ticket, partition=item.number, attempt=0) as writer:
            for run in item.runs:
                try:
                    _check_length(place, run)
                    pieces = partial(_pieces, place, room, run)
                    chunks = tuple(writer.write_chunks(0, run.length, pieces))
                    came[run.segment, run.start] = chunks
                except OSError as error:
                    problems[run.segment] = f"{run.key}: {error.strerror or error}"
    except ChunkStorageFullError as error:
        return ItemOutcome(subject=subject, status=FAILED, message=f"no room: {error}")
    except (SiltstoneError, OSError) as error:
        return ItemOutcome(subject=subject, status=FAILED, message=str(error))
    detail = pickle.dumps((came, problems))
    return ItemOutcome(subject=subject, status=OK, length=item.size, detail=detail)


def _check_length(place: LegacyPlace, run: FileRun) -> None:
    found = place.length_of(run.key)
    if found != run.physical:
        raise OSError(
            f"has {counted(found, 'byte')} and had {run.physical:,}: another program writes to it"
        )


def _pieces(
    place: LegacyPlace, room: PieceRoom, run: FileRun, begin: int, end: int
) -> Iterator[memoryview]:
    while begin < end:
        view = room.of(min(place.piece_bytes, end - begin))
        count = place.read_into(run.key, run.offset + begin, view)
        if count != len(view):
            raise OSError(f"ends at {run.offset + begin + count}: another program cut it")
        yield view
        begin += count
