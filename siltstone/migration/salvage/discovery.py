"""What there is of one container: the newest state that can be built, and names of chunks."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import mkdtemp

from siltstone.container.models.settings import ContainerSettings
from siltstone.container.reader.storage_only_view import LostView, build_lost_view, is_newest
from siltstone.container.recovery.lost_chunks import chunk_lengths, chunks_of, in_place_lengths
from siltstone.container.recovery.storage_state import changed_meanwhile
from siltstone.container.state.live_segments import living_states
from siltstone.core.chunk_names import segment_folder
from siltstone.core.constants import ROWS_PER_SLICE
from siltstone.core.environment import Environment
from siltstone.core.errors import CorruptDataError, StoreNotFoundError
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.metadata.checkpoint import INDEX_POOL
from siltstone.metadata.retention_rules import load_rules
from siltstone.migration.salvage.chunk_files import ChunkFile, chunk_file, name_of_folder
from siltstone.migration.salvage.log_records import LogOverlay, log_records
from siltstone.migration.salvage.piece_reads import whole_parts
from siltstone.migration.salvage.pieces import ChunkPiece
from siltstone.migration.salvage.report import LeftOut, MissingBytes, SalvagedTable
from siltstone.migration.salvage.tables import TableState, salvaged_tables
from siltstone.migration.salvage.verdicts import Evidence, Proof
from siltstone.segments.inspect import ChunkExtent

PARALLEL = 8
_NO_JOURNAL = "no journal is there"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerLook:
    """What is known of a container.

    Attributes:
        evidence: of each segment.
        tables: what there is of each table.
        doubts: why its newest state cannot be read; none when it can.
        left_out: what is not brought; ``None`` when nothing tells it.
    """

    evidence: list[Evidence]
    tables: list[SalvagedTable]
    doubts: tuple[str, ...]
    left_out: LeftOut | None


async def look_at_container(
    container: int,
    storage: AsyncChunkStorage,
    environment: Environment,
    settings: ContainerSettings,
    lines: Path,
) -> ContainerLook:
    """Return what is known of each segment and table of a container, and why no more is.

    Every byte that a checkpoint speaks of is read and compared with its sum. Lines of tables are
    written to files in the folder ``lines``, and nothing anywhere else.

    Raises:
        StoreInUseError: an owner is at work, and drops what is looked at.
        FormatError: a newer version wrote the store.
        ChunkError: long-term storage did not answer.
    """
    scratch = Path(await environment.run_blocking(INDEX_POOL, partial(mkdtemp, "-siltstone")))
    view: LostView | None = None
    doubts: tuple[str, ...]
    try:
        try:
            view = await build_lost_view(
                container, storage, environment, settings, scratch / "index"
            )
            doubts = view.doubts
        except StoreNotFoundError:
            doubts = ()
        except CorruptDataError as error:
            doubts = (str(error),)
        # After the view, so that whatever it names was there by now.
        lengths = await chunk_lengths(storage, container)
        if view is not None:
            lengths |= await in_place_lengths(storage, chunks_of(view.replica.tables))
        proven = [] if view is None else await _proven(view, container, storage, lengths)
        known = {} if view is None else {c.name: c.length for c in chunks_of(view.replica.tables)}
        rows = None if view is None else view.replica.rows
        log = LogOverlay()
        if doubts or view is None:
            log = await _log_behind(view, storage, container)
        if view is None and (lengths or log.position) and not doubts:
            doubts = (_NO_JOURNAL,)
        state = TableState(container=container, rows=rows, log=log, doubts=doubts)
        evidence = _with_named(proven, container, lengths, known)
        if view is not None and not all(map(_is_whole, evidence)):
            await _check_still(view, container, storage, environment)
        for one in evidence:
            one.attributes, one.attributes_proven = state.attributes(one.name)
        write = partial(salvaged_tables, state, lines)
        tables = await environment.run_blocking(INDEX_POOL, write)
        left = None if view is None else _left_out(view, container, proven=not doubts)
        return ContainerLook(evidence=evidence, tables=tables, doubts=doubts, left_out=left)
    finally:
        if view is not None:
            await view.segments.close()
            await environment.run_blocking(INDEX_POOL, view.drop)
        remove = partial(shutil.rmtree, scratch, ignore_errors=True)
        await environment.run_blocking(INDEX_POOL, remove)


def _is_whole(evidence: Evidence) -> bool:
    proof = evidence.proof
    return proof is not None and not (proof.missing or evidence.named)


async def _check_still(
    view: LostView, container: int, storage: AsyncChunkStorage, environment: Environment
) -> None:
    """Refuse a store that an owner changes: what it drops is no loss."""
    if not await is_newest(view, container, storage, environment):
        raise changed_meanwhile(container)


def _left_out(view: LostView, container: int, *, proven: bool) -> LeftOut:
    rows = view.replica.rows
    writers = (
        (state.name, row.name, row.sequence)
        for state in living_states(view.replica)
        for row in rows.writers(state.segment_id)
    )
    return LeftOut(
        container=container,
        proven=proven,
        rules=load_rules(view.replica.tables).rows,
        writers=tuple(writers),
    )


async def _log_behind(
    view: LostView | None, storage: AsyncChunkStorage, container: int
) -> LogOverlay:
    """What records of the table log say that no state does."""
    log = LogOverlay()
    if view is not None:
        tables = view.replica.tables
        log = LogOverlay(position=tables.applied_version, crc=tables.applied_crc)
    async for record in log_records(storage, container):
        log.take(record)
    return log


async def _proven(
    view: LostView, container: int, storage: AsyncChunkStorage, lengths: dict[str, int]
) -> list[Evidence]:
    names: list[str] = []
    while page := view.reading.list_segments("", names[-1] if names else "", ROWS_PER_SLICE):
        names += [info.name for info in page]
    found: list[Evidence] = []
    for begin in range(0, len(names), PARALLEL):
        looks = (_proof(view, storage, lengths, name) for name in names[begin : begin + PARALLEL])
        proofs = await asyncio.gather(*looks)
        for name, proof in zip(names[begin : begin + PARALLEL], proofs, strict=True):
            found.append(Evidence(name=name, container=container, proof=proof))
    return found


async def _proof(
    view: LostView, storage: AsyncChunkStorage, lengths: dict[str, int], name: str
) -> Proof:
    segment = view.reading.segment(name)
    state = segment.state
    start, length = state.start_offset, segment.flushed
    pieces: list[ChunkPiece] = []
    missing: list[MissingBytes] = []
    position = start
    while position < length:
        extents = view.segments.chunks(segment.segment_id, position, 1)
        if not extents:
            missing.append(MissingBytes(offset=position, length=length - position, reason="no row"))
            break
        piece = _piece(extents[0]).between(start, length)
        position = piece.end
        whole, lacking = await whole_parts(piece, storage, lengths.get(piece.chunk))
        pieces += whole
        missing += lacking
    return Proof(
        start_offset=start,
        length=length,
        sealed_length=state.sealed_length,
        pieces=tuple(pieces),
        missing=tuple(missing),
    )


def _piece(found: ChunkExtent) -> ChunkPiece:
    return ChunkPiece(
        offset=found.extent.start,
        length=found.extent.length,
        chunk=found.chunk.name,
        chunk_offset=found.extent.chunk_offset,
        chunk_length=found.chunk.length,
        sums=found.sums,
    )


def _with_named(
    proven: Sequence[Evidence], container: int, lengths: dict[str, int], known: dict[str, int]
) -> list[Evidence]:
    """Add what names and lengths of chunks say, where no state says it.

    A chunk that is to be deleted has a row until it is gone. So one without a row is younger than
    the state, or its bytes lie elsewhere too.
    """
    by_folder = {segment_folder(evidence.name): evidence for evidence in proven}
    growing = _by_last_chunk(proven)
    others: list[Evidence] = []
    files = [chunk_file(name, length) for name, length in lengths.items() if length]
    for file in sorted(files, key=lambda file: file.age):
        if file.name in known:
            _add_grown(growing.get(file.name), file, known[file.name])
        elif file.folder is None:
            others.append(_of_nobody(file, container))
        else:
            evidence = by_folder.get(file.folder)
            if evidence is None:
                evidence = _new(file.folder, container)
                by_folder[file.folder] = evidence
                others.append(evidence)
            evidence.named.append(file.piece())
    return sorted([*proven, *others], key=lambda evidence: evidence.name)


def _new(folder: str, container: int) -> Evidence:
    name = name_of_folder(folder)
    evidence = Evidence(name=folder if name is None else name, container=container)
    if name is None:
        evidence.doubts.append("its name was shortened to a hash, so this is that of its folder")
    return evidence


def _of_nobody(file: ChunkFile, container: int) -> Evidence:
    evidence = Evidence(name=file.name, container=container, named=[file.piece()])
    evidence.doubts.append("nothing says of which segments these bytes are")
    return evidence


def _by_last_chunk(proven: Sequence[Evidence]) -> dict[str, Evidence]:
    """Segments whose last proven byte is there, by the chunk that it lies in."""
    found = {}
    for evidence in proven:
        proof = evidence.proof
        if proof is not None and proof.pieces and proof.pieces[-1].end == proof.length:
            found[proof.pieces[-1].chunk] = evidence
    return found


def _add_grown(evidence: Evidence | None, file: ChunkFile, committed: int) -> None:
    """A chunk that the state knows is longer now: bytes beyond the end of its segment."""
    if evidence is None or evidence.proof is None or file.length <= committed or not file.folder:
        return
    evidence.named.append(
        ChunkPiece(
            offset=evidence.proof.length,
            length=file.length - committed,
            chunk=file.name,
            chunk_offset=committed,
            chunk_length=file.length,
        )
    )
