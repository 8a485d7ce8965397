"""What is measured of one open keyspace. Costs a comparison where metrics are off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.core import metrics as m
from siltstone.objects.records.value_record import ValueKind

if TYPE_CHECKING:
    from siltstone.objects.batch import ChangeBatch


class SpaceMeter:
    """Feeds the metrics of one keyspace.

    Args:
        metrics: where it goes.
        keyspace: its name.
    """

    def __init__(self, metrics: m.Metrics, keyspace: str) -> None:
        self._metrics = metrics
        self._keyspace = keyspace
        self._enabled = metrics.enabled

    def committed(self, batch: ChangeBatch, queue_bytes: int) -> None:
        """A batch is durable, and requests of so many bytes wait for the next ones."""
        if not self._enabled:
            return
        metrics, name = self._metrics, self._keyspace
        deletes = sum(raw[0] == ValueKind.TOMBSTONE for raw, *_ in batch.notes)
        metrics.add(m.OBJECT_BATCHES, 1, name)
        metrics.add(m.OBJECT_CHANGES, len(batch.notes) - deletes, name, "put")
        metrics.add(m.OBJECT_CHANGES, deletes, name, "delete")
        written = sum(length for *_, length in batch.notes)
        metrics.add(m.OBJECT_BYTES, written, name, "written")
        metrics.set(m.OBJECT_QUEUE_BYTES, queue_bytes, name)

    def got(self, length: int) -> None:
        """A value of so many bytes was read. On any thread."""
        if self._enabled:
            self._metrics.add(m.OBJECT_GETS, 1, self._keyspace)
            self._metrics.add(m.OBJECT_BYTES, length, self._keyspace, "read")

    def lost(self) -> None:
        """A read found a value damaged or gone."""
        self._metrics.add(m.OBJECTS_LOST, 1, self._keyspace)

    def looked(self, needed: int, length: int) -> None:
        """Of so many bytes of full value segments this many are needed."""
        self._metrics.set(m.VALUE_LIVE_RATIO, needed / length if length else 1.0, self._keyspace)

    def compacted(self, outcome: str) -> None:
        """A value compaction ended: ``done``, ``needless`` or ``failed``."""
        self._metrics.add(m.VALUE_COMPACTIONS, 1, self._keyspace, outcome)

    def close(self) -> None:
        """Forget what is only true while the keyspace is open."""
        self._metrics.close()
