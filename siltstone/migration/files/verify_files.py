"""Compare segments with the plain files that they were made of: every byte, by checksum."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress

from siltstone.container.models.segments import SegmentInfo
from siltstone.core.errors import SegmentError, SegmentTruncatedError
from siltstone.core.text import counted
from siltstone.migration.files.import_plan import PlannedFileSegment
from siltstone.migration.source.file_runs import RUN_BYTES, FileRun
from siltstone.migration.source.range_compare import (
    DIFFERS,
    LOOKS_MAX,
    MISSING,
    Problems,
    VerifyWork,
    compared_segments,
)
from siltstone.migration.source.worker_layout import WorkerLayout
from siltstone.pipelines.segment_ranges import SegmentRange, plan_range
from siltstone.pipelines.store_view import StoreView
from siltstone.pipelines.work import FAILED, OK, Executor, ItemOutcome


def verify_files(
    view: StoreView,
    planned: Sequence[PlannedFileSegment],
    executor: Executor,
    *,
    rate: int | None = None,
) -> Generator[ItemOutcome]:
    """Compare segments with their files; what was appended or truncated since is ignored.

    Args:
        view: the store; stays open until the end.
        planned: of ``plan_files``, by the same rule and files as the import.
        executor: where bytes are compared; its workers have the files under the same paths.
        rate: bytes a second that are read at most, of both sides; ``None`` means no limit.

    Yields:
        For each segment ``ok`` with the bytes that were compared, ``differs``, ``missing`` where
        the store does not have it, or ``failed``.

    Raises:
        PipelineError: a worker does not have the settings or the store.
    """
    problems: Problems = {}
    lengths: dict[str, int] = {}
    ours: dict[FileRun, SegmentRange] = {}
    for segment in planned:
        lengths[segment.name] = 0
        try:
            found = _planned(view, segment)
        except SegmentTruncatedError as error:
            problems[segment.name] = (FAILED, str(error))
        except SegmentError as error:
            problems[segment.name] = (MISSING, str(error))
        else:
            if isinstance(found, str):
                problems[segment.name] = (DIFFERS, found)
            else:
                ours.update(found)
                lengths[segment.name] = sum(run.length for run in found)
    yield from (_told(name, 0, problems) for name, length in lengths.items() if not length)
    root = WorkerLayout(store=view.path, uuid=view.uuid, folder="/", prefix="")
    work = VerifyWork(layout=root, rate=rate)
    with closing(compared_segments(work, ours, executor, problems)) as names:
        for name in names:
            yield _told(name, lengths[name], problems)


def _planned(view: StoreView, segment: PlannedFileSegment) -> dict[FileRun, SegmentRange] | str:
    """The runs of the files and where the store has them, or what is wrong."""
    for _ in range(LOOKS_MAX):
        with suppress(SegmentTruncatedError):
            return _found(view, segment)
    return _found(view, segment)


def _found(view: StoreView, segment: PlannedFileSegment) -> dict[FileRun, SegmentRange] | str:
    """The runs of the files, or what is wrong, by one look; raises if the segment is truncated."""
    info = view.segments([segment.name])[0]
    if info.length < segment.length:
        return f"it has {counted(info.length, 'byte')}, and its files have {segment.length:,}"
    found: dict[FileRun, SegmentRange] = {}
    for run in _runs(segment, info):
        stop = run.start + run.length
        found[run] = plan_range(view, info, run.start, stop, stop)
    return found


def _runs(segment: PlannedFileSegment, info: SegmentInfo) -> Iterator[FileRun]:
    """The bytes of the files that the segment has still."""
    begin = 0
    for source in segment.sources:
        end = begin + source.length
        for first in range(max(begin, info.start_offset), end, RUN_BYTES):
            yield FileRun(
                segment=segment.name,
                start=first,
                key=source.path,
                offset=first - begin,
                length=min(RUN_BYTES, end - first),
                physical=source.length,
            )
        begin = end


def _told(name: str, length: int, problems: Problems) -> ItemOutcome:
    if name not in problems:
        return ItemOutcome(subject=name, status=OK, length=length)
    status, message = problems[name]
    return ItemOutcome(subject=name, status=status, message=message)
