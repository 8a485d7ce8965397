"""What the bytes of one journal file are: a checkpoint, batches, or something that is not whole.

Pure functions. What damage means is decided where the later files are known, in ``replay``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from siltstone.core.constants import Buffer
from siltstone.core.errors import CorruptDataError
from siltstone.core.records.checkpoint import Checkpoint, decode_checkpoint
from siltstone.core.records.envelope import MAGIC, RecordKind, claimed_kind, is_cut
from siltstone.core.records.journal_batch import JournalBatch, decode_journal_batch

DISK_BLOCK_BYTES = 512
"""The smallest piece of a file that a disk writes or loses as a whole."""


class FileKind(Enum):
    """What a journal file is."""

    CHECKPOINT = "checkpoint"
    """One whole checkpoint."""
    BATCHES = "batches"
    """Batches; the first says so, whole or not."""
    BROKEN_CHECKPOINT = "broken checkpoint"
    """Says that it is a checkpoint, and is not a whole one."""
    UNREADABLE = "unreadable"
    """Its first bytes do not tell what it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalFile:
    """One journal file.

    Attributes:
        name: its whole name.
        kind: what it is.
        checkpoint: the checkpoint, if it is one.
        batches: whole batches, each with its own bytes.
        damage: why what follows the batches, or the checkpoint, is not whole; ``None`` if it is.
        cut: no record is whole, and the file is the beginning of one that says it is longer. So is
            an empty file, and one whose first record has a damaged length that is too large.
        lacks_block: it is no whole checkpoint and no file of batches, and a block of it holds
            nothing but zeros, as after a power cut that kept the length of a file.
    """

    name: str
    kind: FileKind
    checkpoint: Checkpoint | None = None
    batches: tuple[tuple[JournalBatch, bytes], ...] = ()
    damage: CorruptDataError | None = None
    cut: bool = False
    lacks_block: bool = False

    @property
    def may_be_failed_boot(self) -> bool:
        """Whether a boot that failed before its first checkpoint was durable can have left this."""
        is_checkpoint = self.kind in (FileKind.BROKEN_CHECKPOINT, FileKind.UNREADABLE)
        return is_checkpoint and (self.cut or self.lacks_block)


def read_journal_file(name: str, data: Buffer, *, to_damage: bool = False) -> JournalFile:
    """Decode the content of one journal file.

    Args:
        name: of the file.
        data: its content.
        to_damage: take the records before damage, whatever follows it. Only a recovery that may
            lose something asks for this.

    Raises:
        CorruptDataError: a batch is damaged and a whole one follows it in the file.
        FormatError: a whole record of an unknown kind or version.
    """
    kind = claimed_kind(data)
    if kind == RecordKind.JOURNAL_BATCH:
        return _batches(name, data, to_damage=to_damage)
    try:
        checkpoint = decode_checkpoint(data, where=name)
    except CorruptDataError as error:
        if not to_damage:
            _check_nothing_behind(name, data, 0, error)
        broken = kind == RecordKind.CHECKPOINT
        return JournalFile(
            name=name,
            kind=FileKind.BROKEN_CHECKPOINT if broken else FileKind.UNREADABLE,
            damage=error,
            cut=is_cut(data),
            lacks_block=_lacks_block(data),
        )
    return JournalFile(name=name, kind=FileKind.CHECKPOINT, checkpoint=checkpoint)


def _batches(name: str, data: Buffer, *, to_damage: bool) -> JournalFile:
    batches: list[tuple[JournalBatch, bytes]] = []
    damage: CorruptDataError | None = None
    position = 0
    while position < len(data) and damage is None:
        try:
            batch, end = decode_journal_batch(data, position, where=name)
        except CorruptDataError as error:
            if not to_damage:
                _check_nothing_behind(name, data, position, error)
            damage = error
        else:
            batches.append((batch, bytes(data[position:end])))
            position = end
    return JournalFile(
        name=name,
        kind=FileKind.BATCHES,
        batches=tuple(batches),
        damage=damage,
        cut=not batches and is_cut(data),
    )


def _lacks_block(data: Buffer) -> bool:
    """Whether a block holds nothing but zeros; the last one may be shorter."""
    raw = bytes(data)
    return any(
        not raw[start : start + DISK_BLOCK_BYTES].strip(b"\0")
        for start in range(0, len(raw), DISK_BLOCK_BYTES)
    )


def _check_nothing_behind(name: str, data: Buffer, position: int, cause: CorruptDataError) -> None:
    """Check that no whole batch follows damage at ``position``: only a tail may be torn.

    The damage may be in a length, so every place where a record could begin is looked at.
    """
    raw = bytes(data)
    found = raw.find(MAGIC, position + 1)
    while found >= 0:
        try:
            decode_journal_batch(raw, found, where=name)
        except CorruptDataError:
            found = raw.find(MAGIC, found + 1)
        else:
            raise CorruptDataError(
                "journal batch is damaged and whole ones follow it", where=name, at=position
            ) from cause
