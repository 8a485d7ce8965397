"""Which system files nothing needs any more: a pure plan.

The owner that carries it out first states it in the log.

System files have no tasks: their rows would lie in the table log whose chunks they are. So what may
go is what a listing shows and none of these names:

- the two newest durable checkpoints of the owner's epoch, with all journal files after the older
  one,
- the batches in those files, whose chunks a boot from the older checkpoint passes through,
- the layouts as they are now, and whatever is being written,
- an unexpired pin.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from siltstone.core.chunk_names import epoch_of, system_epoch_prefix, system_prefix
from siltstone.core.errors import CorruptDataError
from siltstone.core.records.checkpoint import Checkpoint, SystemLayout

_JOURNAL = "journal-"
_DIGITS = 20
_RECOVERY = "recovery"
_OTHERS = ("tables-", "index-")
_CLAIM = "claim"


@dataclass(frozen=True, slots=True, kw_only=True)
class DurableCheckpoint:
    """A checkpoint that was acknowledged, and where.

    Attributes:
        number: of its journal file.
        file_name: the file's whole name.
        checkpoint: its content.
    """

    number: int
    file_name: str
    checkpoint: Checkpoint


def journal_number(name: str) -> int | None:
    """Number of a journal file; ``None`` when ``name`` is not that of one."""
    last = name.rpartition("/")[2]
    digits = last.removeprefix(_JOURNAL)
    if last == digits or len(digits) != _DIGITS or not (digits.isascii() and digits.isdigit()):
        return None
    return int(digits)


def file_epoch(name: str, container: int) -> int | None:
    """Epoch of a system file of ``container``; ``None`` when ``name`` is not that of one."""
    if not name.startswith(system_prefix(container)):
        return None
    try:
        epoch = epoch_of(name)
    except CorruptDataError:
        return None
    return epoch if name.startswith(system_epoch_prefix(container, epoch)) else None


def is_system_file(name: str, container: int) -> bool:
    """Whether ``name`` is that of a system file of ``container``, of whatever epoch."""
    if file_epoch(name, container) is None:
        return False
    last = name.rpartition("/")[2]
    known = last in (_CLAIM, _RECOVERY) or last.startswith(_OTHERS)
    return known or journal_number(name) is not None


def plan_deletion(
    listing: Iterable[str],
    checkpoints: Sequence[DurableCheckpoint],
    pinned: Iterable[SystemLayout],
    in_progress: Collection[str],
    *,
    container: int,
    pinned_version: int | None = None,
) -> list[str]:
    """Return the names in ``listing`` that may be deleted, in its order.

    Nothing may go before two checkpoints of this epoch are durable. The own claim, files of newer
    epochs and names that are not ours always stay.

    Args:
        listing: names of system files of the container; any others are left out.
        checkpoints: durable ones of the owner's epoch, oldest first.
        pinned: the layouts of the system segments now.
        in_progress: names that are being written or were written and not named by a layout or a
            checkpoint yet, and those of chunks in the batches after the older checkpoint.
        container: index of the container.
        pinned_version: the oldest table version that an unexpired pin promises, ``None`` without
            pins. A pin below what the older checkpoint holds keeps everything: its holder may have
            started from an older one.
    """
    if len(checkpoints) < 2:
        return []
    older, newer = checkpoints[-2:]
    assert older.number < newer.number, "checkpoints are given oldest first"
    if pinned_version is not None and pinned_version < older.checkpoint.index_version:
        return []
    kept = set(in_progress)
    for durable in (older, newer):
        kept.update(file.chunk_name for file in durable.checkpoint.index_files)
        kept.update(_chunk_names(durable.checkpoint.system))
    kept.update(_chunk_names(pinned))
    own_epoch = newer.checkpoint.epoch
    return [
        name
        for name in listing
        if name not in kept and _may_go(name, container, own_epoch, older.number)
    ]


def _may_go(name: str, container: int, own_epoch: int, oldest_number: int) -> bool:
    epoch = file_epoch(name, container)
    if epoch is None or epoch > own_epoch:
        return False
    number = journal_number(name)
    if number is not None:
        return epoch < own_epoch or number < oldest_number
    last = name.rpartition("/")[2]
    return last.startswith(_OTHERS) or (last == _CLAIM and epoch < own_epoch)


def _chunk_names(layouts: Iterable[SystemLayout]) -> list[str]:
    return [chunk.name for system in layouts for chunk in system.chunks]
