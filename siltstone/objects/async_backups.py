"""Backups of a keyspace, and what the last rebuild could not know of it, for asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from siltstone.objects.open_space import OpenSpace
from siltstone.objects.rebuild_report import doubtful_objects
from siltstone.objects.space_backup import back_up
from siltstone.objects.space_place import Progress, no_progress

if TYPE_CHECKING:
    from pathlib import Path

    from siltstone.objects.rebuild_report import DoubtfulObject
    from siltstone.objects.space_backup import KeyspaceBackupReport


class AsyncBackups:
    """The verbs of a keyspace about backups."""

    __slots__ = ()

    _space: OpenSpace

    async def backup(
        self,
        place: Path | str,
        *,
        rate: int | None = None,
        allow_missing: bool = False,
        takeover: bool = False,
        progress: Progress = no_progress,
    ) -> KeyspaceBackupReport:
        """Make a backup of all that is acknowledged now, while changes go on.

        The value segment that takes records is closed, and those that the place lacks are copied;
        the ledger follows from them. A call that died leaves no backup. Compactions wait until the
        copying begins; what they replace later stays for as long as it takes, at most twelve hours.

        Args:
            place: a folder, or a settings file with the section ``long_term_storage``; see
                docs/backup.md. It may have backups of any number of stores and keyspaces.
            rate: bytes a second to the place, at least 1; ``None`` means no limit.
            allow_missing: make it although values are damaged or gone; it says which bytes.
            takeover: continue although another call is at work in the place.
            progress: told bytes that are copied, and of how many, on the store's loop.

        Raises:
            SettingsError: the settings of the place are wrong.
            StoreError: the place is that of a store; ``StoreInUseError``: another call makes or
                removes backups of this keyspace there.
            CorruptDataError, LostDataError: values are damaged or gone; nothing was stated.
            SnapshotExpiredError: it took more than twelve hours.
            ChunkError: the place or the store refused, or did not answer.
            ReadOnlyError: the store was opened read-only.

        and what a put raises.
        """
        return await back_up(
            self._space,
            place,
            rate=rate,
            takeover=takeover,
            allow_missing=allow_missing,
            progress=progress,
        )

    async def doubtful(self) -> AsyncIterator[DoubtfulObject]:
        """Yield the doubtful objects of the last rebuild whose names are known. See ``rebuild``."""
        self._space.check_open()
        async for found in doubtful_objects(self._space.parts.store, self._space.parts.names):
            yield found
