"""Commits of one volume in a client's folder: how each becomes one batch, and what it hides.

Every batch is made and written under the volume's lock. A version of a page is deleted as soon as
no snapshot that is needed reads it: those of living readers, the one that the place has, and the
last one of a push that has not ended. What one of these still needs is noted as garbage.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from pyroaring import BitMap

from siltstone.volumes.errors import (
    ConcurrentWriteError,
    ConflictError,
    NeedsRecoveryError,
    VolumeNotFoundError,
)
from siltstone.volumes.page_changes import PageChanges, merged, up_to
from siltstone.volumes.partitions import Partitions, RowBatch, VolumePartition
from siltstone.volumes.records.commit_record import CommitRecord
from siltstone.volumes.records.keys import (
    garbage_key,
    lsn_value,
    page_key,
    read_garbage_key,
    read_lsn_value,
)
from siltstone.volumes.records.page_row import EMPTY_ROW, page_row
from siltstone.volumes.records.state_rows import (
    CommitRow,
    PendingPush,
    Snapshot,
    VolumeStatus,
    Watermarks,
)
from siltstone.volumes.records.state_rows import Mapping as LsnMapping
from siltstone.volumes.volume_rows import VolumeRows


class LocalCommits:
    """Reads and changes one volume of a client's folder. Thread-safe.

    Args:
        partitions: of the client's folder.
        volume: id of the volume.
        name: of the volume, for messages.
        synced: whether a commit is durable when it returns, also if power fails.

    Attributes:
        rows: those that the volume has once.
        lock: held while a batch is made and written.
    """

    def __init__(self, partitions: Partitions, volume: bytes, name: str, *, synced: bool) -> None:
        self.rows = VolumeRows(partitions, volume, name)
        self.lock = threading.RLock()
        self._partitions = partitions
        self._volume = volume
        self._synced = synced
        self._pins: Counter[int] = Counter()
        self._is_gone = False
        self._is_swept = False

    def end(self) -> None:
        """Let every verb that changes the volume fail: it was dropped."""
        with self.lock:
            self._is_gone = True

    def pin(self) -> Snapshot:
        """Return the newest snapshot; what it reads stays until ``unpin``."""
        with self.lock:
            self.check_there()
            snapshot = self.rows.snapshot
            self._pins[snapshot.local] += 1
            return snapshot

    def unpin(self, snapshot: Snapshot) -> None:
        """Let go of a snapshot; what the client's end kept of it goes at the next opening."""
        with self.lock:
            self._pins[snapshot.local] -= 1
            if self._pins[snapshot.local]:
                return
            del self._pins[snapshot.local]
            if self._is_gone or self._partitions.is_closed:
                return
            newest = self.rows.snapshot
            if newest.local == snapshot.local:
                return
            batch = self._partitions.batch()
            if self._collect(batch, newest, self.rows.watermarks, snapshot.local):
                self._partitions.write(batch, synced=False)

    def commit(self, base: Snapshot, pages: Mapping[int, bytes], count: int, kept: int) -> Snapshot:
        """Commit the pages that a writer wrote; durable on return if the client is.

        What the writer pinned becomes the new snapshot, so what only it read goes at once.

        Args:
            base: the snapshot that the writer read, and pinned.
            pages: 4,096 bytes of each index that was written, within ``count``.
            count: how many pages the volume has from now on.
            kept: the fewest pages that the writer let it have meanwhile.

        Raises:
            ConcurrentWriteError: ``base`` is not the newest snapshot.
        """
        with self.lock:
            self.check_there()
            newest = self.rows.snapshot
            if newest.local != base.local:
                raise ConcurrentWriteError(
                    "another commit came since the writer began: read again and retry",
                    volume=self.rows.name,
                    base=base.local,
                    newest=newest.local,
                )
            rows = {index: page_row(page) for index, page in pages.items()}
            self._move_pin(base.local, base.local + 1)
            try:
                return self._add(PageChanges(rows=rows, pages=count, kept=kept), newest)
            except BaseException:
                self._move_pin(base.local + 1, base.local)
                raise

    def _add(self, changes: PageChanges, newest: Snapshot) -> Snapshot:
        batch = self._partitions.batch()
        watermarks = self.rows.watermarks
        snapshot = replace(newest, local=newest.local + 1, pages=changes.pages)
        snapshot = replace(snapshot, generation=newest.generation + 1)
        changed = self._put_pages(batch, changes, newest, self._needed(newest, watermarks))
        row = CommitRow(changed=changed, pages=changes.pages, kept=changes.kept)
        self.rows.put_commit(batch, snapshot.local, row)
        self.rows.put_snapshot(batch, snapshot)
        self._partitions.write(batch, synced=self._synced)
        return snapshot

    def _move_pin(self, source: int, target: int) -> None:
        self._pins[source] -= 1
        if not self._pins[source]:
            del self._pins[source]
        self._pins[target] += 1

    def accept(self, records: Sequence[CommitRecord]) -> Snapshot:
        """Take over the commits of the place that follow the mapping, as one local LSN.

        Args:
            records: all after the mapping, in the order of their LSNs; at least one.

        Raises:
            NeedsRecoveryError: a push has not ended.
            ConflictError: there are commits here that the place has not; the status says so.
        """
        with self.lock:
            self.check_there()
            newest = self.rows.snapshot
            self._check_no_push(newest, self.rows.watermarks)
            if newest.mapping.local < newest.local:
                self._refuse(newest, records[-1].lsn)
            return self._take_over(newest, merged(records, newest.pages), len(records))

    def begin_push(self) -> tuple[Snapshot, int] | None:
        """Note that commits up to the newest are being pushed; return it, and the last of them.

        ``None`` if there is nothing to push. It is durable with ``note_push``, as is every commit
        before: what the place gets is never lost here.

        Raises:
            NeedsRecoveryError: the push before has not ended.
        """
        with self.lock:
            self.check_there()
            newest, watermarks = self.rows.snapshot, self.rows.watermarks
            self._check_no_push(newest, watermarks)
            if newest.mapping.local == newest.local:
                return None
            batch = self._partitions.batch()
            self.rows.put_watermarks(batch, replace(watermarks, pending_sync=newest.local))
            self._partitions.write(batch, synced=False)
            return newest, newest.local

    def note_push(self, push: PendingPush) -> None:
        """Note the record that is to be created, durably, before it is.

        Not if the volume was dropped meanwhile: its pages may have been read as zeros.
        """
        with self.lock:
            self.check_there()
            batch = self._partitions.batch()
            self.rows.put_push(batch, push)
            self._partitions.write(batch, synced=True)

    def finish_push(self, log: bytes, push: PendingPush, encoded: bytes) -> Snapshot:
        """Note that the place has the commits up to the end of a push."""
        with self.lock:
            self.check_there()
            newest = self.rows.snapshot
            assert newest.mapping.remote < push.target, "the next record of the log"
            batch = self._partitions.batch()
            snapshot = replace(newest, mapping=LsnMapping(push.target, push.end))
            self.rows.put_push(batch, None)
            self.rows.put_record(batch, log, push.target, encoded)
            self.rows.delete_commits(batch, newest.mapping.local + 1, push.end)
            self._end_sync(batch, newest, snapshot)
            return snapshot

    def forget_push(self) -> None:
        """Note that no push is under way, after one that ended before its record was noted."""
        with self.lock:
            self.check_there()
            if self.rows.watermarks.pending_sync > self.rows.snapshot.mapping.local:
                self._end_unpublished(self._partitions.batch())

    def reject_push(self) -> None:
        """Note that another client was faster: nothing of the push was published."""
        with self.lock:
            self.check_there()
            batch = self._partitions.batch()
            self.rows.put_push(batch, None)
            self.rows.put_status(batch, VolumeStatus.REJECTED_COMMIT)
            self._end_unpublished(batch)

    def _end_unpublished(self, batch: RowBatch) -> None:
        snapshot, watermarks = self.rows.snapshot, self.rows.watermarks
        kept = replace(watermarks, pending_sync=snapshot.mapping.local)
        self.rows.put_watermarks(batch, kept)
        self._collect(batch, snapshot, kept, watermarks.pending_sync)
        self._partitions.write(batch, synced=True)

    def reset(self, records: Sequence[CommitRecord]) -> Snapshot:
        """Give up the commits that the place has not, and take over those of the place.

        The pages that they changed get their mapped versions again, at a new LSN, so that readers
        of what is given up go on.

        Args:
            records: all after the mapping, in the order of their LSNs; may be none.

        Raises:
            NeedsRecoveryError: a push has not ended.
        """
        with self.lock:
            self.check_there()
            newest = self.rows.snapshot
            self._check_no_push(newest, self.rows.watermarks)
            return self._take_over(newest, self._restated(newest, records), len(records))

    def _restated(self, newest: Snapshot, records: Sequence[CommitRecord]) -> PageChanges:
        mapping, log = newest.mapping, self.rows.config.log
        pages = self.rows.mapped_pages(log, mapping)
        remote = merged(records, pages)
        changed, kept = self.rows.changes_after(log, mapping, newest.local)
        changed |= BitMap(self._partitions.indexes_above(self._volume, kept, pages))
        rows = {}
        for index in up_to(changed, remote.kept):
            found = self._partitions.newest_page(self._volume, index, mapping.local)
            rows[index] = EMPTY_ROW if found is None else found[1]
        return PageChanges(rows=rows | dict(remote.rows), pages=remote.pages, kept=remote.kept)

    def _take_over(self, newest: Snapshot, changes: PageChanges, count: int) -> Snapshot:
        """Make the pages of so many more remote commits the next local LSN, and map it to them."""
        batch = self._partitions.batch()
        self._put_pages(batch, changes, newest, self._pins)
        self.rows.delete_commits(batch, newest.mapping.local + 1, newest.local)
        lsn = newest.local + 1
        snapshot = Snapshot(
            local=lsn,
            mapping=LsnMapping(newest.mapping.remote + count, lsn),
            pages=changes.pages,
            generation=newest.generation + 1,
        )
        self._end_sync(batch, newest, snapshot)
        return snapshot

    def _check_no_push(self, newest: Snapshot, watermarks: Watermarks) -> None:
        if newest.mapping.local < watermarks.pending_sync:
            raise NeedsRecoveryError(
                "a push was interrupted: recover the volume first", volume=self.rows.name
            )

    def check_there(self) -> None:
        """Raise ``VolumeNotFoundError`` if the volume was dropped."""
        if self._is_gone:
            raise VolumeNotFoundError("volume was dropped", volume=self.rows.name)

    def _refuse(self, newest: Snapshot, remote: int) -> None:
        # In a batch of its own: the error leaves nothing of another.
        batch = self._partitions.batch()
        self.rows.put_status(batch, VolumeStatus.CONFLICT)
        self._partitions.write(batch, synced=True)
        raise ConflictError(
            "place and client both have commits that the other has not: reset the volume, or push "
            "it to a log of its own",
            volume=self.rows.name,
            unpushed=newest.local - newest.mapping.local,
            unpulled=remote - newest.mapping.remote,
        )

    def _end_sync(self, batch: RowBatch, newest: Snapshot, snapshot: Snapshot) -> None:
        """Make a snapshot with a newer mapping the newest, and write the batch."""
        watermarks = replace(self.rows.watermarks, pending_sync=snapshot.mapping.local)
        self.rows.put_snapshot(batch, snapshot)
        self.rows.put_status(batch, VolumeStatus.OK)
        self._collect(batch, snapshot, watermarks, newest.mapping.local)
        self._partitions.write(batch, synced=True)

    def _put_pages(
        self, batch: RowBatch, changes: PageChanges, newest: Snapshot, needed: Collection[int]
    ) -> BitMap:
        """Put the page rows of the next LSN; return the indexes of those within the volume.

        Args:
            batch: takes them.
            changes: what they are.
            newest: the snapshot before.
            needed: local LSNs of the snapshots, not after that, which must stay readable.
        """
        lsn = newest.local + 1
        changed = BitMap(changes.rows)
        # Also if the newest row says so already: one that an older cut hid may go at any time.
        emptied = (
            BitMap(self._partitions.indexes_above(self._volume, changes.kept, changes.pages))
            - changed
        )
        for index, row in changes.rows.items():
            batch.put(VolumePartition.PAGES, page_key(self._volume, index, lsn), row)
        for index in emptied:
            batch.put(VolumePartition.PAGES, page_key(self._volume, index, lsn), EMPTY_ROW)
        changed |= emptied
        cut = BitMap(self._partitions.indexes_above(self._volume, changes.pages, newest.pages))
        for index in changed | cut:
            found = self._partitions.newest_page(self._volume, index, newest.local)
            if found is not None:
                self._hide(batch, lsn, index, found[0], needed)
        return changed

    def _hide(
        self, batch: RowBatch, lsn: int, index: int, version: int, needed: Collection[int]
    ) -> None:
        if any(version <= point < lsn for point in needed):
            batch.put(
                VolumePartition.GARBAGE, garbage_key(self._volume, lsn, index), lsn_value(version)
            )
        else:
            batch.delete(VolumePartition.PAGES, page_key(self._volume, index, version))

    def _needed(self, snapshot: Snapshot, watermarks: Watermarks) -> list[int]:
        """Local LSNs of the snapshots that must stay readable, apart from the newest."""
        return sorted({snapshot.mapping.local, watermarks.pending_sync, *self._pins} - {0})

    def _collect(
        self, batch: RowBatch, snapshot: Snapshot, watermarks: Watermarks, released: int
    ) -> int:
        """Delete the versions that were needed at ``released`` alone; put the watermarks.

        The first call of a process also deletes what readers of an earlier one left. Returns how
        many versions are deleted.
        """
        needed = self._needed(snapshot, watermarks)
        count = 0
        begin = garbage_key(self._volume, released + 1 if self._is_swept else 0, 0)
        self._is_swept = True
        for key, value in self._partitions.scan(VolumePartition.GARBAGE, begin, self._volume):
            lsn, index = read_garbage_key(key)
            version = read_lsn_value(value)
            if not any(version <= point < lsn for point in needed):
                batch.delete(VolumePartition.PAGES, page_key(self._volume, index, version))
                batch.delete(VolumePartition.GARBAGE, key)
                count += 1
        checkpoint = min(needed) if needed else snapshot.local
        self.rows.put_watermarks(batch, replace(watermarks, checkpoint=checkpoint))
        return count
