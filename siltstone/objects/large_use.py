"""Which large values of a keyspace are in use in this process, so that none of them is deleted."""

from __future__ import annotations

import threading
from collections import Counter


class LargeUse:
    """Counts who reads large values, and knows which are being uploaded. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: Counter[int] = Counter()
        self._deleting: set[int] = set()
        self._uploading: set[int] = set()

    def hold(self, number: int) -> bool:
        """Keep a value until it is released, unless it is just being deleted."""
        with self._lock:
            if number in self._deleting:
                return False
            self._held[number] += 1
            return True

    def release(self, number: int) -> None:
        """Take back one ``hold``."""
        with self._lock:
            self._held[number] -= 1
            if not self._held[number]:
                del self._held[number]

    def begin_delete(self, number: int) -> bool:
        """Let none hold a value from now on; ``False`` while one does, or it is being deleted."""
        with self._lock:
            if number in self._held or number in self._deleting:
                return False
            self._deleting.add(number)
            return True

    def end_delete(self, number: int) -> None:
        """The value is gone, or was not deleted."""
        with self._lock:
            self._deleting.discard(number)

    def begin_upload(self, number: int) -> None:
        """What is uploaded as this value is not left over."""
        with self._lock:
            self._uploading.add(number)

    def end_upload(self, number: int) -> None:
        """It is live by now, or left over."""
        with self._lock:
            self._uploading.discard(number)

    def is_uploading(self, number: int) -> bool:
        """Whether an upload of it goes on."""
        with self._lock:
            return number in self._uploading
