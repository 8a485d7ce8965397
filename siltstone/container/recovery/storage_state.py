"""What long-term storage alone says of a container, also when some of it is damaged or missing."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path

from siltstone.container.boot.storage_layers import system_storage
from siltstone.container.models.recovery_report import SegmentRecovery
from siltstone.container.models.settings import ContainerSettings
from siltstone.container.recovery.log_bytes import LogBytes
from siltstone.container.recovery.lost_chunks import PutBack, lost_ranges
from siltstone.container.recovery.new_lineage import segment_reports
from siltstone.container.recovery.recovered_state import RecoveredCut, build_cut
from siltstone.container.state.boot_state import boot_state_of
from siltstone.container.state.read_only_log_writer import NoWriter
from siltstone.core.chunk_names import claim_file
from siltstone.core.environment import Environment
from siltstone.core.errors import (
    ChunkNotFoundError,
    CorruptDataError,
    StoreInUseError,
    StoreNotFoundError,
)
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.frame import Frame
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.storage.block_sums import block_count
from siltstone.journal.fallback import earlier_states
from siltstone.journal.journal_state import JournalState, read_opened_journal, system_files
from siltstone.journal.retention import file_epoch
from siltstone.metadata.layout_store import TableLayoutStore
from siltstone.segments.read import sums_between

_TABLES = "tables-"
_DIGITS = 20


def changed_meanwhile(container: int, owner: str = "unknown") -> StoreInUseError:
    """The error of a look at long-term storage that an owner changes meanwhile, each time."""
    return StoreInUseError("an owner changes what is looked at", owner=owner, container=container)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """What is known to be lost.

    Attributes:
        version: table version up to which updates were acknowledged that the state lacks; ``None``
            when nothing shows that there are any.
        signs: what else files show to have been there.
        segments: each segment of the state, and what it lacks.
        put_back: what of that frames still hold.
    """

    version: int | None
    signs: tuple[str, ...]
    segments: tuple[SegmentRecovery, ...]
    put_back: tuple[PutBack, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageState:
    """A state that the journal gives.

    Attributes:
        journal_state: the state.
        damage: why the newest one cannot be had; empty when this is it.
    """

    journal_state: JournalState
    damage: str


async def standings(
    storage: AsyncChunkStorage, environment: Environment, container: int, below_epoch: int
) -> AsyncGenerator[StorageState]:
    """Yield the newest state of the journal, then those before it, where that one does not do.

    Nothing is yielded for a container that was never opened.

    Raises:
        CorruptDataError: the journal is damaged and no checkpoint in it is whole.
        FormatError: a file was made by a newer version.
        ChunkError: long-term storage did not answer.
    """
    failure: CorruptDataError | None = None
    newest: JournalState | None = None
    try:
        newest = await read_opened_journal(storage, environment, container, below_epoch)
    except CorruptDataError as error:
        failure = error
    if failure is None:
        if newest is None:
            return
        yield StorageState(journal_state=newest, damage="")
    damage = str(failure) if failure else "the newest state cannot be built"
    count = 0
    async for state in earlier_states(storage, container, below_epoch):
        count += 1
        yield StorageState(journal_state=state, damage=damage)
    if failure is not None and not count:
        raise failure


async def newest_standing(
    storage: AsyncChunkStorage, environment: Environment, container: int, below_epoch: int
) -> StorageState | None:
    """Return the newest state of the journal; ``None`` for a new container. Raises as before."""
    async with aclosing(standings(storage, environment, container, below_epoch)) as states:
        return await anext(states, None)


async def newest_cut(
    container: int,
    below_epoch: int,
    frames: Sequence[Frame],
    storage: AsyncChunkStorage,
    environment: Environment,
    settings: ContainerSettings,
    folder: Path,
) -> RecoveredCut:
    """Build the newest state that can be built, with what ``frames`` continue it by.

    Args:
        container: its index; it was opened before.
        below_epoch: of the epochs below this one.
        frames: of an older log; see ``build_cut``.
        storage: long-term storage.
        environment: gives threads.
        settings: those of the container.
        folder: for the index; what is there goes.

    Raises:
        CorruptDataError: none can be built; the error is that of the newest.
        StoreNotFoundError: the container was never opened.
        ChunkError: long-term storage did not answer.
    """
    failure: CorruptDataError | ChunkNotFoundError | None = None
    async with aclosing(standings(storage, environment, container, below_epoch)) as states:
        async for standing in states:
            journal_state = standing.journal_state
            boot_state = boot_state_of(journal_state.checkpoint.lineage, journal_state)
            system = system_storage(boot_state, storage, environment, settings)
            try:
                cut = await build_cut(
                    boot_state,
                    frames,
                    system,
                    storage,
                    environment,
                    settings,
                    folder,
                )
            except (CorruptDataError, ChunkNotFoundError) as error:
                failure = failure or error
                continue
            damage = standing.damage if failure is None else str(failure)
            return replace(cut, damage=damage or cut.damage)
    raise failure or StoreNotFoundError("container was never opened", container=container)


async def loss_of(
    cut: RecoveredCut,
    storage: AsyncChunkStorage,
    environment: Environment,
    below_epoch: int,
    frames: Sequence[Frame] = (),
    *,
    deep: bool = False,
) -> Loss:
    """Say what long-term storage lacks of a state, and what was beyond it.

    Args:
        cut: the state.
        storage: long-term storage.
        environment: gives time.
        below_epoch: of the epochs below this one.
        frames: of the tier-1 log; chunks whose bytes they hold are always read.
        deep: read every byte of segments; else presence and lengths are looked at.

    Raises:
        ChunkError: long-term storage did not answer.
    """
    journal_state = cut.boot_state.journal_state
    assert journal_state is not None, "a cut is of a journal"
    written, signs = await _signs_of_more(storage, journal_state, below_epoch)
    stated = boot_state_of(cut.boot_state.lineage, journal_state).table_end
    seen = max(written, stated)
    container = journal_state.container
    writer = NoWriter(cut.replica.tables)
    layouts = TableLayoutStore(cut.replica.rows, writer, container, environment, 0.0)

    def sums_of(chunk: Chunk) -> tuple[int, ...]:
        return sums_between(layouts, chunk, 0, block_count(chunk.length))

    kept_bytes = LogBytes(frames, journal_state.epoch)
    lacking = await lost_ranges(
        cut.replica, storage, container, sums_of, kept_bytes=kept_bytes, deep=deep
    )
    return Loss(
        version=seen if seen > cut.replica.tables.applied_version else None,
        signs=signs,
        segments=segment_reports(cut, lacking.lost, lacking.kept),
        put_back=lacking.put_back,
    )


async def _signs_of_more(
    storage: AsyncChunkStorage, journal_state: JournalState, below_epoch: int
) -> tuple[int, tuple[str, ...]]:
    """What files show to have been there beyond a state.

    Returns the table version up to which the table log was written, and what else is to be
    reported. A table log is written after the acknowledgement of what it holds, and before the
    journal says so; so this is what was lost, or what a crash cut off.

    Raises:
        ChunkError: long-term storage did not answer.
    """
    container = journal_state.container
    version = 0
    claims: list[int] = []
    async for stat in system_files(storage, container):
        epoch = file_epoch(stat.name, container)
        if epoch is None or epoch >= below_epoch:
            continue
        last = stat.name.rpartition("/")[2]
        start = last.removeprefix(_TABLES)[:_DIGITS]
        if last.startswith(_TABLES) and start.isdigit():
            version = max(version, int(start) + stat.length)
        if epoch > journal_state.epoch and stat.name == claim_file(container, epoch):
            claims.append(epoch)
    told = tuple(
        f"epoch {epoch} was claimed and no checkpoint of it can be read: what it stated is lost"
        for epoch in claims
    )
    return version, told
