"""One volume of a client: its pages, its commits, and how it is synced with a place."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.environment import Environment
from siltstone.volumes.errors import RejectedCommitError, RemoteMismatchError
from siltstone.volumes.eviction import Eviction
from siltstone.volumes.fetch import check_log, fetch_records, identify
from siltstone.volumes.local_commits import LocalCommits
from siltstone.volumes.pages import PageReads, neighbours
from siltstone.volumes.partitions import Partitions
from siltstone.volumes.place_calls import Steps, T, run
from siltstone.volumes.push import Pusher
from siltstone.volumes.reader import VolumeReader, VolumeWriter
from siltstone.volumes.records.commit_record import CommitRecord
from siltstone.volumes.records.state_rows import (
    Snapshot,
    SyncDirection,
    VolumeStatus,
)
from siltstone.volumes.slabs import slab_range

Progress = Callable[[int, int], None]
"""Told how many bytes are done, and how many there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeInfo:
    """How a volume stands.

    Attributes:
        name: of the volume.
        log: id of its log in the place, as 32 hex digits.
        sync: which way ``sync`` moves commits.
        status: whether it can be synced.
        local: LSN of the newest local commit; 0 if there is none.
        unpushed: how many local commits the place has not.
        remote: newest remote LSN that is part of the volume; 0 if there is none.
        unpulled: how many remote commits are known that are not.
        pages: how many pages of 4,096 bytes the newest snapshot has.
        is_pending: a push was interrupted after its record was noted: its outcome is not known.
        checkpoint: versions of pages that commits up to this LSN hid are gone.
    """

    name: str
    log: str
    sync: SyncDirection
    status: VolumeStatus
    local: int
    unpushed: int
    remote: int
    unpulled: int
    pages: int
    is_pending: bool
    checkpoint: int

    @property
    def line(self) -> str:
        """A short form: ``2 +1 r5 +3``, or ``_`` for no commit.

        That is local commit 2, the last one of which is not pushed, on remote commit 5, after which
        3 are not pulled.
        """
        parts = [str(self.local or "_")]
        if self.unpushed:
            parts.append(f"+{self.unpushed}")
        parts.append(f"r{self.remote or '_'}")
        if self.unpulled:
            parts.append(f"+{self.unpulled}")
        return " ".join(parts)


class SyncAction(StrEnum):
    """What a sync did."""

    NOTHING = "nothing"
    PUSHED = "pushed"
    PULLED = "pulled"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientParts:
    """What the volumes of one client share.

    Attributes:
        partitions: of the client's folder.
        environment: gives ids and the time.
        client: id of the client.
        level: of compression.
        synced: whether commits outlive a loss of power.
        cache: bytes of pages of each volume that stay here although the place has them.
        storage: opens the place when it is first needed, so that a client works without it.
    """

    partitions: Partitions
    environment: Environment
    client: bytes
    level: int
    synced: bool
    cache: int | None
    storage: Callable[[], ChunkStorage]


class Volume:
    """Made by ``VolumeClient.create``, ``volume`` and ``clone``. Thread-safe.

    Attributes:
        name: of the volume.
        log: id of its log in the place, as 32 hex digits: what ``VolumeClient.clone`` takes.
    """

    def __init__(self, parts: ClientParts, volume: bytes, name: str) -> None:
        self.name = name
        self._parts = parts
        self._local = LocalCommits(parts.partitions, volume, name, synced=parts.synced)
        log = self._local.rows.config.log
        self.log = log.hex()
        self._log = log
        self._eviction = Eviction(self._local, parts.partitions, log, parts.cache)
        self._reads = PageReads(
            local=self._local,
            partitions=parts.partitions,
            volume=volume,
            log=log,
            fetched=self._eviction.note,
        )
        self._pusher = Pusher(
            local=self._local,
            partitions=parts.partitions,
            environment=parts.environment,
            volume=volume,
            log=log,
            client=parts.client,
            level=parts.level,
        )
        self._syncing = threading.RLock()
        self._is_checked = False

    def end(self) -> bytes:
        """Let it be used no more; return its id."""
        self._local.end()
        return self._local.rows.volume

    def check_there(self) -> None:
        """Raise ``VolumeNotFoundError`` if it was dropped."""
        self._local.check_there()

    def reader(self) -> VolumeReader:
        """A reader of the newest snapshot."""
        return VolumeReader(self._local, self._reads, self._run)

    def writer(self) -> VolumeWriter:
        """A writer on the newest snapshot."""
        return VolumeWriter(self._local, self._reads, self._run)

    def info(self) -> VolumeInfo:
        """How the volume stands, without asking the place."""
        rows = self._local.rows
        with self._local.lock:
            self._local.check_there()
            snapshot, watermarks, config = rows.snapshot, rows.watermarks, rows.config
            mapping = snapshot.mapping
            return VolumeInfo(
                name=self.name,
                log=self.log,
                sync=config.sync,
                status=rows.status,
                local=snapshot.local,
                unpushed=snapshot.local - mapping.local,
                remote=mapping.remote,
                unpulled=rows.known(self._log) - mapping.remote,
                pages=snapshot.pages,
                is_pending=rows.push is not None,
                checkpoint=watermarks.checkpoint,
            )

    def set_sync(self, sync: SyncDirection | str) -> None:
        """Change which way ``sync`` moves commits: disabled, push, pull or both.

        Raises:
            ValueError: there is no such direction.
            VolumeNotFoundError: the volume was dropped.
        """
        direction = SyncDirection(sync)
        with self._local.lock:
            self._local.check_there()
            rows = self._local.rows
            batch = self._parts.partitions.batch()
            rows.put_config(batch, replace(rows.config, sync=direction))
            self._parts.partitions.write(batch, synced=True)

    def fetch(self) -> int:
        """Learn which commits the place has; return how many are not pulled. Fetches no page.

        Raises:
            RemoteMismatchError: it is another place, or its log is not the one known here.
            ChunkError: the place did not answer.
        """
        with self._syncing:
            return self._run(self.fetch_steps())

    def pull(self) -> bool:
        """Take over the commits of the place; whether there were any. Fetches no page.

        A push that was interrupted is ended first.

        Raises:
            ConflictError: there are commits here that the place has not.
            RejectedCommitError: a push was interrupted, and another client was faster.
            RemoteMismatchError: see ``fetch``.
            OutcomeUnknownError: see ``push``.
            ChunkError: the place did not answer.
        """
        with self._syncing:
            return self._run(self.pull_steps())

    def push(self) -> bool:
        """Publish the local commits as one commit of the place; whether there were any.

        A push that was interrupted is ended first.

        Raises:
            RejectedCommitError: another client was faster; nothing was published.
            OutcomeUnknownError: the place did not say whether it took the commit; a push, pull or
                ``recover`` finds out.
            RemoteMismatchError: it is another place than before.
            ChunkError: the place did not answer, or is full; nothing was published.
            StoreError: there is no room for temporary files; nothing was published.
        """
        with self._syncing:
            return self._run(self.push_steps())

    def recover(self) -> bool:
        """End a push that was interrupted; whether one was. Raises as ``push``."""
        with self._syncing:
            return self._run(self.recover_steps())

    def reset(self) -> Snapshot:
        """Give up the local commits that the place has not, and take over what it has.

        Readers of older snapshots go on. A push that was interrupted is ended first: what the place
        took of it stays.

        Raises:
            RemoteMismatchError: see ``fetch``.
            OutcomeUnknownError: see ``push``.
            ChunkError: the place did not answer; nothing is given up.
        """
        with self._syncing:
            return self._run(self.reset_steps())

    def hydrate(self, *, progress: Progress | None = None) -> int:
        """Fetch all pages of the newest snapshot that are only in the place; return how many slabs.

        Args:
            progress: told, after each request, how many bytes were fetched and how many there are.

        Raises as ``VolumeReader.read``.
        """
        with self.reader() as reader:
            slabs = list(self._reads.missing(reader.snapshot.local, reader.page_count))
            total = sum(record.slabs[number].length for record, number in slabs)
            done = 0
            for record, first, count in neighbours(slabs):
                self._run(self._reads.fetch_slabs(record, first, count))
                done += slab_range(record, first, count)[1]
                if progress is not None:
                    progress(done, total)
            return len(slabs)

    def evict(self, keep: int = 0) -> int:
        """Let go of pages that the place has; they are fetched again when they are read.

        What no place has stays. What was fetched last stays longest, then what was pushed last.

        Args:
            keep: bytes of such pages that stay here.

        Returns:
            How many pages were let go; fewer if a push or a pull came meanwhile.

        Raises:
            ValueError: ``keep`` is below 0.
        """
        if keep < 0:
            raise ValueError(f"a volume keeps 0 bytes or more, not {keep}")
        return self._eviction.evict(keep)

    def sync(self) -> SyncAction:
        """Push or pull, whichever is due in the direction that is set.

        A volume with a conflict, or whose push was rejected, is skipped until it is reset.

        Raises as ``push`` and ``pull``.
        """
        with self._syncing:
            return self._run(self.sync_steps())

    def fetch_steps(self) -> Steps[int]:
        """The calls of ``fetch``."""
        yield from self._check_place()
        rows = self._local.rows
        known = rows.known(self._log)
        found = yield from fetch_records(self._log, known, rows.encoded_record(self._log, known))
        if found:
            batch = self._parts.partitions.batch()
            for each in found:
                rows.put_record(batch, self._log, each.record.lsn, each.encoded)
            self._parts.partitions.write(batch, synced=False)
        return known + len(found) - rows.snapshot.mapping.remote

    def pull_steps(self) -> Steps[bool]:
        """The calls of ``pull``."""
        yield from self.recover_steps()
        count = yield from self.fetch_steps()
        if not count:
            return False
        self._local.accept(self._news(count))
        return True

    def push_steps(self) -> Steps[bool]:
        """The calls of ``push``."""
        yield from self._check_place()
        recovered = yield from self.recover_steps()
        pushed = yield from self._pusher.push()
        return recovered or pushed is not None

    def recover_steps(self) -> Steps[bool]:
        """The calls of ``recover``."""
        self._local.check_there()
        if self._local.rows.push is not None:
            yield from self._check_place()
        return (yield from self._pusher.recover()) is not None

    def reset_steps(self) -> Steps[Snapshot]:
        """The calls of ``reset``."""
        with suppress(RejectedCommitError):
            yield from self.recover_steps()
        count = yield from self.fetch_steps()
        return self._local.reset(self._news(count))

    def sync_steps(self) -> Steps[SyncAction]:
        """The calls of ``sync``."""
        info = self.info()
        direction = info.sync
        if direction is SyncDirection.DISABLED or info.status is not VolumeStatus.OK:
            return SyncAction.SKIPPED
        if direction.pulls and (yield from self.pull_steps()):
            return SyncAction.PULLED
        if direction.pushes and self.info().unpushed:
            yield from self.push_steps()
            return SyncAction.PUSHED
        return SyncAction.NOTHING

    def _news(self, count: int) -> list[CommitRecord]:
        """The first so many records after the mapping, which are known here."""
        rows = self._local.rows
        first = rows.snapshot.mapping.remote + 1
        return [rows.record(self._log, lsn) for lsn in range(first, first + count)]

    def _check_place(self) -> Steps[None]:
        """Check once an opening that place and log are those that the volume was synced with."""
        self._local.check_there()
        if self._is_checked:
            return
        place = yield from identify(self._parts.environment.uuid())
        rows = self._local.rows
        with self._local.lock:
            self._local.check_there()
            config = rows.config
            if config.place is None:
                batch = self._parts.partitions.batch()
                rows.put_config(batch, replace(config, place=place))
                self._parts.partitions.write(batch, synced=True)
            elif config.place != place:
                raise RemoteMismatchError(
                    "this is another place than the one that the volume was synced with",
                    volume=self.name,
                    expected=config.place.hex(),
                    found=place.hex(),
                )
        known = rows.known(self._log)
        yield from check_log(self._log, known, rows.encoded_record(self._log, known))
        self._is_checked = True

    def _run(self, steps: Steps[T]) -> T:
        return run(steps, self._parts.storage)
