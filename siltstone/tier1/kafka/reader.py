"""Reading the log without a claim: what is on all replicas that count is shown."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from siltstone.core.errors import ClosedError, LogTruncatedError
from siltstone.core.records.frame import Frame
from siltstone.core.remote.deadline import Deadline
from siltstone.tier1.kafka.connection import Connection
from siltstone.tier1.kafka.errors import translated
from siltstone.tier1.kafka.record_reads import catch_up, frames_at, look
from siltstone.tier1.kafka.scan import Scan
from siltstone.tier1.kafka.settings import KafkaLogSettings
from siltstone.tier1.kafka.shelf import SetAsideTopic


class KafkaLogReader:
    """A ``LogReader`` on a topic. Thread-safe; it writes nothing.

    Args:
        connection: its own.
        topic: the topic.
        settings: of the log.
        shelf: where it begins, and leaves what it found out.
    """

    def __init__(
        self, connection: Connection, topic: str, settings: KafkaLogSettings, shelf: SetAsideTopic
    ) -> None:
        self._connection = connection
        self._shelf = shelf
        self._topic = topic
        self._servers = settings.servers_text
        self._deadline_s = settings.deadline_s
        self._lock = threading.Lock()
        self._scan = Scan(topic)
        self._is_closed = False
        self._is_sound = True

    def epoch(self) -> int:
        """See ``LogReader.epoch``."""
        return self._refreshed().epoch

    def lineage(self) -> bytes | None:
        """See ``LogReader.lineage``."""
        return self._refreshed().lineage

    def first(self) -> int:
        """See ``LogReader.first``."""
        return self._refreshed().first

    def end(self) -> int:
        """See ``LogReader.end``."""
        return self._refreshed().end

    def read(self, from_index: int) -> Iterator[Frame]:
        """See ``LogReader.read``."""
        with self._lock:
            scan = self._refresh()
            if from_index < scan.first:
                raise LogTruncatedError(index=from_index, first=scan.first)
            if scan.recent and scan.recent[0].index <= from_index:
                return iter([frame for frame in scan.recent if frame.index >= from_index])
            offsets = scan.offsets[from_index - scan.first :]
            partition = self._connection.partition()
        return frames_at(partition, from_index, offsets, self._deadline_s, self._servers)

    def dropped_tail(self) -> int:
        """See ``LogReader.dropped_tail``; brokers take a record whole or not at all."""
        with self._lock:
            self._check_open()
        return 0

    def close(self) -> None:
        """See ``LogReader.close``."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._connection.drop()
                if self._is_sound:
                    self._shelf.give(self._scan)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("the reader was closed")

    def _refreshed(self) -> Scan:
        with self._lock:
            return self._refresh()

    def _refresh(self) -> Scan:
        self._check_open()
        with translated("read", self._topic, self._servers):
            try:
                partition = self._connection.partition()
                if self._scan.next_offset is None:
                    if not partition.exists(Deadline(self._deadline_s)):
                        return self._scan
                    self._scan = look(partition, self._shelf, self._deadline_s)
                else:
                    catch_up(partition, self._scan, self._deadline_s)
            except BaseException:
                self._is_sound = False
                self._connection.drop()
                raise
        return self._scan
