"""The check of a container: every layout, and every chunk's presence, length and sums.

The container lives on meanwhile: chunks grow, are joined, dropped and deleted. So what looks wrong
is looked up again, and only what is wrong by rows that did not change is reported.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass

from siltstone.container.boot.system_file_check import index_file_problem
from siltstone.container.garbage.sweeper import SweepScope
from siltstone.container.garbage.sweeper import look as look_for_garbage
from siltstone.container.models.check import CheckOptions, CheckProgress
from siltstone.container.models.segments import Finding
from siltstone.container.reads.reads import Reading
from siltstone.core.constants import ROWS_PER_SLICE
from siltstone.core.errors import ClosedError, CorruptDataError
from siltstone.core.records.checkpoint import Checkpoint, IndexFile, SystemLayout
from siltstone.core.records.chunk import Chunk
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.text import counted
from siltstone.metadata.checkpoint import without_options
from siltstone.metadata.extent_scan import scan_extents
from siltstone.metadata.time_index import times_fault
from siltstone.segments.inspect import ChunkFinding
from siltstone.segments.invariants import check_layout
from siltstone.segments.segment_storage import ChunkedSegmentStorage

STATS_PARALLEL = 8
LOOKS_MAX = 5
"""Looks at a chunk whose row changes every time: it is alive, and is left to the next check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSnapshot:
    """A container as it is at one moment.

    Attributes:
        reading: its segments.
        segments: where their bytes are.
        system: where the bytes of its table log are.
        layouts: of the system segments.
        checkpoint: the newest one; ``None`` when there is none.
    """

    reading: Reading
    segments: ChunkedSegmentStorage
    system: ChunkedSegmentStorage
    layouts: tuple[SystemLayout, ...]
    checkpoint: Checkpoint | None


Look = Callable[[], Awaitable[ContainerSnapshot]]
"""Returns the container as it is now."""


async def check_container(
    look: Look, ground: Callable[[], SweepScope], wish: CheckOptions
) -> AsyncIterator[Finding]:
    """Check all layouts, all chunks that they name, the newest checkpoint, and what nothing names.

    Raises:
        ChunkError: long-term storage did not answer, so nothing is known of the rest.
    """
    if not wish.after:
        async for finding in _check_system(look, await look(), ground().storage, deep=wish.deep):
            yield finding
    async for finding in _check_segments(look, await look(), ground().container, wish):
        yield finding
    await look()
    async for found in look_for_garbage(ground(), all_epochs=True):
        if found.kind != "waiting":
            severity = "warning" if found.kind == "foreign" else "garbage"
            yield Finding(severity=severity, where=found.name, message=found.reason)


async def _check_segments(
    look: Look, present: ContainerSnapshot, container: int, wish: CheckOptions
) -> AsyncIterator[Finding]:
    # Nothing is awaited until rows are compared with rows: they are of one moment.
    findings, chunks = _compare_rows(present.reading)
    for finding in () if wish.after else findings:
        yield finding
    chunks.sort(key=lambda chunk: chunk.chunk_id)
    bytes_total = sum(chunk.length for chunk in chunks)
    left = [chunk for chunk in chunks if chunk.chunk_id > wish.after]
    for finding in _unverified(present.segments, container, left) if wish.deep else ():
        yield finding
    done = len(chunks) - len(left)
    bytes_done = bytes_total - sum(chunk.length for chunk in left)
    count = 1 if wish.deep else STATS_PARALLEL
    for start in range(0, len(left), count):
        some = left[start : start + count]
        found, present = await _verified(look, present, some, deep=wish.deep)
        for finding in found:
            yield finding
        done += len(some)
        bytes_done += sum(chunk.length for chunk in some)
        wish.progress(
            CheckProgress(
                container=container,
                chunk_id=some[-1].chunk_id,
                chunks_done=done,
                chunks_total=len(chunks),
                bytes_done=bytes_done,
                bytes_total=bytes_total,
            )
        )


def _unverified(
    segments: ChunkedSegmentStorage, container: int, chunks: Sequence[Chunk]
) -> Iterator[Finding]:
    """What a deep check cannot verify, in one sentence: there may be as many objects as files."""
    lengths = [chunk.length for chunk in chunks if _has_no_sums(segments, chunk)]
    if lengths:
        yield Finding(
            severity="warning",
            where=f"container {container}",
            message=f"{counted(len(lengths), 'object')} in place without sums, "
            f"{counted(sum(lengths), 'byte')}: not verified",
        )


def _has_no_sums(segments: ChunkedSegmentStorage, chunk: Chunk) -> bool:
    try:
        return chunk.in_place and not segments.sums(chunk)
    except CorruptDataError:
        return False  # some are missing, which its own check reports


async def _verified(
    look: Look, present: ContainerSnapshot, some: Sequence[Chunk], *, deep: bool
) -> tuple[list[Finding], ContainerSnapshot]:
    """Look at all together, then again, one by one, where something seems wrong.

    Returns what is, and the newest look.
    """
    suspects = some
    if len(some) > 1:
        checks = (_is_suspect(present.segments, chunk, deep=deep) for chunk in some)
        wrong = await asyncio.gather(*checks)
        suspects = [chunk for chunk, is_wrong in zip(some, wrong, strict=True) if is_wrong]
    found = []
    for chunk in suspects:
        problem, present = await _problem(look, present, chunk, _segments, deep=deep)
        if problem is not None:
            found.append(_damage(problem.chunk.name, problem.message))
    return found, present


async def _is_suspect(segments: ChunkedSegmentStorage, chunk: Chunk, *, deep: bool) -> bool:
    try:
        return await segments.verify_chunk(chunk, deep=deep) is not None
    except ClosedError:
        # A reader started again meanwhile, and what it held before is closed.
        return True


def _compare_rows(reading: Reading) -> tuple[list[Finding], list[Chunk]]:
    """What is wrong among rows alone, and the chunks that extents name."""
    rows = reading.replica.rows
    references = Counter(_named_chunks(reading))
    findings: list[Finding] = []
    for page in rows.segment_pages():
        for name, segment_id in page:
            findings += _segment_findings(reading, name, segment_id)
    chunks = []
    for chunk_id, count in references.items():
        chunk = rows.chunk(chunk_id)
        if chunk is None:
            findings.append(_damage(f"chunk {chunk_id}", "row is missing"))
            continue
        chunks.append(chunk)
        if chunk.references != count:
            message = f"I17: {count} extents name it, its row says {chunk.references}"
            findings.append(_damage(chunk.name, message))
    return findings, chunks


def _named_chunks(reading: Reading) -> Iterator[int]:
    """Ids of chunks, one for each extent, those of deleted segments and running concats too."""
    at = (0, 0)
    while page := scan_extents(reading.replica.tables, *at, ROWS_PER_SLICE):
        yield from (extent.chunk_id for extent in page)
        at = (page[-1].segment_id, page[-1].end)


def _segment_findings(reading: Reading, name: str, segment_id: int) -> list[Finding]:
    rows = reading.replica.rows
    where = f"segment {name}"
    state = rows.state(segment_id)
    if state is None or state.name != name or state.deleted:
        return [_damage(where, "name without a live state")]
    layout = rows.layout(segment_id)
    extents = rows.extents(segment_id, 0, layout.storage_length, 1 << 31)
    try:
        check_layout(layout, extents)
        tables, start = reading.replica.tables, state.start_offset
        fault = times_fault(tables, segment_id, start, layout.storage_length)
    except CorruptDataError as error:
        return [_damage(where, str(error))]
    return [] if fault is None else [_damage(where, fault)]


async def _check_system(
    look: Look, present: ContainerSnapshot, storage: AsyncChunkStorage, *, deep: bool
) -> AsyncIterator[Finding]:
    """Check the table log's chunks and the index files of the newest checkpoint."""
    rows = _system_rows()
    for layout in present.layouts:
        for chunk in layout.chunks:
            problem, present = await _problem(look, present, chunk, rows, deep=deep)
            if problem is not None:
                yield _damage(problem.chunk.name, problem.message)
    for file in _index_files(present):
        message = await index_file_problem(storage, file, deep=deep)
        if message is not None and file in _index_files(await look()):
            yield _damage(file.chunk_name, message)


Rows = Callable[[ContainerSnapshot, int], tuple[ChunkedSegmentStorage, Chunk | None]]


def _segments(
    present: ContainerSnapshot, chunk_id: int
) -> tuple[ChunkedSegmentStorage, Chunk | None]:
    return present.segments, present.reading.replica.rows.chunk(chunk_id)


def _system_rows() -> Rows:
    """Look-ups among the chunks of system segments, which are sorted once for each look."""
    seen: tuple[SystemLayout, ...] = ()
    chunks: dict[int, Chunk] = {}

    def find(
        present: ContainerSnapshot, chunk_id: int
    ) -> tuple[ChunkedSegmentStorage, Chunk | None]:
        nonlocal seen, chunks
        if present.layouts is not seen:
            seen = present.layouts
            chunks = {chunk.chunk_id: chunk for layout in seen for chunk in layout.chunks}
        return present.system, chunks.get(chunk_id)

    return find


async def _problem(
    look: Look, present: ContainerSnapshot, chunk: Chunk, rows: Rows, *, deep: bool
) -> tuple[ChunkFinding | None, ContainerSnapshot]:
    """What is wrong with a chunk that is still referenced and did not change meanwhile.

    Returns that, and the newest look: what was seen before it may be gone, and it is closed in a
    reader that started again for another caller.
    """
    for _ in range(LOOKS_MAX):
        try:
            segments, now = rows(present, chunk.chunk_id)
            if now is None or not now.references:
                break
            problem = await segments.verify_chunk(now, deep=deep)
        except ClosedError:
            present = await look()
            continue
        if problem is None:
            break
        present = await look()
        if rows(present, chunk.chunk_id)[1] == now:
            return problem, present
    return None, present


def _index_files(present: ContainerSnapshot) -> tuple[IndexFile, ...]:
    return () if present.checkpoint is None else without_options(present.checkpoint.index_files)


def _damage(where: str, message: str) -> Finding:
    return Finding(severity="damage", where=where, message=message)
