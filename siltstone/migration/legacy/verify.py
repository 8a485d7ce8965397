"""Compare what a migration brought with the layout that it came from: every byte, by checksum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from siltstone.core.checksums import crc32c
from siltstone.core.errors import CorruptDataError, SiltstoneError
from siltstone.core.words import MIB
from siltstone.migration.legacy.copying import Run, groups_of, runs_of
from siltstone.migration.legacy.findings import Finding, LayoutFindings, Verdict
from siltstone.migration.legacy.imported import ImportedSegment, unmarked
from siltstone.migration.legacy.places import LegacyPlace
from siltstone.pipelines.work import FAILED, OK, Executor, Outcome, Step, packed
from siltstone.store.store import Store

DIFFERS: Final = "differs"
MISSING: Final = "missing"
"""The layout has it, and the store does not."""

BUFFER_BYTES: Final = 4 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyItem:
    """Runs that one task compares."""

    number: int
    runs: Sequence[Run]

    @property
    def size(self) -> int:
        """Bytes that are read, of each side."""
        return sum(run.length for run in self.runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyWork:
    """Compares runs.

    Attributes:
        place: one side.
        store: the other.
        problems: what was found, by segment, as status and text.
    """

    place: LegacyPlace
    store: Store
    problems: dict[str, tuple[str, str]]

    @contextmanager
    def open(self) -> Iterator[Step]:
        """Nothing is kept between items."""
        yield partial(_compared, self)


def verify(
    layout: LayoutFindings,
    known: Sequence[ImportedSegment],
    place: LegacyPlace,
    store: Store,
    executor: Executor,
) -> Iterator[Outcome]:
    """Compare all segments of a migration with their files.

    What was appended or truncated in the store since is passed over.

    Args:
        layout: what the place holds now.
        known: segments of the store that came from it.
        place: where the layout lies.
        store: open, read-only suffices.
        executor: threads of this process.

    Yields:
        For each segment ``ok`` with the bytes that were compared, ``differs``, ``missing`` or
        ``failed``.
    """
    for finding in unmarked(layout, known):
        yield Outcome(
            subject=finding.segment, status=MISSING, message="it was not imported from this layout"
        )
    work = VerifyWork(place=place, store=store, problems={})
    left: dict[str, int] = {}
    runs: list[Run] = []
    for one in known:
        some: list[Run] = []
        problem = _shape_problem(one)
        if problem or one.finding is None:
            work.problems[one.info.name] = (DIFFERS, problem)
        else:
            start = _compared_from(one)
            some = list(runs_of(one.finding, one.info.name, start, one.origin.length))
        left[one.info.name] = len(some)
        runs += some
    by_name = {one.info.name: one for one in known}
    yield from (_told(by_name[name], work) for name, count in left.items() if not count)
    items = [VerifyItem(number=number, runs=group) for number, group in enumerate(groups_of(runs))]
    for outcome in executor.run(work, packed(items, executor.workers)):
        for run in items[int(outcome.subject)].runs:
            left[run.segment] -= 1
            if not left[run.segment]:
                yield _told(by_name[run.segment], work)


def _compared_from(one: ImportedSegment) -> int:
    """Where both sides have bytes."""
    return min(max(one.origin.start, one.info.start_offset), one.origin.length)


def _told(one: ImportedSegment, work: VerifyWork) -> Outcome:
    """What became of a segment of which all runs were compared."""
    name = one.info.name
    if name in work.problems:
        status, message = work.problems[name]
        return Outcome(subject=name, status=status, message=message)
    return Outcome(subject=name, status=OK, length=one.origin.length - _compared_from(one))


def _shape_problem(one: ImportedSegment) -> str:
    """What is wrong before a byte is read; empty when nothing is."""
    origin, finding = one.origin, one.finding
    if finding is None or finding.verdict is not Verdict.IMPORTABLE:
        reason = "it is not there" if finding is None else f"{finding.reason}: {finding.message}"
        return f"the layout can not be compared: {reason}"
    if _shape(finding) != (origin.start, origin.length, origin.sealed):
        return "the legacy segment changed since it was imported"
    if not one.is_whole:
        return f"only {one.info.length} of {origin.length} came: run the migration again"
    return ""


def _shape(finding: Finding) -> tuple[int, int, bool]:
    return finding.start, finding.length, finding.sealed


def _compared(work: VerifyWork, item: VerifyItem) -> Outcome:
    for run in item.runs:
        if run.segment in work.problems:
            continue
        try:
            if not _same(work, run):
                text = f"bytes from {run.start} on differ from {run.key}"
                work.problems[run.segment] = (DIFFERS, text)
        except CorruptDataError as error:
            work.problems[run.segment] = (DIFFERS, str(error))
        except (SiltstoneError, OSError) as error:
            work.problems[run.segment] = (FAILED, f"{run.key}: {error}")
    return Outcome(subject=str(item.number), status=OK, length=item.size)


def _same(work: VerifyWork, run: Run) -> bool:
    """Whether both sides of a run have one checksum."""
    segment = work.store.segment(run.segment)
    size = min(BUFFER_BYTES, run.length)
    ours, theirs = memoryview(bytearray(size)), memoryview(bytearray(size))
    sums = [0, 0]
    done = 0
    while done < run.length:
        count = min(size, run.length - done)
        if work.place.read_into(run.key, run.offset + done, theirs[:count]) != count:
            return False
        if segment.read_into(run.start + done, ours[:count]) != count:
            return False
        sums = [crc32c(ours[:count], sums[0]), crc32c(theirs[:count], sums[1])]
        done += count
    return sums[0] == sums[1]
