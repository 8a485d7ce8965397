"""Compare what a migration brought with the layout that it came from: every byte, by checksum."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing

from siltstone.core.errors import (
    SegmentError,
)
from siltstone.migration.legacy.copy_plan import runs_of
from siltstone.migration.legacy.findings import ImportVerdict, LegacyFinding, Reason
from siltstone.migration.legacy.imported import MigratedSegment
from siltstone.migration.legacy.locate import Located
from siltstone.migration.legacy.plan import Way, went_on
from siltstone.migration.legacy.reconcile import Look, look
from siltstone.migration.source.file_runs import FileRun
from siltstone.migration.source.range_compare import (
    DIFFERS,
    LOOKS_MAX,
    MISSING,
    Problems,
    VerifyWork,
    compared_segments,
)
from siltstone.pipelines.segment_ranges import SegmentRange, plan_range
from siltstone.pipelines.store_view import StoreView
from siltstone.pipelines.work import FAILED, OK, Executor, ItemOutcome


def verify(
    place: Located,
    view: StoreView,
    executor: Executor,
    *,
    begin: Look | None = None,
    rate: int | None = None,
) -> Generator[ItemOutcome]:
    """Compare all segments of a migration with their files.

    What was made, appended, truncated or deleted in the store since is ignored. What seems wrong is
    looked at again, while an owner changes it.

    Args:
        place: where the layout lies.
        view: the store; stays open until the end.
        executor: where bytes are compared.
        begin: a look at both after the opening of the view; ``None`` makes one.
        rate: bytes a second that are read at most, of both sides; ``None`` means no limit.

    Yields:
        For each segment ``ok`` with the bytes that were compared, ``differs``, ``missing`` or
        ``failed``.

    Raises:
        PipelineError: a worker does not have the settings, the store or the folder.
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
    """Where that ends; the store may have written more in the layout."""
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
        return f"the layout cannot be compared: {reason}"
    same = _shape(finding) == (origin.start, origin.length, origin.sealed)
    if not same and not (origin.way is Way.CODE_ONLY and went_on(finding, one.info)):
        return "the legacy segment changed since it was imported"
    if not one.is_whole:
        return f"only {one.info.length} of {origin.length} came: run the migration again"
    return ""


def _shape(finding: LegacyFinding) -> tuple[int, int, bool]:
    return finding.start, finding.length, finding.sealed
