"""What a read-only open shows when long-term storage is all that counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from siltstone.container.boot.storage_layers import segment_storage, system_storage
from siltstone.container.models.settings import ContainerSettings
from siltstone.container.reader.reader_view import View
from siltstone.container.recovery.recovered_state import RecoveredCut
from siltstone.container.recovery.storage_state import (
    Loss,
    changed_meanwhile,
    loss_of,
    newest_cut,
    newest_standing,
)
from siltstone.container.state.boot_state import BootState
from siltstone.container.state.read_only_log_writer import NoWriter
from siltstone.container.state.replica import Replica
from siltstone.core.environment import Environment
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.storage.uncancellable import run_whole
from siltstone.core.text import counted
from siltstone.journal.journal_state import EPOCH_END, PAUSE_S, STARTS_MAX, JournalState
from siltstone.metadata.checkpoint import INDEX_POOL
from siltstone.metadata.index import Index
from siltstone.metadata.layout_store import TableLayoutStore
from siltstone.segments.segment_storage import ChunkedSegmentStorage

WARNINGS_MAX = 1_000
"""More segments than this are not named one by one; ``siltstone recover --dry-run`` names all."""


class LostView(View):
    """A view of what long-term storage alone holds.

    Attributes:
        doubts: why a newer state may have been there; none when this is the newest.
        newest: what the journal said when all was looked at; ``None`` when it said nothing then.
    """

    def __init__(
        self,
        boot_state: BootState,
        journal_state: JournalState,
        replica: Replica,
        index: Index,
        system: ChunkedSegmentStorage,
        segments: ChunkedSegmentStorage,
        *,
        doubts: tuple[str, ...],
        newest: JournalState | None,
    ) -> None:
        super().__init__(boot_state, journal_state, replica, index, system, segments)
        self.doubts = doubts
        self.newest = newest


async def build_lost_view(
    container: int,
    storage: AsyncChunkStorage,
    environment: Environment,
    settings: ContainerSettings,
    folder: Path,
) -> LostView:
    """Build a view of the last table-log flush, or of what damage left; warnings say what it lacks.

    An owner may be at work, and delete what it drops: what seems to be missing is looked at again
    when the journal says something else by then.

    Raises:
        StoreNotFoundError: the container was never opened for writing.
        StoreInUseError: an owner changed what was looked at, each of several times.
        CorruptDataError: no state can be built.
        ChunkError: long-term storage did not answer.
    """
    seen: JournalState | None = None
    for start in range(STARTS_MAX):
        if start:
            await environment.sleep(PAUSE_S * 2 ** (start - 1))
        view = await _view(container, storage, environment, settings, folder)
        if view.newest in (view.journal_state, seen):
            return view
        seen = view.newest
        await _drop(view, environment)
    raise changed_meanwhile(container)


async def is_newest(
    view: View, container: int, storage: AsyncChunkStorage, environment: Environment
) -> bool:
    """Whether the journal says what it said when ``view`` was built; raises as building one."""
    assert isinstance(view, LostView), "asked of those that were built without a log"
    return await _newest(container, storage, environment) == view.newest


async def _newest(
    container: int, storage: AsyncChunkStorage, environment: Environment
) -> JournalState | None:
    standing = await newest_standing(storage, environment, container, EPOCH_END)
    return None if standing is None else standing.journal_state


async def _drop(view: LostView, environment: Environment) -> None:
    await view.segments.close()
    await run_whole(environment, INDEX_POOL, view.drop)


async def _view(
    container: int,
    storage: AsyncChunkStorage,
    environment: Environment,
    settings: ContainerSettings,
    folder: Path,
) -> LostView:
    cut = await newest_cut(container, EPOCH_END, (), storage, environment, settings, folder)
    journal_state = cut.boot_state.journal_state
    assert journal_state is not None, "a cut is of a journal"
    newest: JournalState | None = journal_state
    try:
        loss = await loss_of(cut, storage, environment, EPOCH_END)
        warnings = tuple(_warnings(cut, loss))
        if cut.boot_state.warnings or warnings:
            newest = await _newest(container, storage, environment)
    except BaseException:
        await run_whole(environment, INDEX_POOL, cut.index.close)
        raise
    boot_state = cut.boot_state.warned(_shown(cut), *warnings)
    writer = NoWriter(cut.replica.tables)
    layouts = TableLayoutStore(cut.replica.rows, writer, container, environment, 0.0)
    segments = segment_storage(
        storage, layouts, environment, settings, prefetch_bytes=settings.prefetch_bytes
    )
    system = system_storage(boot_state, storage, environment, settings)
    return LostView(
        boot_state,
        journal_state,
        cut.replica,
        cut.index,
        system,
        segments,
        doubts=tuple(_doubts(cut, loss)),
        newest=newest,
    )


def _doubts(cut: RecoveredCut, loss: Loss) -> Iterator[str]:
    if cut.damage:
        yield f"long-term storage is damaged, an older state serves: {cut.damage}"
    if loss.version is not None:
        yield f"updates of tables up to version {loss.version} are lost"
    yield from loss.signs


def _shown(cut: RecoveredCut) -> str:
    return (
        f"read from long-term storage alone, as of table version {cut.boot_state.table_end}: "
        "what was acknowledged later is not shown"
    )


def _warnings(cut: RecoveredCut, loss: Loss) -> Iterator[str]:
    yield from _doubts(cut, loss)
    lacking = [segment for segment in loss.segments if segment.missing or segment.lost]
    for segment in lacking[:WARNINGS_MAX]:
        if segment.missing:
            missing = counted(segment.missing, "byte")
            yield f"segment {segment.name}: not shown: {missing} up to its seal"
        for lost in segment.lost:
            end = lost.offset + lost.length
            yield (
                f"segment {segment.name}: bytes {lost.offset} to {end} are lost: {lost.chunk} is "
                f"{lost.reason}"
            )
    if len(lacking) > WARNINGS_MAX:
        yield f"{len(lacking) - WARNINGS_MAX} more segments lack bytes"
