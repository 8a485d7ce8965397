"""Journal files as a person reads them. Nothing depends on these forms."""

from __future__ import annotations

from dataclasses import dataclass

from siltstone.core.constants import Buffer
from siltstone.core.errors import CorruptDataError
from siltstone.core.text import uuid_text
from siltstone.journal.journal_file import JournalFile, read_journal_file
from siltstone.journal.retention import file_epoch, journal_number


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointView:
    """A checkpoint.

    Attributes:
        sequence: of the batch that follows it.
        index_version: table version that its index files hold.
        index_files: their names on long-term storage.
        index_bytes: their bytes.
        table_log_end: how much of the table log its layout has.
        replay_index: the log is replayed from this index on.
        safe_index: below it no frame is needed.
        newest_index: newest acknowledged frame then; -1 when there was none.
    """

    sequence: int
    index_version: int
    index_files: tuple[str, ...]
    index_bytes: int
    table_log_end: int
    replay_index: int
    safe_index: int
    newest_index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchView:
    """A batch.

    Attributes:
        sequence: its place in the epoch.
        safe_index: below it no frame is needed once this is durable.
        newest_index: newest acknowledged frame then; -1 when there was none.
        table_log_end: how much of the table log lies in chunks after it.
        chunks: names of the chunks that it puts or changes.
    """

    sequence: int
    safe_index: int
    newest_index: int
    table_log_end: int
    chunks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalFileView:
    """One journal file.

    Attributes:
        container: whose it is.
        epoch: who wrote it.
        number: its place in the epoch.
        name: the key on long-term storage.
        length: bytes.
        kind: ``checkpoint``, ``batches``, ``broken checkpoint``, ``unreadable`` or ``damaged``.
        lineage: its uuid; empty when nothing of it is whole.
        checkpoint: what it holds, if that is a checkpoint.
        batches: what it holds otherwise.
        damage: why not all of it is whole; empty if it is.
    """

    container: int
    epoch: int
    number: int
    name: str
    length: int
    kind: str
    lineage: str
    checkpoint: CheckpointView | None
    batches: tuple[BatchView, ...]
    damage: str


def journal_place(name: str, container: int) -> tuple[int, int] | None:
    """Epoch and number of a journal file; ``None`` when ``name`` is not that of one."""
    epoch, number = file_epoch(name, container), journal_number(name)
    return None if epoch is None or number is None else (epoch, number)


def journal_file_view(container: int, name: str, data: Buffer) -> JournalFileView:
    """Decode one journal file. Raises ``FormatError`` for one that a newer version wrote."""
    place = journal_place(name, container)
    assert place is not None, "the name is that of a journal file"
    epoch, number = place
    file: JournalFile | None = None
    kind, damage = "damaged", ""
    try:
        file = read_journal_file(name, data)
    except CorruptDataError as error:
        damage = str(error)
    if file is not None:
        kind, damage = file.kind.value, "" if file.damage is None else str(file.damage)
    return JournalFileView(
        container=container,
        epoch=epoch,
        number=number,
        name=name,
        length=len(data),
        kind=kind,
        lineage="" if file is None else _lineage(file),
        checkpoint=None if file is None else _checkpoint(file),
        batches=() if file is None else _batches(file),
        damage=damage,
    )


def _lineage(file: JournalFile) -> str:
    if file.checkpoint is not None:
        return uuid_text(file.checkpoint.lineage)
    return uuid_text(file.batches[0][0].lineage) if file.batches else ""


def _checkpoint(file: JournalFile) -> CheckpointView | None:
    checkpoint = file.checkpoint
    if checkpoint is None:
        return None
    return CheckpointView(
        sequence=checkpoint.sequence,
        index_version=checkpoint.index_version,
        index_files=tuple(index.chunk_name for index in checkpoint.index_files),
        index_bytes=sum(index.length for index in checkpoint.index_files),
        table_log_end=max((s.layout.storage_length for s in checkpoint.system), default=0),
        replay_index=checkpoint.replay_index,
        safe_index=checkpoint.safe_index,
        newest_index=checkpoint.newest_index,
    )


def _batches(file: JournalFile) -> tuple[BatchView, ...]:
    views = []
    for batch, _ in file.batches:
        after = batch.change.after
        views.append(
            BatchView(
                sequence=batch.sequence,
                safe_index=batch.safe_index,
                newest_index=batch.newest_index,
                table_log_end=0 if after is None else after.storage_length,
                chunks=tuple(chunk.name for chunk in batch.change.chunks_put),
            )
        )
    return tuple(views)
