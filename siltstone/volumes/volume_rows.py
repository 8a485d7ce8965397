"""The rows that a volume has once, read and written."""

from __future__ import annotations

from typing import Final

from pyroaring import BitMap

from siltstone.core.errors import CorruptDataError
from siltstone.volumes.partitions import Partitions, RowBatch, VolumePartition
from siltstone.volumes.records.commit_record import CommitRecord, decode_record
from siltstone.volumes.records.keys import commit_key, volume_key
from siltstone.volumes.records.state_rows import (
    CommitRow,
    Mapping,
    PendingPush,
    Snapshot,
    VolumeConfig,
    VolumeStatus,
    Watermarks,
    decode_commit,
    decode_config,
    decode_push,
    decode_snapshot,
    decode_status,
    decode_watermarks,
    encode_commit,
    encode_config,
    encode_push,
    encode_snapshot,
    encode_status,
    encode_watermarks,
)

_DECODED_MAX: Final = 8
"""Records never change, and one that many pages are fetched of is large."""


class VolumeRows:
    """Reads the rows of one volume as they are, and puts changed ones into batches.

    Args:
        partitions: of the client's folder.
        volume: id of the volume.
        name: of the volume, for messages.
    """

    def __init__(self, partitions: Partitions, volume: bytes, name: str) -> None:
        self.partitions = partitions
        self.volume = volume
        self.name = name
        self._newest = (b"", Snapshot())
        self._decoded: dict[tuple[bytes, int], CommitRecord] = {}

    @property
    def config(self) -> VolumeConfig:
        """What it follows. Raises ``CorruptDataError`` if the row is not there."""
        value = self._get("config")
        if value is None:
            raise CorruptDataError("volume has no configuration", where=self._where("config"))
        return decode_config(value, where=self._where("config"))

    @property
    def status(self) -> VolumeStatus:
        """Whether it can be synced."""
        value = self._get("status")
        if value is None:
            return VolumeStatus.OK
        return decode_status(value, where=self._where("status"))

    @property
    def snapshot(self) -> Snapshot:
        """The newest."""
        value = self._get("snapshot")
        if value is None:
            return Snapshot()
        seen, snapshot = self._newest
        if value != seen:
            snapshot = decode_snapshot(value, where=self._where("snapshot"))
            self._newest = (value, snapshot)
        return snapshot

    @property
    def watermarks(self) -> Watermarks:
        """How far pushes and collection came."""
        value = self._get("watermarks")
        if value is None:
            return Watermarks()
        return decode_watermarks(value, where=self._where("watermarks"))

    @property
    def push(self) -> PendingPush | None:
        """The push whose record was, or will be, created."""
        value = self._get("push")
        return None if value is None else decode_push(value, where=self._where("push"))

    def commit(self, lsn: int) -> CommitRow:
        """A commit that the place has not. Raises ``CorruptDataError`` if it is not there."""
        where = self._where(f"commits/{lsn}")
        value = self.partitions.get(VolumePartition.COMMITS, commit_key(self.volume, lsn))
        if value is None:
            raise CorruptDataError("commit is missing", where=where)
        return decode_commit(value, where=where)

    def mapped_pages(self, log: bytes, mapping: Mapping) -> int:
        """How many pages the volume has at a mapping."""
        return self.record(log, mapping.remote).pages if mapping.remote else 0

    def changes_after(self, log: bytes, mapping: Mapping, end: int) -> tuple[BitMap, int]:
        """What local commits after a mapping did, up to the LSN ``end``.

        Returns:
            Indexes of the pages that they wrote or zeroed, and how many of those at the mapping
            stayed throughout.
        """
        changed, kept = BitMap(), self.mapped_pages(log, mapping)
        for lsn in range(mapping.local + 1, end + 1):
            commit = self.commit(lsn)
            changed |= commit.changed
            kept = min(kept, commit.kept)
        return changed, kept

    def encoded_record(self, log: bytes, lsn: int) -> bytes | None:
        """The bytes of a record of a log that is known here, or ``None``."""
        return self.partitions.get(VolumePartition.RECORDS, commit_key(log, lsn))

    def record(self, log: bytes, lsn: int) -> CommitRecord:
        """A record of a log that is known here. Raises ``CorruptDataError`` if it is not."""
        found = self._decoded.get((log, lsn))
        if found is None:
            where = self._where(f"records/{lsn}")
            value = self.encoded_record(log, lsn)
            if value is None:
                raise CorruptDataError("record is missing", where=where)
            found = decode_record(value, where=where)
            if len(self._decoded) >= _DECODED_MAX:
                self._decoded.clear()
            self._decoded[log, lsn] = found
        return found

    def known(self, log: bytes) -> int:
        """The newest remote LSN of a log whose record is here; those from the mapping on are."""
        known = self.snapshot.mapping.remote
        begin = commit_key(log, known + 1)
        for _ in self.partitions.scan(VolumePartition.RECORDS, begin, log):
            known += 1
        return known

    def put_config(self, batch: RowBatch, config: VolumeConfig) -> None:
        """Change what it follows."""
        self._put(batch, "config", encode_config(config))

    def put_status(self, batch: RowBatch, status: VolumeStatus) -> None:
        """Change the status."""
        self._put(batch, "status", encode_status(status))

    def put_snapshot(self, batch: RowBatch, snapshot: Snapshot) -> None:
        """Make another snapshot the newest."""
        self._put(batch, "snapshot", encode_snapshot(snapshot))

    def put_watermarks(self, batch: RowBatch, watermarks: Watermarks) -> None:
        """Change the watermarks."""
        self._put(batch, "watermarks", encode_watermarks(watermarks))

    def put_push(self, batch: RowBatch, push: PendingPush | None) -> None:
        """Note a push before its record is created, or that its outcome is known."""
        if push is None:
            batch.delete(VolumePartition.VOLUMES, volume_key(self.volume, "push"))
        else:
            self._put(batch, "push", encode_push(push))

    def put_commit(self, batch: RowBatch, lsn: int, row: CommitRow) -> None:
        """Add a commit to the queue of the push."""
        batch.put(VolumePartition.COMMITS, commit_key(self.volume, lsn), encode_commit(row))

    def delete_commits(self, batch: RowBatch, begin: int, end: int) -> None:
        """Take the commits of ``[begin, end]`` out of the queue."""
        for lsn in range(begin, end + 1):
            batch.delete(VolumePartition.COMMITS, commit_key(self.volume, lsn))

    def put_record(self, batch: RowBatch, log: bytes, lsn: int, encoded: bytes) -> None:
        """Keep a record of a log."""
        batch.put(VolumePartition.RECORDS, commit_key(log, lsn), encoded)

    def _get(self, field: str) -> bytes | None:
        return self.partitions.get(VolumePartition.VOLUMES, volume_key(self.volume, field))

    def _put(self, batch: RowBatch, field: str, value: bytes) -> None:
        batch.put(VolumePartition.VOLUMES, volume_key(self.volume, field), value)

    def _where(self, row: str) -> str:
        return f"volume {self.name}: {row}"
