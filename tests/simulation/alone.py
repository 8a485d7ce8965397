"""Long-term storage alone, at any moment, is a whole and consistent state of a container.

Commits are whole in it, too.

A copy of all chunks is made between two steps; what a recovery without tier 1 would continue from
is built from it, while the processes of the run continue.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import TYPE_CHECKING

from siltstone.bindings.memory.bucket import Bucket
from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.container.boot.storage_layers import bridged
from siltstone.container.models.recovery_report import RecoveryState
from siltstone.container.recovery.lossy_recovery import _Recovering
from siltstone.container.recovery.recovered_state import RecoveredCut
from siltstone.core.errors import SiltstoneError
from siltstone.journal.journal_state import EPOCH_END
from siltstone.segments.invariants import check_chunk, check_references
from siltstone.tier1.memory.fenced_log import MemoryFencedLog
from siltstone.tier1.memory.shared_log import SharedLog
from tests.simulation.facts import ViolationError
from tests.simulation.whole_commits import check_whole
from tests.support.container.row_checks import all_chunks, all_extents

if TYPE_CHECKING:
    from siltstone.container.state.replica import Replica
    from tests.simulation.world import World
    from tests.support.simulation.processes import Process


Besides = Callable[["Replica"], None]


async def check_alone(
    world: World, process: Process, besides: Besides = lambda replica: None
) -> None:
    """Check every container as if its log were lost now.

    Args:
        world: with them.
        process: that looks.
        besides: checks the state of each; what it raises is raised.

    Raises:
        ViolationError: something that its tables name is not there.
    """
    copy = Bucket()
    for key, chunk in world.bucket.chunks.items():
        copy.insert(key, deepcopy(chunk))
    for index in range(world.containers):
        try:
            await _check(world, process, copy, index, besides)
        except (SiltstoneError, AssertionError, KeyError) as error:
            raise ViolationError(f"storage alone, container {index}: {error!r}") from error


async def _check(
    world: World, process: Process, copy: Bucket, index: int, besides: Besides
) -> None:
    storage = MemoryChunkStorage(copy, world.profile, clock=lambda: 0.0, sleep=lambda _: None)
    chunks = bridged(storage, process, world.settings)
    scratch = world.folder / process.name / f"{index}"
    scratch.mkdir(parents=True)
    shared = SharedLog()
    work = _Recovering(
        index,
        lambda: MemoryFencedLog("lost", index, shared=shared),
        chunks,
        process,
        world.settings,
        process.name,
        scratch,
        lost="",
    )
    look = await work._look(EPOCH_END)
    if look.state is RecoveryState.NEW or look.journal_state is None:
        return
    cut = await work._cut(look, EPOCH_END)
    try:
        _check_cut(cut, storage)
        check_whole(cut.replica, world.ledgers[index].commits)
        besides(cut.replica)
    finally:
        cut.index.close()
        await chunks.close()


def _check_cut(cut: RecoveredCut, storage: MemoryChunkStorage) -> None:
    rows = cut.replica.rows
    found, extents = all_chunks(rows), all_extents(rows)
    check_references(found, extents)
    stats = {stat.name: stat for stat in storage.list("")}
    for chunk in found.values():
        if chunk.references:
            assert chunk.name in stats, f"{chunk.name} is gone"
            check_chunk(chunk, stats[chunk.name])
