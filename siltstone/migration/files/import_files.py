"""Making segments of files and objects: by copies, or of what lies there already.

Sources are only read. Segments appear in groups, each at once and whole; a repeat of the same
import continues after the groups that are done.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from siltstone.container.models.imports import (
    ImportedChunk,
    ImportOutput,
    ImportResult,
    ImportTicket,
)
from siltstone.core.chunk_storage import ChunkStat, ChunkStorage
from siltstone.core.constants import MIB
from siltstone.core.errors import (
    ChunkError,
    ChunkNotFoundError,
    LostDataError,
    SegmentExistsError,
    SegmentNotFoundError,
    SiltstoneError,
    StoreError,
)
from siltstone.core.storage.block_reads import read_exactly
from siltstone.core.storage.block_sums import extend_sums
from siltstone.migration.files.copy_files import copy_group
from siltstone.migration.files.file_errors import changed
from siltstone.migration.files.import_plan import Group, PlannedFileSegment, Source, grouped
from siltstone.pipelines.import_sessions import in_one_of_two, open_session, serves_repeat
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.work import Executor
from siltstone.store.store import Store
from siltstone.store.store_assembly import storage_of

ADOPTION: Final = "files"
"""The adoption of files that are taken in place, unless the caller names another one."""
LIFETIME: Final = timedelta(days=7)
READ_BYTES: Final = 4 * MIB

THREADS: Final = 4
"""Chunks that are copied at a time: while one waits for the disk, others are copied."""

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportChoices:
    """How files are imported.

    Attributes:
        adoption: takes them in place, for the adoption of this name; ``None`` copies them.
        verify: compute the sums of what is taken in place; else none of its bytes is read.
        seal: seal the segments.
    """

    adoption: str | None = None
    verify: bool = True
    seal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Import:
    """What all groups of one import share."""

    store: Store
    path: Path | str
    storage: ChunkStorage
    choices: ImportChoices
    executor: Executor
    rate: int | None
    progress: Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedFiles:
    """A segment that was made.

    Attributes:
        segment: its name.
        length: bytes.
        files: how many it is made of.
        repeated: whether an earlier run of the same import had made it.
    """

    segment: str
    length: int
    files: int
    repeated: bool


def import_files(
    store: Store,
    path: Path | str,
    segments: Sequence[PlannedFileSegment],
    choices: ImportChoices,
    progress: Progress = lambda _: None,
    *,
    executor: Executor | None = None,
    rate: int | None = None,
) -> Generator[ImportedFiles]:
    """Make segments of files or objects; yield each once it is there.

    Args:
        store: open as its owner.
        path: the same store's settings file.
        segments: of ``plan_files`` or ``plan_objects``.
        choices: see there.
        progress: called with the bytes of each step.
        executor: where files are copied, whose workers have them under the same paths; ``None``
            means four threads. What is taken in place is read here.
        rate: bytes a second that are read at most; ``None`` means no limit.

    Raises:
        SegmentExistsError: a segment is there that this import did not make; nothing was done.
        StoreError: a source has changed meanwhile.
        ImportSessionError: a file is in place in a segment already.
        OSError: a source cannot be read.
        ChunkError, LogError: storage or the log failed. A repeat continues.
        PipelineError: a worker could not begin, or died. A repeat continues.
    """
    todo: list[Group] = []
    for group in grouped(segments, store.container_index, repr(choices)):
        if not _is_done(store, group, choices):
            todo.append(group)
            continue
        progress(sum(segment.length for segment in group.segments))
        yield from _told(group, repeated=True)
    in_place = choices.adoption is not None
    with closing(storage_of(path, rate if in_place else None)) as storage:
        given = _Import(
            store=store,
            path=path,
            storage=storage,
            choices=choices,
            executor=executor or LocalExecutor(THREADS),
            rate=rate,
            progress=progress,
        )
        for group in todo:
            yield from _import_group(given, group)


def _is_done(store: Store, group: Group, choices: ImportChoices) -> bool:
    """Whether an earlier run made a group; raises if something else made one of its segments."""
    lengths = [_length(store, segment.name) for segment in group.segments]
    there = [each.name for each, length in zip(group.segments, lengths, strict=True) if length >= 0]
    if not there:
        return False
    wanted = [segment.length for segment in group.segments]
    if all(length >= least for length, least in zip(lengths, wanted, strict=True)):
        ticket, committed = _open(store, group, choices)
        store.abort_import(ticket)
        if committed:
            return True
    raise SegmentExistsError("segment exists", segment=there[0])


def _length(store: Store, name: str) -> int:
    """The length of a segment; -1 when there is none."""
    try:
        return store.segment(name).info().length
    except SegmentNotFoundError:
        return -1


def _open(store: Store, group: Group, choices: ImportChoices) -> tuple[ImportTicket, bool]:
    """An open session for a group, and whether an earlier one was committed."""
    return open_session(
        group.session,
        lambda name: store.open_import(
            name, group.segments[0].name, lifetime=LIFETIME, adoption=choices.adoption
        ),
    )


def _import_group(given: _Import, group: Group) -> Iterator[ImportedFiles]:
    result = in_one_of_two(lambda: _session(given, group))
    yield from _told(group, repeated=result.repeated)


def _session(given: _Import, group: Group) -> ImportResult:
    store, choices = given.store, given.choices
    ticket, _ = _open(store, group, choices)
    try:
        if choices.adoption is None:
            chunks = copy_group(
                given.path,
                given.storage,
                ticket,
                group,
                given.executor,
                given.rate,
                given.progress,
            )
        else:
            chunks = [
                tuple(
                    _adopted(given.storage, source, choices, given.progress)
                    for source in segment.sources
                )
                for segment in group.segments
            ]
        outputs = [
            ImportOutput(segment=segment.name, chunks=some, sealed=choices.seal)
            for segment, some in zip(group.segments, chunks, strict=True)
        ]
        return store.commit_import(ticket, outputs)
    except (SiltstoneError, OSError) as error:
        if not _serves_repeat(error, choices):
            with suppress(SiltstoneError):
                store.abort_import(ticket)
        raise


def _serves_repeat(error: Exception, choices: ImportChoices) -> bool:
    """Whether a session is left open; one that moves no byte need not be."""
    if choices.adoption is not None and isinstance(error, (OSError, ChunkError)):
        return False
    return serves_repeat(error)


def _told(group: Group, *, repeated: bool) -> Iterator[ImportedFiles]:
    for segment in group.segments:
        yield ImportedFiles(
            segment=segment.name,
            length=segment.length,
            files=len(segment.sources),
            repeated=repeated,
        )


# --- in place -------------------------------------------------------------------------------------


def _adopted(
    storage: ChunkStorage, source: Source, choices: ImportChoices, progress: Progress
) -> ImportedChunk:
    assert source.key is not None, "it was planned to be taken in place"
    if not choices.verify:
        progress(source.length)
        return ImportedChunk(name=source.key, length=source.length, sums=None)
    before = _stat(storage, source)
    if before.length != source.length:
        raise changed(source.path)
    sums: list[int] = []
    buffer = memoryview(bytearray(min(source.length, READ_BYTES)))
    for offset in range(0, source.length, READ_BYTES):
        view = buffer[: min(READ_BYTES, source.length - offset)]
        try:
            read_exactly(storage, source.key, offset, view)
        except LostDataError as error:
            raise changed(source.path) from error
        sums += extend_sums([view], offset, 0)
        progress(len(view))
    # The commit checks again whether this is still its version.
    return ImportedChunk(
        name=source.key, length=source.length, sums=tuple(sums), version=before.version
    )


def _stat(storage: ChunkStorage, source: Source) -> ChunkStat:
    assert source.key is not None, "it was planned to be taken in place"
    try:
        return storage.stat(source.key)
    except ChunkNotFoundError as error:
        raise StoreError(
            "long-term storage does not know the file, or takes it for no chunk", file=source.path
        ) from error
