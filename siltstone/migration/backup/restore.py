"""Restore: a generation of a backup becomes a new store, at an empty place, of any binding.

The new store has every byte and every table of the generation, and a history of its own: another
id, other lineages, epochs above all that were known, and empty tier-1 logs. So neither its owner
nor a reader can mistake anything of the old store for its own, nor the other way round.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from siltstone.collections.any_collection import collections_are_installed
from siltstone.container.reader.backup_image import decoded_tail
from siltstone.container.recovery.restore import RestoreSource, check_log_free, restore_container
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import LINEAGE_BYTES
from siltstone.core.errors import (
    ChunkNotFoundError,
    CorruptDataError,
    SettingsError,
    StoreError,
    StoreNotFoundError,
)
from siltstone.core.fenced_log import FencedLog
from siltstone.core.packages import install_hint
from siltstone.core.records.backup import Backup, BackupChunk, BackupContainer
from siltstone.core.records.backup_collections import BackupCollection
from siltstone.core.records.checkpoint import IndexFile
from siltstone.core.records.store_manifest import encode_store_manifest
from siltstone.core.text import uuid_text
from siltstone.migration.backup.admin import backups_of
from siltstone.migration.backup.chunk_put import delete_parts
from siltstone.migration.backup.chunk_restore import ChunkItem, ChunkWork
from siltstone.migration.backup.collection_copies import RestoredCollections
from siltstone.migration.backup.create import ROUNDS_MAX, Progress
from siltstone.migration.backup.fragment_copy import OCCUPIED
from siltstone.migration.backup.place import BackupPlace
from siltstone.migration.backup.worker_place import WorkerPlace
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.scrub import DAMAGE
from siltstone.pipelines.work import FAILED, OK, Executor, ItemOutcome, PipelineError, packed
from siltstone.store.admin.place_objects import delete, put
from siltstone.store.admin.place_settings import Place, find_place, open_place
from siltstone.store.admin.prefilled_init import NewStore, begun, fill_store
from siltstone.store.manifest import COPY_NAME
from siltstone.store.site import Site, site_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """What a restore made.

    Attributes:
        settings: the settings file of the new store.
        backup: the generation that it was made from; ``has_left_collections`` of it says that the
            new store lacks collections, too.
        chunks: how many were brought by this call.
        size: their bytes.
        found: chunks that a try which died had brought; verified and not brought again.
        missing: chunks that are not there, and why; empty unless that was allowed.
    """

    settings: Path
    backup: Backup
    chunks: int
    size: int
    found: int
    missing: dict[str, str]


def restore_backup(
    place: Path | str,
    target: Path | str | Site,
    generation: int | None = None,
    store: str | None = None,
    *,
    executor: Executor | None = None,
    rate: int | None = None,
    allow_missing: bool = False,
    progress: Progress = lambda done, total: None,
) -> RestoreReport:
    """Make a new store from a generation, and open it once.

    The store that was backed up is not looked at and may be gone. A call that died leaves no store.
    The same call, repeated, continues with the generation that it began with, also if there is a
    newer one by now; after a call that did all it brings nothing. Containers that are not in the
    generation begin empty.

    Args:
        place: settings file of the place, or a folder.
        target: where the new store will be, as ``site_of`` says it; a folder alone stands for the
            binding ``nfs`` and the log ``file`` in it. Its storage and its logs must be empty.
        generation: which one; ``None`` means the newest, or the one that a call began here with.
        store: uuid of the store that was backed up; see ``backups_of``.
        executor: where chunks are brought; ``None`` means threads of this process.
        rate: bytes a second from the place, at least 1; ``None`` means no limit.
        allow_missing: make the store although bytes of the backup are missing or damaged; reads of
            these fail then, with an error that says so.
        progress: called with how far it is.

    Raises:
        StoreExistsError: something is here already, or another generation was begun.
        StoreInUseError: another call makes a store here.
        StoreNotFoundError: there is no such backup, or it was removed meanwhile.
        CorruptDataError: the backup is damaged; ``where`` names an object.
        StoreError: chunks are absent from the backup; or the folder cannot be written; or it has
            collections, and their package is not installed.
        LogLostError: the tier-1 log is in use by another container.
        PipelineError: the place did not answer for an object; or a worker lacks the settings, or
            has another place or store under their paths.
        ChunkError: the place or the new storage refused, or did not answer.
    """
    site = target if isinstance(target, Site) else site_of(target)
    with backups_of(place, store, rate=rate) as opened:
        backup = opened.generation(_begun(opened, site) if generation is None else generation)
        chosen = executor or LocalExecutor()
        work = _Restoring(opened, backup, find_place(place), chosen, rate, progress)
        origin = f"{_origin(opened)}{backup.generation}"
        try:
            work.look(allow_missing=allow_missing)
            settings = fill_store(site, origin, backup.container_count, work.fill)
        except (ChunkNotFoundError, CorruptDataError, PipelineError, SettingsError):
            opened.check_there(backup)
            raise
        return RestoreReport(
            settings=settings,
            backup=backup,
            chunks=work.brought,
            size=work.size,
            found=work.found,
            missing=work.missing,
        )


def _origin(opened: BackupPlace) -> str:
    """What a store is made from, up to the generation."""
    return f"{opened.store_id.hex()[:8]}-"


def _begun(opened: BackupPlace, site: Site) -> int | None:
    """The generation that an unfinished call makes a store of here; ``None`` without one.

    Raises:
        StoreNotFoundError: it was removed meanwhile.
    """
    origin, stem = begun(site) or "", _origin(opened)
    number = origin.removeprefix(stem)
    if origin == number or not number.isdecimal():
        return None
    if int(number) not in {found.number for found in opened.generations()}:
        raise StoreNotFoundError(
            "a store was begun here of a backup that was removed since: remove what it has made",
            generation=number,
            path=site.place,
        )
    return int(number)


class _Restoring:
    def __init__(
        self,
        opened: BackupPlace,
        backup: Backup,
        place: Place,
        executor: Executor,
        rate: int | None,
        progress: Progress,
    ) -> None:
        self.brought = 0
        self.size = 0
        self.found = 0
        self.missing: dict[str, str] = {}
        self._opened = opened
        self._backup = backup
        self._place = place
        self._executor = executor
        self._rate = rate
        self._progress = progress
        self._allow_missing = False
        self._chunks: tuple[BackupChunk, ...] = ()
        self._collections: tuple[BackupCollection, ...] = ()
        self._origins: dict[int, RestoreSource] = {}

    def look(self, *, allow_missing: bool) -> None:
        """Read all but chunks and index files, before anything is made."""
        self._allow_missing = allow_missing
        chunks: dict[str, BackupChunk] = {}
        for container in self._backup.containers:
            self._origins[container.container] = self._origin(container)
            chunks |= {chunk.name: chunk for chunk in self._opened.chunks(container)}
        self._chunks = tuple(chunks.values())
        self._collections = self._opened.collections(self._backup)
        if self._collections and not collections_are_installed():
            hint = install_hint("collections")
            raise StoreError(f"the backup has collections, which need a package; try: {hint}")
        parts = (part for one in self._collections for part in one.parts)
        absent = [chunk.name for chunk in (*self._chunks, *parts) if chunk.missing]
        if absent and not allow_missing:
            raise StoreError(
                "the backup was made without chunks that were damaged then",
                count=len(absent),
                first=absent[0],
            )
        self.missing = dict.fromkeys(absent, "absent from the backup")

    def _origin(self, container: BackupContainer) -> RestoreSource:
        folder = self._opened.folder
        tail = decoded_tail(self._opened.read(container.tail), where=folder + container.tail.name)
        return RestoreSource(
            lineage=container.lineage,
            epoch=container.epoch,
            table_version=container.table_version,
            table_crc=container.table_crc,
            index_files=tuple(
                IndexFile(
                    file_name=file.file_name,
                    chunk_name=folder + file.content.name,
                    length=file.content.length,
                    crc=file.content.crc,
                )
                for file in container.index_files
            ),
            tail=tail,
        )

    def fill(self, new: NewStore) -> None:
        """Bring chunks and containers. May be repeated."""
        for index in range(self._backup.container_count):
            log = new.assembly.new_log(index)
            try:
                check_log_free(log, _lineage(new.store_id, index))
            finally:
                log.close()
        collections = RestoredCollections(self._collections, new.store_id)
        self._bring(new, collections)
        for index, origin in self._origins.items():
            asyncio.run(self._container(new, index, origin))
        collections.make(new)

    def _bring(self, new: NewStore, collections: RestoredCollections) -> None:
        items = [
            ChunkItem(
                name=chunk.name,
                stem=chunk.stem,
                length=chunk.length,
                fragments=chunk.fragments,
                found=new.lengths.get(chunk.name),
            )
            for chunk in sorted(self._chunks, key=lambda chunk: chunk.name)
            if not chunk.missing
        ]
        items += collections.items(new.lengths)
        witness = self._opened.witness(self._backup.generation)
        work = ChunkWork(
            place=WorkerPlace(path=self._place.path, witness=witness),
            folder=self._opened.folder,
            target=str(new.settings),
            uuid=uuid_text(new.store_id),
            rate=self._rate,
        )
        with closing(new.assembly.new_storage()) as target:
            # By this workers know the new place, until it is a store.
            put(target, COPY_NAME, [encode_store_manifest(new.assembly.manifest)])
            self._rounds(work, items, target)
            delete(target, COPY_NAME)

    def _rounds(self, work: ChunkWork, items: Sequence[ChunkItem], target: ChunkStorage) -> None:
        by_name = {item.name: item for item in items}
        total, done = sum(item.size for item in items), 0
        left = list(items)
        for _ in range(ROUNDS_MAX):
            occupied: list[ChunkItem] = []
            packs = packed(left, self._executor.workers)
            with closing(self._executor.run(work, packs)) as outcomes:
                for outcome in outcomes:
                    item = by_name[outcome.subject]
                    if outcome.status == OCCUPIED:
                        occupied.append(replace(item, found=None))
                        continue
                    done += item.size
                    self._progress(done, total)
                    self._note(outcome, target)
            # Nothing else may: a task that was given up and lives on would delete what is whole.
            for item in occupied:
                delete(target, item.name)
            if not occupied:
                delete_parts(target)
                return
            left = occupied
        raise PipelineError(f"another program writes to the new place: {left[0].name}")

    def _note(self, outcome: ItemOutcome, target: ChunkStorage) -> None:
        if outcome.status == FAILED:
            raise PipelineError(f"the place did not answer: {outcome.message}")
        if outcome.status in DAMAGE:
            self._opened.check_there(self._backup)
            if not self._allow_missing:
                raise CorruptDataError(
                    f"the backup is damaged, {outcome.status}: {outcome.message}",
                    where=outcome.subject,
                )
            self.missing[outcome.subject] = f"{outcome.status}: {outcome.message}"
            # What was written of it would be a chunk that is too short.
            delete(target, outcome.subject)
        elif outcome.status == OK:
            self.brought += 1
            self.size += outcome.length
        else:
            self.found += 1

    async def _container(self, new: NewStore, index: int, origin: RestoreSource) -> None:
        environment = new.assembly.environment

        def new_log() -> FencedLog:
            return new.assembly.new_log(index)

        await restore_container(
            container=index,
            lineage=_lineage(new.store_id, index),
            origin=origin,
            source=open_place(self._place, environment, rate=self._rate),
            new_log=new_log,
            storage=new.assembly.new_storage(),
            environment=environment,
            settings=new.assembly.settings.container,
            owner=new.assembly.owner,
        )


def _lineage(store_id: bytes, index: int) -> bytes:
    """The lineage of a container of a new store: the same in each try, and of no other store."""
    text = store_id + index.to_bytes(4, "little")
    return hashlib.blake2b(text, digest_size=LINEAGE_BYTES, person=b"silt-restore").digest()
