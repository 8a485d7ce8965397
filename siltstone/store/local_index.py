"""What the local index of an owner on this machine says of a log that looks whole."""

from __future__ import annotations

from pathlib import Path

from siltstone.container.boot.replay import index_ahead
from siltstone.container.models.segments import ContainerStats
from siltstone.core.errors import CorruptDataError, LogLostError, SiltstoneError
from siltstone.core.text import uuid_text
from siltstone.metadata.index import checkpoint_position
from siltstone.store.store_assembly import Assembly


def check_local_index(folder: Path, stats: ContainerStats) -> None:
    """Refuse what an owner refuses for the sake of its local index. Blocking; it is only read.

    Args:
        folder: of the index, which no living owner may have open.
        stats: of a reader, which looks at no index but its own.

    Raises:
        LogLostError: the log lacks table updates that the index holds.
    """
    if not folder.exists():
        return
    try:
        position = checkpoint_position(folder)
    except CorruptDataError:
        return  # It is built again.
    if position is None or uuid_text(position.lineage) != stats.lineage:
        return
    if position.version > stats.table_version:
        raise index_ahead(folder, position.version, stats.table_version)


async def lost_by_index(assembly: Assembly, index: int) -> str:
    """Why the local index says that the log of a container lacks something; empty if it does not.

    Where the container cannot be read, that tells more, and nothing is said here.
    """
    folder = assembly.settings.index_folder / f"c{index}"
    try:
        if not folder.exists() or (await assembly.holder(index)).alive:
            return ""
        reader = await assembly.open_reader(index)
    except SiltstoneError:
        return ""
    try:
        check_local_index(folder, reader.stats())
    except LogLostError as error:
        return str(error)
    finally:
        await reader.close()
    return ""
