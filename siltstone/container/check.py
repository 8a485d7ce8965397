"""The check of a container: every layout, and every chunk's presence, length and sums.

The container lives on meanwhile: chunks grow, are joined, dropped and deleted. So what looks wrong
is looked up again, and only what is wrong by rows that did not change is told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass

from siltstone.container.reading import Reading
from siltstone.container.views import Finding
from siltstone.core.checksums import crc32c
from siltstone.core.errors import ChunkNotFoundError, CorruptDataError
from siltstone.core.invariants import check_layout
from siltstone.core.operations.inspect import ChunkFinding
from siltstone.core.records.checkpoint import Checkpoint, IndexFile, SystemLayout
from siltstone.core.records.chunk import Chunk
from siltstone.core.segment_storage import ChunkedSegmentStorage
from siltstone.core.threads import AsyncChunkStorage
from siltstone.core.words import ROWS_PER_SLICE
from siltstone.metadata.extent_scan import scan_extents

PAGE = 200
LOOKS_MAX = 5
"""Looks at a chunk whose row changes every time: it is alive, and the next check may have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
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


Look = Callable[[], Awaitable[Present]]
"""Returns the container as it is now."""


async def check_container(look: Look, storage: AsyncChunkStorage) -> AsyncIterator[Finding]:
    """Check all layouts, all chunks that they name, and the newest checkpoint.

    Raises:
        ChunkError: long-term storage did not answer, so nothing is known of the rest.
    """
    present = await look()
    async for finding in _check_system(look, present, storage):
        yield finding
    async for finding in _check_segments(look, await look()):
        yield finding


async def _check_segments(look: Look, present: Present) -> AsyncIterator[Finding]:
    # Nothing is awaited until rows were compared with rows: they are of one moment.
    findings, chunks = _compare_rows(present.reading)
    for finding in findings:
        yield finding
    for chunk in chunks:
        problem, present = await _problem(look, present, chunk, _segments)
        if problem is not None:
            yield _damage(problem.chunk.name, str(problem))


def _compare_rows(reading: Reading) -> tuple[list[Finding], list[Chunk]]:
    """What is wrong among rows alone, and the chunks that extents name."""
    rows = reading.replica.rows
    references = Counter(_named_chunks(reading))
    findings: list[Finding] = []
    start_after = ""
    while page := rows.segments("", start_after, PAGE):
        for name, segment_id in page:
            findings += _segment_findings(reading, name, segment_id)
        start_after = page[-1][0]
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
    except CorruptDataError as error:
        return [_damage(where, str(error))]
    return []


async def _check_system(
    look: Look, present: Present, storage: AsyncChunkStorage
) -> AsyncIterator[Finding]:
    """Check the table log's chunks and the index files of the newest checkpoint."""
    for layout in present.layouts:
        for chunk in layout.chunks:
            problem, present = await _problem(look, present, chunk, _system)
            if problem is not None:
                yield _damage(problem.chunk.name, str(problem))
    for file in _index_files(present):
        message = await _index_file_problem(storage, file)
        if message is not None and file in _index_files(await look()):
            yield _damage(file.chunk_name, message)


Rows = Callable[[Present, int], tuple[ChunkedSegmentStorage, Chunk | None]]


def _segments(present: Present, chunk_id: int) -> tuple[ChunkedSegmentStorage, Chunk | None]:
    return present.segments, present.reading.replica.rows.chunk(chunk_id)


def _system(present: Present, chunk_id: int) -> tuple[ChunkedSegmentStorage, Chunk | None]:
    chunks = (chunk for layout in present.layouts for chunk in layout.chunks)
    return present.system, next((chunk for chunk in chunks if chunk.chunk_id == chunk_id), None)


async def _problem(
    look: Look, present: Present, chunk: Chunk, rows: Rows
) -> tuple[ChunkFinding | None, Present]:
    """What is wrong with a chunk that is still referenced and did not change meanwhile.

    Returns that, and the newest look: what was seen before it may be gone.
    """
    for _ in range(LOOKS_MAX):
        segments, now = rows(present, chunk.chunk_id)
        if now is None or not now.references:
            break
        problem = await segments.verify_chunk(now)
        if problem is None:
            break
        present = await look()
        if rows(present, chunk.chunk_id)[1] == now:
            return problem, present
    return None, present


def _index_files(present: Present) -> tuple[IndexFile, ...]:
    return () if present.checkpoint is None else present.checkpoint.index_files


async def _index_file_problem(storage: AsyncChunkStorage, file: IndexFile) -> str | None:
    try:
        data = await storage.read_all(file.chunk_name, file.length)
    except ChunkNotFoundError as error:
        return str(error)
    if len(data) != file.length:
        return f"length is {len(data)}, not {file.length}"
    if crc32c(data) != file.crc:
        return "does not match its sum"
    return None


def _damage(where: str, message: str) -> Finding:
    return Finding(severity="damage", where=where, message=message)
