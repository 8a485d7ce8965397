"""Compare what a migration brought with the layout that it came from: every byte, by checksum."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from siltstone.core.checksums import crc32c
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import (
    CorruptDataError,
    SegmentError,
    SiltstoneError,
)
from siltstone.core.storage.cached import uncached
from siltstone.core.storage.optional_verbs import PieceRoom
from siltstone.migration.legacy.copy_plan import FileRun, groups_of, runs_of
from siltstone.migration.legacy.findings import ImportVerdict, LegacyFinding, Reason
from siltstone.migration.legacy.imported import MigratedSegment
from siltstone.migration.legacy.locate import Located
from siltstone.migration.legacy.plan import Way, went_on
from siltstone.migration.legacy.reconcile import LOOKS_MAX, Look, look
from siltstone.migration.source.places import LegacyPlace
from siltstone.migration.source.worker_layout import WorkerLayout
from siltstone.pipelines.segment_ranges import SegmentRange, plan_range, read_range
from siltstone.pipelines.store_view import StoreView
from siltstone.pipelines.work import FAILED, OK, Executor, ItemOutcome, Step, packed, share_of
from siltstone.pipelines.worker_store import worker_store

DIFFERS: Final = "differs"
MISSING: Final = "missing"
"""The layout has it, and the store does not."""

Problems = dict[str, tuple[str, str]]
"""What was found of segments, as status and text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyItem:
    """Runs that one task compares.

    Attributes:
        number: of the item.
        pairs: each run of a file, and where the store has the same bytes.
    """

    number: int
    pairs: tuple[tuple[FileRun, SegmentRange], ...]

    @property
    def size(self) -> int:
        """Bytes that are read, of each side."""
        return sum(run.length for run, _ in self.pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyWork:
    """Compares runs.

    Attributes:
        layout: where the files are, and the store that they came to.
        rate: bytes a second that all openings together read, of both; ``None`` for no limit.
    """

    layout: WorkerLayout
    rate: int | None

    @contextmanager
    def open(self, openings: int = 1) -> Iterator[Step]:
        """Open the store's long-term storage and the place of the layout; both are read alike."""
        each, layout = share_of(self.rate, 2 * openings), self.layout
        with (
            closing(worker_store(layout.store, layout.uuid, each)) as storage,
            layout.open(each) as place,
        ):
            yield partial(_compared, layout.store, uncached(storage), place, PieceRoom())


def verify(
    place: Located,
    view: StoreView,
    executor: Executor,
    *,
    begin: Look | None = None,
    rate: int | None = None,
) -> Generator[ItemOutcome]:
    """Compare all segments of a migration with their files.

    What was made, appended, truncated or deleted in the store since is passed over. What seems
    wrong is looked at again, while an owner changes it.

    Args:
        place: where the layout lies.
        view: the store; stays open until the end.
        executor: where bytes are compared.
        begin: a look at both behind the opening of the view; ``None`` makes one.
        rate: bytes a second that are read at most, of both sides; ``None`` means no limit.

    Yields:
        For each segment ``ok`` with the bytes that were compared, ``differs``, ``missing`` or
        ``failed``.

    Raises:
        PipelineError: a worker has not got the settings, the store or the folder.
        LegacyLayoutError, OSError, ChunkError: as ``examine``.
    """
    seen = begin or look(place, view)
    work = VerifyWork(layout=place.for_workers(view.uuid), rate=rate)
    for left in reversed(range(LOOKS_MAX)):
        doubts: list[ItemOutcome] = []
        with closing(_verified(seen, view, work, executor)) as outcomes:
            for outcome in outcomes:
                if outcome.status == OK or not left:
                    yield outcome
                else:
                    doubts.append(outcome)
        if not doubts:
            return
        now = look(place, view)
        yield from (outcome for outcome in doubts if seen.is_same(now, outcome.subject))
        changed = {one.subject for one in doubts if not seen.is_same(now, one.subject)}
        seen = now.only(changed)


def _verified(
    seen: Look, view: StoreView, work: VerifyWork, executor: Executor
) -> Generator[ItemOutcome]:
    for name in seen.missing:
        yield ItemOutcome(
            subject=name, status=MISSING, message="it was not imported from this layout"
        )
    problems: Problems = {}
    empty: list[str] = []
    ours: dict[FileRun, SegmentRange] = {}
    for one in seen.known.values():
        planned = _planned(view, one, problems)
        ours.update(planned)
        if not planned:
            empty.append(one.info.name)
    yield from (_told(seen.known[name], problems) for name in empty)
    if not ours:
        return  # the folder may be gone, and workers would refuse that
    with closing(compared_segments(work, ours, executor, problems)) as names:
        for name in names:
            yield _told(seen.known[name], problems)


def compared_segments(
    work: VerifyWork, ours: Mapping[FileRun, SegmentRange], executor: Executor, problems: Problems
) -> Generator[str]:
    """Compare runs of files with ranges; yield each segment once all of it was compared.

    Args:
        work: reads both.
        ours: where the store has each run.
        executor: where bytes are compared.
        problems: gets what is wrong with a segment, before that is yielded.
    """
    left = Counter(run.segment for run in ours)
    items = [
        VerifyItem(number=number, pairs=tuple((run, ours[run]) for run in group))
        for number, group in enumerate(groups_of(ours))
    ]
    with closing(executor.run(work, packed(items, executor.workers))) as outcomes:
        for outcome in outcomes:
            problems.update(pickle.loads(outcome.detail))
            for run, _ in items[int(outcome.subject)].pairs:
                left[run.segment] -= 1
                if not left[run.segment]:
                    yield run.segment


def _planned(
    view: StoreView, one: MigratedSegment, problems: Problems
) -> dict[FileRun, SegmentRange]:
    """The runs of a segment and where the store has them; none when something is wrong."""
    info = one.info
    problem = _shape_problem(one)
    if problem or one.finding is None:
        is_read = one.finding is None or one.finding.reason is not Reason.UNREADABLE
        problems[info.name] = (DIFFERS if is_read else FAILED, problem)
        return {}
    found: dict[FileRun, SegmentRange] = {}
    try:
        for run in runs_of(one.finding, info.name, _compared_from(one), _compared_to(one)):
            stop = run.start + run.length
            found[run] = plan_range(view, info, run.start, stop, stop)
    except SegmentError as error:
        # Truncated or deleted a moment ago.
        problems[info.name] = (FAILED, str(error))
        return {}
    return found


def _compared_from(one: MigratedSegment) -> int:
    """Where both sides have bytes."""
    start = one.origin.start if one.finding is None else one.finding.start
    return min(max(start, one.info.start_offset), _compared_to(one))


def _compared_to(one: MigratedSegment) -> int:
    """Where that ends; the store may have written on in the layout."""
    if one.origin.way is Way.CODE_ONLY and one.finding is not None:
        return min(one.finding.length, max(one.info.flushed_length, one.origin.length))
    return one.origin.length


def _told(one: MigratedSegment, problems: Mapping[str, tuple[str, str]]) -> ItemOutcome:
    """What became of a segment of which all runs were compared."""
    name = one.info.name
    if name in problems:
        status, message = problems[name]
        return ItemOutcome(subject=name, status=status, message=message)
    return ItemOutcome(subject=name, status=OK, length=_compared_to(one) - _compared_from(one))


def _shape_problem(one: MigratedSegment) -> str:
    """What is wrong before a byte is read; empty when nothing is."""
    origin, finding = one.origin, one.finding
    if finding is None or finding.verdict is not ImportVerdict.IMPORTABLE:
        reason = "it is not there" if finding is None else f"{finding.reason}: {finding.message}"
        return f"the layout can not be compared: {reason}"
    same = _shape(finding) == (origin.start, origin.length, origin.sealed)
    if not same and not (origin.way is Way.CODE_ONLY and went_on(finding, one.info)):
        return "the legacy segment changed since it was imported"
    if not one.is_whole:
        return f"only {one.info.length} of {origin.length} came: run the migration again"
    return ""


def _shape(finding: LegacyFinding) -> tuple[int, int, bool]:
    return finding.start, finding.length, finding.sealed


def _compared(
    store: str,
    storage: ChunkStorage,
    place: LegacyPlace,
    room: PieceRoom,
    item: VerifyItem,
) -> ItemOutcome:
    problems: Problems = {}
    for run, ours in item.pairs:
        if run.segment in problems:
            continue
        try:
            offset = _difference(place, run, read_range(store, storage, ours), room)
        except CorruptDataError as error:
            problems[run.segment] = (DIFFERS, str(error))
        except (SiltstoneError, OSError) as error:
            problems[run.segment] = (FAILED, f"{run.key}: {error}")
        else:
            if offset is not None:
                problems[run.segment] = (DIFFERS, f"bytes from {offset} on differ from {run.key}")
    return ItemOutcome(
        subject=str(item.number), status=OK, length=item.size, detail=pickle.dumps(problems)
    )


def _difference(
    place: LegacyPlace, run: FileRun, pieces: Iterator[memoryview], room: PieceRoom
) -> int | None:
    """Where the piece begins that is not the same on both sides; ``None`` when all are."""
    position = run.start
    for piece in pieces:
        theirs = room.of(len(piece))
        count = place.read_into(run.key, run.offset + position - run.start, theirs)
        if count != len(piece) or crc32c(theirs) != crc32c(piece):
            return position
        position += len(piece)
    return None
