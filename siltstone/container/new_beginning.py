"""How a container begins anew from a state: a checkpoint of a new lineage first, then its log.

A recovery begins so behind a lost log, and a restore in a store that is new. The checkpoint alone
makes the state count; a try that died before it has changed nothing, and one that died behind it
has only its log left to begin.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from siltstone.container.lost_chunks import PutBack
from siltstone.container.new_lineage import DirectWriter, make_base
from siltstone.container.owner import packing_storage
from siltstone.container.recovery_cut import Cut
from siltstone.container.settings import ContainerSettings
from siltstone.core.chunk_names import recovery_file
from siltstone.core.environment import Environment
from siltstone.core.fenced_log import FencedLog
from siltstone.core.records.checkpoint import Checkpoint, SystemLayout
from siltstone.core.records.layout import Layout
from siltstone.core.records.piece import ControlKind, control_piece
from siltstone.core.records.recovery import Recovery, encode_recovery
from siltstone.core.threads import AsyncChunkStorage
from siltstone.core.words import TABLE_LOG_ID
from siltstone.journal.journal import Journal
from siltstone.journal.recovery import Recovered
from siltstone.metadata.checkpoint import upload_index
from siltstone.metadata.layout_store import TableLayoutStore


async def write_beginning(
    container: int,
    cut: Cut,
    journal: Journal,
    storage: AsyncChunkStorage,
    environment: Environment,
    settings: ContainerSettings,
    scratch: Path,
    owner: str,
    put_back: Sequence[PutBack] = (),
) -> None:
    """Write the state of ``cut``, and the checkpoint that makes it count.

    Args:
        container: its index.
        cut: the state, its tails included; what they hold goes into chunks. Changed here.
        journal: of the new lineage, in an epoch that no owner has.
        storage: long-term storage, which has the chunks that the state names.
        environment: gives time, threads and chance.
        settings: knobs.
        scratch: a folder for a copy of the index.
        owner: what to say of who did it.
        put_back: bytes that chunks of the state have lost; they go into new ones.

    Raises:
        ChunkError: long-term storage failed; nothing of it counts.
    """
    previous = cut.where.lineage
    writer = DirectWriter(cut.replica, journal.epoch)
    layouts = TableLayoutStore(
        cut.replica.rows, writer, container, environment, settings.garbage_delay_s
    )
    segments = packing_storage(storage, layouts, environment, settings)
    policy = settings.resolved(storage.capabilities)
    position = await make_base(
        cut, writer, segments, environment, settings, policy, journal.lineage, put_back
    )
    uploaded = await upload_index(
        cut.index, storage, environment, container, journal.epoch, (), scratch / "copy", {}
    )
    record = Recovery(
        lineage=journal.lineage,
        previous_lineage=previous,
        epoch=journal.epoch,
        made_ms=int(environment.time() * 1000),
        cut_version=cut.where.table_end,
        table_version=position.version,
        frames=cut.frames_replayed,
        owner=owner,
    )
    await storage.create(recovery_file(container, journal.epoch), [encode_recovery(record)])
    layout = Layout(
        segment_id=TABLE_LOG_ID,
        storage_start=position.version,
        storage_length=position.version,
    )
    await journal.write_first_checkpoint(
        lambda sequence: Checkpoint(
            lineage=journal.lineage,
            epoch=journal.epoch,
            sequence=sequence,
            system=(SystemLayout(layout=layout, extents=(), chunks=(), sums=()),),
            index_files=uploaded.files,
            index_version=position.version,
            index_crc=position.running_crc,
            replay_index=0,
            safe_index=0,
            newest_index=-1,
        )
    )


def begin_log(container: int, log: FencedLog, recovered: Recovered, owner: str) -> None:
    """Begin the log of a lineage whose checkpoint is durable, on a handle not claimed. Blocking.

    Raises:
        LogLostError: the log holds something else; nothing was written.
        LogError: the log failed; the call may be repeated with another handle.
    """
    checkpoint, epoch = recovered.checkpoint, recovered.epoch
    log.claim(lineage=checkpoint.lineage, new=True, above=epoch, takeover=False, owner=owner)
    recovery = recovery_file(container, epoch)
    pieces = [
        control_piece(ControlKind.RECOVERY, recovery.encode()),
        control_piece(ControlKind.CHECKPOINT, recovered.checkpoint_file.encode()),
    ]
    log.append(pieces, count=len(pieces))
