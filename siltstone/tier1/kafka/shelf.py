"""What one look at a log found out, kept for the next one: a long log is not fetched each time."""

from __future__ import annotations

import threading
from uuid import UUID

from siltstone.tier1.kafka.scan import Scan


class SetAsideTopic:
    """Has room for one scan. The caller that takes it has it alone. Thread-safe.

    Args:
        topic: whose scans they are.
    """

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._lock = threading.Lock()
        self._scan: Scan | None = None

    def take(self, topic_id: UUID | None) -> Scan:
        """Return what was given, if it is of the topic with this id, or else a new scan.

        Args:
            topic_id: ``None`` where topics have no ids: there it is unknown whether it is the same.
        """
        with self._lock:
            scan, self._scan = self._scan, None
        if scan is None or topic_id is None or scan.topic_id != topic_id:
            return Scan(self._topic)
        return scan

    def give(self, scan: Scan) -> None:
        """Keep a scan that took whole records only; the giver no longer uses it."""
        with self._lock:
            self._scan = scan

    def clear(self) -> None:
        """Keep nothing."""
        with self._lock:
            self._scan = None
