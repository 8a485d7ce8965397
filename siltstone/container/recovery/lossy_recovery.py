"""Recovery with loss: a container whose log is lost continues from long-term storage alone.

1. The older log, if there is one, is fenced: an owner that has it open acknowledges nothing more.
2. A claim object in a new epoch tells every owner with another log, and a listing after it is what
   the recovery reads: what such an owner writes later does no harm.
3. The state at the last table-log flush is built, frames of the older log that continue it are
   applied, and what they held is written to chunks: what was not flushed, and what was flushed into
   chunks that have lost it.
4. The checkpoint of a new lineage makes all of this count. Before it nothing has changed.
5. The older log is set aside and the new one begun; if this recovery dies, the next does only this.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import TypeVar

from siltstone.container.boot.log_consistency import is_used_log, no_journal
from siltstone.container.boot.storage_layers import bridged, system_storage
from siltstone.container.boot.system_file_check import damaged_journal_files, harmed_files
from siltstone.container.models.log_views import doubts_of
from siltstone.container.models.recovery_report import RecoveryReport, RecoveryState
from siltstone.container.models.settings import ContainerSettings
from siltstone.container.recovery.new_lineage import begin_log, write_beginning
from siltstone.container.recovery.recovered_state import RecoveredCut
from siltstone.container.recovery.recovery_log import (
    check_free,
    fenced_frames,
    look_at,
    lost_because,
    replaceable,
)
from siltstone.container.recovery.storage_state import (
    Loss,
    changed_meanwhile,
    loss_of,
    newest_cut,
    newest_standing,
)
from siltstone.container.state.log_scan import LOG_POOL
from siltstone.core.chunk_names import claim_file, recovery_file
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.environment import Environment
from siltstone.core.errors import (
    ChunkNotFoundError,
    CorruptDataError,
    LogLostError,
    LogTruncatedError,
)
from siltstone.core.fenced_log import FencedLog
from siltstone.core.records.claim import Claim, encode_claim
from siltstone.core.records.frame import Frame
from siltstone.core.records.recovery import decode_recovery
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.storage.uncancellable import run_whole
from siltstone.core.text import uuid_text
from siltstone.journal.journal import Journal
from siltstone.journal.journal_state import (
    EPOCH_END,
    PAUSE_S,
    STARTS_MAX,
    JournalState,
    list_epochs,
    read_journal,
)
from siltstone.metadata.checkpoint import INDEX_POOL, fetched

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """What the log and the journal show.

    Attributes:
        state: what is the matter.
        reason: why the log does not count.
        damage: why an older state of the journal has to serve; empty when its newest one does.
        journal_state: what the journal says; ``None`` for a new container.
        frames: those of the log that are of its lineage.
        harm: system files that are damaged, and that a state may need.
        aged: what is wrong with journal files that no state needs.
    """

    state: RecoveryState
    reason: str = ""
    damage: str = ""
    journal_state: JournalState | None = None
    frames: tuple[Frame, ...] = ()
    harm: tuple[str, ...] = ()
    aged: tuple[str, ...] = ()


async def recover_container(
    *,
    container: int,
    new_log: Callable[[], FencedLog],
    storage: ChunkStorage,
    environment: Environment,
    settings: ContainerSettings,
    owner: str,
    accept_loss: bool,
    takeover: bool = False,
    deep: bool = False,
    lost: str = "",
) -> RecoveryReport:
    """Continue from long-term storage alone, if that is what ``accept_loss`` allows.

    A container whose log is whole continues with all that the log holds, where long-term storage is
    damaged: its metadata is written again.

    Args:
        container: its index in the store.
        new_log: gives handles of its tier-1 log; each is closed here.
        storage: long-term storage of the store; closed here.
        environment: gives time, randomness and threads.
        settings: those of the container.
        owner: what to say about who did it.
        accept_loss: write; otherwise the report is all.
        takeover: do it although a live owner of the older log is known; it is fenced.
        deep: read every byte of segments to tell what is lost; else presence and lengths.
        lost: why the log does not count although it looks whole; empty if it may.

    Raises:
        StoreInUseError: a live owner is known and ``takeover`` is false; or it changed long-term
            storage during each of several looks. Nothing was written.
        CorruptDataError: no state that was ever stated can be built from long-term storage;
            ``where`` says which file is damaged. ``siltstone salvage`` looks at what is left.
        LogLostError: the log holds frames, and there is no journal of them; nothing was written.
        CapabilityError: this log cannot be replaced; nothing was written.
        ChunkError: long-term storage failed. What was written does not count.
    """
    chunks = bridged(storage, environment, settings)
    scratch = Path(await environment.run_blocking(INDEX_POOL, partial(mkdtemp, "-siltstone")))
    try:
        work = _Recovering(container, new_log, chunks, environment, settings, owner, scratch, lost)
        return await work.run(accept_loss=accept_loss, takeover=takeover, deep=deep)
    finally:
        remove = partial(shutil.rmtree, scratch, ignore_errors=True)
        await environment.run_blocking(INDEX_POOL, remove)
        await chunks.close()


class _Recovering:
    def __init__(
        self,
        container: int,
        new_log: Callable[[], FencedLog],
        storage: AsyncChunkStorage,
        environment: Environment,
        settings: ContainerSettings,
        owner: str,
        scratch: Path,
        lost: str,
    ) -> None:
        self._container = container
        self._new_log = new_log
        self._storage = storage
        self._environment = environment
        self._settings = settings
        self._owner = owner
        self._scratch = scratch
        self._lost = lost
        self._deep = False

    async def run(self, *, accept_loss: bool, takeover: bool, deep: bool) -> RecoveryReport:
        self._deep = deep
        look, report = await self._seen(accept_loss=accept_loss)
        doubts = await self._blocking(doubts_of)
        new = tuple(each for each in doubts if not report.reason or report.reason not in each)
        report = replace(report, warnings=(*report.warnings, *new))
        if look.journal_state is None or not (accept_loss and report.needs_recovery):
            return report
        await self._blocking(lambda log: check_free(log, takeover))
        if look.state is RecoveryState.UNFINISHED:
            return await self._finish(report, look.journal_state)
        return await self._recover(replace(look, state=report.state, harm=report.harm))

    async def _seen(self, *, accept_loss: bool) -> tuple[_Look, RecoveryReport]:
        """What there is, of one moment: an owner may be at work, and delete what it drops."""
        for start in range(STARTS_MAX):
            if start:
                await self._environment.sleep(PAUSE_S * 2 ** (start - 1))
            try:
                look = await self._look(EPOCH_END)
            except LogTruncatedError:
                continue
            lost = accept_loss and look.state is RecoveryState.LOST  # looked at after the fence
            if look.journal_state is None or lost or look.state is RecoveryState.UNFINISHED:
                return look, self._plain(look)
            failure: CorruptDataError | ChunkNotFoundError | None = None
            try:
                report = await self._dry(look)
            except (CorruptDataError, ChunkNotFoundError) as error:
                failure = error
            else:
                if report.state is RecoveryState.HEALTHY:
                    return look, report
            if look.journal_state == await self._newest():
                if failure is not None:
                    raise failure
                return look, report
        holder = await self._blocking(lambda log: log.holder())
        raise changed_meanwhile(self._container, holder.description)

    async def _dry(self, look: _Look) -> RecoveryReport:
        cut = await self._cut(look, EPOCH_END)
        try:
            look = await self._harmed(look, cut)
            return self._report(look, cut, await self._loss(look, cut, EPOCH_END))
        finally:
            await run_whole(self._environment, INDEX_POOL, cut.index.close)

    def _plain(self, look: _Look) -> RecoveryReport:
        journal_state = look.journal_state
        return RecoveryReport(
            container=self._container,
            state=look.state,
            reason=look.reason,
            damage=look.damage,
            lineage="" if journal_state is None else uuid_text(journal_state.checkpoint.lineage),
            warnings=() if journal_state is None else journal_state.warnings,
        )

    async def _loss(self, look: _Look, cut: RecoveredCut, below_epoch: int) -> Loss:
        return await loss_of(
            cut, self._storage, self._environment, below_epoch, look.frames, deep=self._deep
        )

    def _report(self, look: _Look, cut: RecoveredCut, loss: Loss) -> RecoveryReport:
        plain, damage = self._plain(look), look.damage or cut.damage
        lacking = any(s.lost or s.kept or s.missing for s in loss.segments)
        if look.state is RecoveryState.HEALTHY:
            if not (look.harm or damage or lacking or cut.frames_left):
                return replace(plain, warnings=(*plain.warnings, *look.aged))
            plain = replace(plain, state=RecoveryState.DAMAGED)
        return replace(
            plain,
            damage=damage,
            harm=look.harm,
            cut_version=cut.boot_state.table_end,
            lost_version=loss.version,
            frames_replayed=cut.frames_replayed,
            frames_left=cut.frames_left,
            left_because=cut.left_because,
            segments=loss.segments,
            warnings=(*cut.boot_state.warnings, *look.aged, *loss.signs),
        )

    async def _harmed(self, look: _Look, cut: RecoveredCut) -> _Look:
        """The look, with what is wrong with system files; for a lost log only people ask."""
        journal_state, index_files = cut.boot_state.journal_state, cut.boot_state.index_files
        assert journal_state is not None, "a cut is of a journal"
        system = system_storage(cut.boot_state, self._storage, self._environment, self._settings)
        harm = await harmed_files(journal_state, system, self._storage, fetched(index_files))
        aged = await damaged_journal_files(journal_state, self._storage)
        return replace(look, harm=harm, aged=aged)

    # --- looking ----------------------------------------------------------------------------------

    async def _newest(self) -> JournalState | None:
        storage, environment = self._storage, self._environment
        standing = await newest_standing(storage, environment, self._container, EPOCH_END)
        return None if standing is None else standing.journal_state

    async def _look(self, below_epoch: int) -> _Look:
        standing = await newest_standing(
            self._storage, self._environment, self._container, below_epoch
        )
        if standing is None:
            if await self._blocking(is_used_log):
                raise no_journal(self._container)
            return _Look(state=RecoveryState.NEW)
        journal_state = standing.journal_state
        reason, frames = await self._blocking(lambda log: look_at(log, journal_state))
        reason = reason or self._lost
        if standing.damage:
            return _Look(
                state=RecoveryState.LOST,
                reason=reason or "the journal is damaged",
                damage=standing.damage,
                journal_state=journal_state,
                frames=frames,
            )
        if not reason:
            return _Look(state=RecoveryState.HEALTHY, journal_state=journal_state, frames=frames)
        state = RecoveryState.LOST
        if await self._is_recovery(journal_state):
            state = RecoveryState.UNFINISHED
        return _Look(state=state, reason=reason, journal_state=journal_state, frames=frames)

    async def _is_recovery(self, journal_state: JournalState) -> bool:
        """Whether the newest epoch is that of a recovery, and no owner came after it."""
        name = recovery_file(self._container, journal_state.epoch)
        try:
            length = (await self._storage.stat(name)).length
            data = await self._storage.read_all(name, length)
        except ChunkNotFoundError:
            return False
        try:
            return decode_recovery(data, where=name).lineage == journal_state.checkpoint.lineage
        except CorruptDataError:
            # Nothing tells whether it was finished; recovered again, the same state continues.
            return False

    async def _cut(self, look: _Look, below_epoch: int) -> RecoveredCut:
        return await newest_cut(
            self._container,
            below_epoch,
            look.frames,
            self._storage,
            self._environment,
            self._settings,
            self._scratch / "index",
        )

    # --- writing ----------------------------------------------------------------------------------

    async def _recover(self, look: _Look) -> RecoveryReport:
        before = look.journal_state
        assert before is not None, "there is something to recover"
        frames, damage = await self._blocking(partial(fenced_frames, journal_state=before))
        newest = await self._blocking(lambda log: log.newest_epoch())
        above = max(await list_epochs(self._storage, self._container), newest)
        epoch, lineage = above + 1, self._environment.uuid()
        now_ms = int(self._environment.time() * 1000)
        claim = Claim(lineage=lineage, epoch=epoch, owner=self._owner, claimed_ms=now_ms)
        await self._storage.create(claim_file(self._container, epoch), [encode_claim(claim)])
        # Only from here on the journal no longer changes for us.
        standing = await newest_standing(self._storage, self._environment, self._container, epoch)
        lineage_before = before.checkpoint.lineage
        if standing is None or standing.journal_state.checkpoint.lineage != lineage_before:
            raise LogLostError("another recovery was faster", epoch=epoch)
        journal_state = standing.journal_state
        reason = damage or lost_because(journal_state, frames) or self._lost
        mended = look.state is not RecoveryState.DAMAGED
        if not reason and not standing.damage and mended:
            plain = self._plain(replace(look, state=RecoveryState.HEALTHY, reason=""))
            told = f"the log is whole, and what was wrong with it is mended: {look.reason}"
            return replace(plain, warnings=(*plain.warnings, told))
        look = replace(
            look,
            reason=reason or look.reason,
            damage=standing.damage,
            journal_state=journal_state,
            frames=frames,
        )
        cut = await self._cut(look, epoch)
        try:
            loss = await self._loss(look, cut, epoch)
            report = self._report(look, cut, loss)
            journal = Journal(self._storage, self._environment, self._container, epoch, lineage)
            await write_beginning(
                self._container,
                cut,
                journal,
                self._storage,
                self._environment,
                self._settings,
                self._scratch,
                self._owner,
                loss.put_back,
            )
        finally:
            await run_whole(self._environment, INDEX_POOL, cut.index.close)
        again = await read_journal(self._storage, self._environment, self._container, epoch + 1)
        assert again is not None, "its checkpoint is durable"
        return await self._finish(report, again)

    async def _finish(self, report: RecoveryReport, journal_state: JournalState) -> RecoveryReport:
        """Set the older log aside and begin the one of the new lineage."""

        def finish(log: FencedLog) -> str | None:
            older = replaceable(log)
            older.fence_all()
            place = older.set_aside()
            begin_log(self._container, log, journal_state, self._owner)
            return place

        place = await self._blocking(finish)
        lineage = uuid_text(journal_state.checkpoint.lineage)
        return replace(
            report, done=True, new_lineage=lineage, epoch=journal_state.epoch, set_aside=place
        )

    async def _blocking(self, call: Callable[[FencedLog], T]) -> T:
        """Run ``call`` with a handle of the log of its own."""

        def run() -> T:
            log = self._new_log()
            try:
                return call(log)
            finally:
                log.close()

        return await self._environment.run_blocking(LOG_POOL, run)
