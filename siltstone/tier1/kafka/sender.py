"""Sends records one at a time, so that the broker takes each once however often it is sent."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from siltstone.core.constants import Buffer
from siltstone.core.remote.deadline import Deadline, DeadlineError
from siltstone.tier1.kafka.line import Line, LineError
from siltstone.tier1.kafka.partition import AppendedRecord, Partition
from siltstone.tier1.kafka.record_batch import encode_batch

SEQUENCE_MAX: Final = 2**31 - 1
OPEN_S: Final = 5.0
"""At most for a line: the client can do without it."""
NEXT_TRY_S: Final = 30.0

_log = logging.getLogger(__name__)


class Sender:
    """A producer with a number of its own. Not thread-safe. After an error it must not be used.

    The first record goes by the client; those after it by a line, as long as that works. Whatever
    becomes of a line, the client then sends the same bytes with the same sequence.

    Args:
        partition: where the records go.
        deadline: of getting the number.
    """

    def __init__(self, partition: Partition, deadline: Deadline) -> None:
        self._partition = partition
        self._producer, self._producer_epoch = partition.new_producer(deadline)
        self._sequence = 0
        self._line: Line | None = None
        self._no_line = Deadline(0)

    def send(self, buffers: Sequence[Buffer], deadline: Deadline) -> AppendedRecord:
        """Append one record whose value is ``buffers``, on all replicas that count."""
        batch = encode_batch(
            buffers,
            producer=self._producer,
            producer_epoch=self._producer_epoch,
            sequence=self._sequence,
        )
        appended = self._by_line(batch, deadline) or self._partition.produce(batch, deadline)
        self._sequence = 0 if self._sequence == SEQUENCE_MAX else self._sequence + 1
        return appended

    def _by_line(self, batch: Sequence[Buffer], deadline: Deadline) -> AppendedRecord | None:
        """Append by a line; ``None`` when there is none, or nothing is known of the batch now."""
        if self._line is None:
            if not self._sequence or not self._open(deadline):
                return None
            assert self._line is not None, "it was opened"
        try:
            offset, start = self._line.produce(batch, deadline)
        except LineError as error:
            _log.debug("a line to topic %s ended: %s", self._partition.topic, error)
            self._line = None
            return None
        return AppendedRecord(offset=offset, start=start)

    def _open(self, deadline: Deadline) -> bool:
        """Try to have a line, unless that failed a moment ago."""
        try:
            self._no_line.check()
            return False
        except DeadlineError:
            pass
        try:
            self._line = self._partition.line(Deadline(min(OPEN_S, deadline.left_s() / 2)))
        except Exception as error:  # noqa: BLE001 - the client does without, and tells what is wrong
            _log.info("no line to topic %s: %s", self._partition.topic, error)
        if self._line is None:
            self._no_line = Deadline(NEXT_TRY_S)
        return self._line is not None
