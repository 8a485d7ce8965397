"""Sends records one at a time, so that the broker takes each once however often it is sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from siltstone.core.remote.deadline import Deadline
from siltstone.core.words import Buffer
from siltstone.tier1.kafka.partition import Appended, Partition
from siltstone.tier1.kafka.record_batch import encode_batch

SEQUENCE_MAX: Final = 2**31 - 1


class Sender:
    """A producer with a number of its own. Not thread-safe. After an error it must not be used.

    Args:
        partition: where the records go.
        deadline: of getting the number.
    """

    def __init__(self, partition: Partition, deadline: Deadline) -> None:
        self._partition = partition
        self._producer, self._producer_epoch = partition.new_producer(deadline)
        self._sequence = 0

    def send(self, buffers: Sequence[Buffer], deadline: Deadline) -> Appended:
        """Append one record whose value is ``buffers``, on all replicas that count."""
        batch = encode_batch(
            buffers,
            producer=self._producer,
            producer_epoch=self._producer_epoch,
            sequence=self._sequence,
        )
        appended = self._partition.produce(batch, deadline)
        self._sequence = 0 if self._sequence == SEQUENCE_MAX else self._sequence + 1
        return appended
