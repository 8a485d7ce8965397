"""Backups of a store: all that is acknowledged at one moment, while its owner continues.

A generation is made while the owner works, without a claim. Every container is pinned first; then
an image of each is taken. It has all that was acknowledged before the backup began, also the tails
that lie in tier 1 alone. After that chunks are copied for as long as it takes; the pins keep them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from siltstone.container.reader.backup_image import ContainerImage
from siltstone.core.checksums import crc32c
from siltstone.core.constants import Buffer
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import CorruptDataError, StoreInUseError
from siltstone.core.records.backup import (
    Backup,
    BackupCollections,
    BackupContainer,
    BackupIndexFile,
    BackupObject,
    encode_chunk_list,
)
from siltstone.core.records.backup_collections import encode_collections
from siltstone.core.text import counted
from siltstone.migration.backup.collection_copies import (
    CollectionPlan,
    CollectionsToCopy,
    collections_to_copy,
)
from siltstone.migration.backup.fragment_copy import OCCUPIED, FragmentItem, FragmentWork
from siltstone.migration.backup.place import CHUNKS, FILES, BackupPlace
from siltstone.migration.backup.plan import ChunkPlan, longest, plan_chunks
from siltstone.migration.backup.worker_place import WorkerPlace
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.scrub import DAMAGE
from siltstone.pipelines.store_view import StoreView, store_view
from siltstone.pipelines.work import FAILED, OK, Executor, PipelineError, packed
from siltstone.store.admin.place_objects import check_no_store, delete
from siltstone.store.admin.place_settings import Place, find_place, open_place
from siltstone.store.admin.place_turns import Lease, turn

Progress = Callable[[int, int], None]
"""Called with how many bytes are done, of how many."""

ROUNDS_MAX: Final = 3
"""The second one copies what tries that died have left; the third, what died in the second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupReport:
    """What one call of ``create_backup`` did.

    Attributes:
        backup: the generation that is whole now.
        copied_fragments: objects with bytes of chunks that were copied by this call.
        copied_bytes: bytes of them.
        found_fragments: those that a call which died had copied before; verified and not copied
            again.
        copied_files: objects with index files, tails and lists that were made.
        copied_file_bytes: bytes of them.
        missing: what the source could not give, by chunk; empty unless that was allowed.
        has_left_collections: the store has collections that are not in it: only some containers
            were asked for, their package is not installed, or they cannot be read.
    """

    backup: Backup
    copied_fragments: int
    copied_bytes: int
    found_fragments: int
    copied_files: int
    copied_file_bytes: int
    missing: dict[str, str]
    has_left_collections: bool


def create_backup(
    store: Path | str,
    place: Path | str,
    *,
    containers: Collection[int] | None = None,
    executor: Executor | None = None,
    rate: int | None = None,
    allow_missing: bool = False,
    takeover: bool = False,
    progress: Progress = lambda done, total: None,
) -> BackupReport:
    """Make a generation: copy what the place lacks, then state it.

    A call that died leaves no generation, and the next one continues with what it has copied.

    Args:
        store: settings file of the store, or its folder. Its owner may work meanwhile.
        place: settings file of the place, or a folder; ``docs/backup.md`` describes it.
        containers: which ones; ``None`` means all.
        executor: where chunks are copied; ``None`` means threads of this process.
        rate: bytes a second to the place, at least 1; ``None`` means no limit.
        allow_missing: make the generation although chunks of the source are damaged or lost; it
            says which ones, and has none of their bytes.
        takeover: continue although another call is at work in the place; see ``turn``.
        progress: called with how far the copying is.

    Raises:
        CorruptDataError: chunks of the source are damaged or lost; the first is named. Nothing was
            stated; what was copied stays for the next call.
        StoreInUseError: another call makes, removes or collects backups here.
        StoreError: the place is that of a store, or the source was recovered with loss meanwhile.
        PipelineError: the source did not answer for a chunk; or a worker lacks the settings, or has
            another place or store under their paths.
        ChunkError: the place refused, is full, or did not answer. The source is untouched.
        ValueError: there is no such container.
    """
    found = find_place(place)
    environment = SystemEnvironment()
    try:
        with (
            store_view(store) as view,
            _opened(found, environment, view.manifest.store_id, rate) as opened,
        ):
            check_no_store(opened.storage, found.path)
            with turn(opened, takeover=takeover) as taken:
                work = _Making(view, opened, taken, found, rate)
                return work.run(
                    containers,
                    executor or LocalExecutor(),
                    allow_missing=allow_missing,
                    progress=progress,
                )
    finally:
        environment.close()


def _opened(
    found: Place, environment: SystemEnvironment, store_id: bytes, rate: int | None
) -> BackupPlace:
    storage = open_place(found, environment, rate=rate, make=True)
    return BackupPlace(storage, environment, store_id)


class _Making:
    def __init__(
        self, view: StoreView, place: BackupPlace, taken: Lease, found: Place, rate: int | None
    ) -> None:
        self._view = view
        self._place = place
        self._turn = taken
        self._found = found
        self._rate = rate
        self._files = 0
        self._file_bytes = 0

    def run(
        self,
        containers: Collection[int] | None,
        executor: Executor,
        *,
        allow_missing: bool,
        progress: Progress,
    ) -> BackupReport:
        begun_ms = int(self._place.environment.time() * 1000)
        with collections_to_copy(self._view, every=containers is None) as held:
            return self._made(
                begun_ms, containers, held, executor, allow_missing=allow_missing, progress=progress
            )

    def _made(
        self,
        begun_ms: int,
        containers: Collection[int] | None,
        held: CollectionsToCopy,
        executor: Executor,
        *,
        allow_missing: bool,
        progress: Progress,
    ) -> BackupReport:
        images = self._view.images(containers)
        earlier = [one.backup for one in self._place.generations() if one.backup is not None]
        known = longest(tuple(self._place.copies(one)) for one in earlier)
        # Listed after the turn was taken: no other call removes an object that is there now.
        lengths = self._place.lengths(CHUNKS)
        plans = {
            image.container: plan_chunks(self._place.folder, image.chunks, known, lengths)
            for image in images
        }
        of_collections = held.plans(self._place.folder, known, lengths)
        every = [plan for of_one in plans.values() for plan in of_one]
        every += [plan for one in of_collections for plan in one.plans]
        copied, found = self._copy(every, executor, progress)
        for one in of_collections:
            one.judge()
        missing = {plan.name: plan.damage for plan in every if plan.damage} | held.damaged
        if missing:
            held.check()
            _refuse(missing, allow_missing=allow_missing)
        index_files = _index_files(earlier, self._place.lengths(FILES))
        backup = Backup(
            store_id=self._view.manifest.store_id,
            generation=self._turn.number,
            begun_ms=begun_ms,
            container_count=self._view.container_count,
            owner=self._turn.owner,
            containers=tuple(
                self._container(image, plans[image.container], index_files) for image in images
            ),
            collections=self._collections(of_collections),
            has_left_collections=held.has_left,
        )
        self._turn.check()
        self._place.state(backup)
        try:
            self._turn.check()
        except StoreInUseError:
            # A call that took the turn before the record was there may collect what it names.
            self._place.forget(backup.generation)
            raise
        return BackupReport(
            backup=backup,
            copied_fragments=len(copied),
            copied_bytes=sum(item.size for item in copied),
            found_fragments=found,
            copied_files=self._files,
            copied_file_bytes=self._file_bytes,
            missing=missing,
            has_left_collections=held.has_left,
        )

    def _collections(self, plans: Sequence[CollectionPlan]) -> BackupCollections | None:
        if not plans:
            return None
        parts = [part for plan in plans for part in plan.plans]
        return BackupCollections(
            content=self._put(
                0, "collections", [encode_collections(one.result() for one in plans)]
            ),
            count=len(plans),
            parts=len(parts),
            part_bytes=sum(part.length for part in parts),
        )

    def _copy(
        self, plans: Sequence[ChunkPlan], executor: Executor, progress: Progress
    ) -> tuple[list[FragmentItem], int]:
        """Copy all that is missing; return what was copied, and how much was there before."""
        plan_of = {item.name: plan for plan in plans for item in plan.items}
        items = {item.name: item for plan in plans for item in plan.items}
        place = WorkerPlace(path=self._found.path, witness=self._turn.name)
        work = FragmentWork(
            store=self._view.path, uuid=self._view.uuid, place=place, rate=self._rate
        )
        total, done = sum(item.size for item in items.values()), 0
        copied: list[FragmentItem] = []
        found = 0
        left = list(items.values())
        for _ in range(ROUNDS_MAX):
            occupied: list[FragmentItem] = []
            with closing(executor.run(work, packed(left, executor.workers))) as outcomes:
                for outcome in outcomes:
                    item, plan = items[outcome.subject], plan_of[outcome.subject]
                    if outcome.status == OCCUPIED:
                        occupied.append(replace(item, found=None))
                        continue
                    done += item.size
                    progress(done, total)
                    if outcome.status in DAMAGE:
                        plan.damage = f"{outcome.status}: {outcome.message}"
                        # What came of it has the name, and is no fragment.
                        self._turn.check()
                        delete(self._place.storage, item.name)
                    elif outcome.status == FAILED:
                        raise PipelineError(f"the store did not answer: {outcome.message}")
                    else:
                        plan.came[outcome.subject] = int.from_bytes(outcome.detail, "little")
                        if outcome.status == OK:
                            copied.append(item)
                        else:
                            found += 1
            if not occupied:
                return copied, found
            # Nothing else may: a task that was given up and lives on would delete what is whole.
            for item in occupied:
                self._turn.check()
                delete(self._place.storage, item.name)
            left = occupied
        raise PipelineError(f"another program writes to the place: {left[0].name}")

    def _container(
        self,
        image: ContainerImage,
        plans: Sequence[ChunkPlan],
        known: dict[tuple[str, int, int], BackupObject],
    ) -> BackupContainer:
        files = []
        for path in image.index_files:
            data = path.read_bytes()
            content = known.get((path.name, len(data), crc32c(data)))
            if content is None:
                content = self._put(image.container, "index", [data])
            files.append(BackupIndexFile(file_name=path.name, content=content))
        chunks = [plan.result() for plan in plans]
        return BackupContainer(
            container=image.container,
            lineage=image.lineage,
            epoch=image.epoch,
            table_version=image.table_version,
            table_crc=image.table_crc,
            segments=image.segments,
            chunks=len(chunks),
            chunk_bytes=sum(chunk.length for chunk in chunks),
            missing=sum(chunk.missing for chunk in chunks),
            list=self._put(image.container, "list", [encode_chunk_list(chunks)]),
            tail=self._put(image.container, "tail", image.tail),
            index_files=tuple(files),
        )

    def _put(self, container: int, kind: str, buffers: Sequence[Buffer]) -> BackupObject:
        made = self._place.put_file(container, kind, buffers)
        if made.name:
            self._files += 1
            self._file_bytes += made.length
        return made


def _refuse(missing: Mapping[str, str], *, allow_missing: bool) -> None:
    """Raise ``CorruptDataError`` if bytes are missing and that is not allowed."""
    if not allow_missing:
        name, reason = next(iter(missing.items()))
        raise CorruptDataError(
            f"{counted(len(missing), 'chunk')} of the store cannot be read, so there is no "
            f"backup; the first: {reason}",
            where=name,
        )


def _index_files(
    earlier: Sequence[Backup], lengths: Mapping[str, int]
) -> dict[tuple[str, int, int], BackupObject]:
    """The index files that are in the place: an index never changes a file, it makes others."""
    return {
        (file.file_name, file.content.length, file.content.crc): file.content
        for backup in earlier
        for container in backup.containers
        for file in container.index_files
        if lengths.get(file.content.name) == file.content.length
    }
