"""From a checkpoint and the files after it to the state that they describe. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from siltstone.core.errors import CorruptDataError
from siltstone.core.records.checkpoint import Checkpoint
from siltstone.core.records.journal_batch import JournalBatch
from siltstone.journal.journal_file import FileKind, JournalFile
from siltstone.journal.pinned_state import Pinned, apply_change, check_system_layout


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalReplay:
    """The end of a replay. Fields are those of ``JournalState``."""

    checkpoint: Checkpoint
    batches: int
    layouts: Pinned
    safe_index: int
    newest_index: int
    next_sequence: int
    warnings: tuple[str, ...]


def replay(epoch: int, files: Sequence[JournalFile]) -> JournalReplay:
    """Apply the batches in ``files[1:]`` to the whole checkpoint that ``files[0]`` is.

    A checkpoint among the later files is a damaged one and is passed over, loudly. A file may end
    in a torn batch when the batch is repeated in the next file, or when nothing but attempts at the
    same batch follows it: then it was never acknowledged, or all that relied on it is found missing
    when the log is checked.

    Raises:
        CorruptDataError: a sequence has two contents, one is missing, a torn batch is not repeated,
            a record is of another epoch or lineage, or a change does not fit the state.
    """
    checkpoint = files[0].checkpoint
    assert checkpoint is not None, "replay begins with a whole checkpoint"
    work = _Replay(epoch, files[0].name, checkpoint)
    work.over(files[1:])
    return work.result()


def replay_to_damage(
    epoch: int, files: Sequence[JournalFile]
) -> tuple[JournalReplay, CorruptDataError | None]:
    """Apply the batches up to the first that does not fit; return why it does not, if there is one.

    The state may be older than what was stated, so only a recovery that may lose something uses it.

    Raises:
        CorruptDataError: the checkpoint itself is not the one of its file.
    """
    checkpoint = files[0].checkpoint
    assert checkpoint is not None, "replay begins with a whole checkpoint"
    work = _Replay(epoch, files[0].name, checkpoint)
    try:
        work.over(files[1:])
    except CorruptDataError as error:
        return work.result(), error
    return work.result(), None


class _Replay:
    def __init__(self, epoch: int, name: str, checkpoint: Checkpoint) -> None:
        if checkpoint.epoch != epoch:
            raise CorruptDataError(
                "checkpoint of another epoch", where=name, epoch=checkpoint.epoch
            )
        self._checkpoint = checkpoint
        self._layouts: Pinned = checkpoint.system
        self._applied: list[bytes] = []
        self._safe_index = checkpoint.safe_index
        self._newest_index = checkpoint.newest_index
        self._warnings: list[str] = []
        try:
            for system in checkpoint.system:
                check_system_layout(system)
        except ValueError as error:
            raise CorruptDataError("checkpoint breaks an invariant", where=name) from error

    @property
    def _next_sequence(self) -> int:
        return self._checkpoint.sequence + len(self._applied)

    def over(self, files: Sequence[JournalFile]) -> None:
        """Apply the batches of ``files``; what came before an error stays applied."""
        torn: JournalFile | None = None
        for file in files:
            if file.kind is FileKind.BROKEN_CHECKPOINT and torn is not None:
                # A checkpoint is written only when the batch before it is durable somewhere.
                raise _not_repeated(torn)
            for batch, data in file.batches:
                self._take(file, batch, data)
                torn = None
            if file.damage is None:
                continue
            self._warnings.append(f"passed over {file.kind.value}: {file.damage}")
            if file.kind is FileKind.BATCHES:
                torn = file

    def result(self) -> JournalReplay:
        """The state so far."""
        return JournalReplay(
            checkpoint=self._checkpoint,
            batches=len(self._applied),
            layouts=self._layouts,
            safe_index=self._safe_index,
            newest_index=self._newest_index,
            next_sequence=self._next_sequence,
            warnings=tuple(self._warnings),
        )

    def _take(self, file: JournalFile, batch: JournalBatch, data: bytes) -> None:
        checkpoint = self._checkpoint
        if (batch.epoch, batch.lineage) != (checkpoint.epoch, checkpoint.lineage):
            raise _wrong(file, batch, "journal batch of another epoch or lineage")
        index = batch.sequence - checkpoint.sequence
        if index < 0:
            raise _wrong(file, batch, "journal batch is older than the checkpoint before it")
        if index > len(self._applied):
            raise _wrong(file, batch, f"journal lacks sequence {self._next_sequence}")
        if index < len(self._applied):
            if self._applied[index] != data:
                raise _wrong(file, batch, "journal sequence has two contents")
            return
        try:
            self._layouts = apply_change(self._layouts, batch.change)
        except ValueError as error:
            raise _wrong(file, batch, "journal batch does not fit the state before it") from error
        self._applied.append(data)
        self._safe_index = max(self._safe_index, batch.safe_index)
        self._newest_index = max(self._newest_index, batch.newest_index)


def _wrong(file: JournalFile, batch: JournalBatch, message: str) -> CorruptDataError:
    return CorruptDataError(message, where=file.name, sequence=batch.sequence, epoch=batch.epoch)


def _not_repeated(file: JournalFile) -> CorruptDataError:
    return CorruptDataError("torn journal batch is not repeated", where=file.name)
