"""One lock for each chunk, for as long as a thread uses it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Entry:
    lock: threading.Lock = field(default_factory=threading.Lock)
    users: int = 0


class NameLocks:
    """Locks by name. The table holds the names in use only, so it is as small as the pool."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._entries: dict[bytes, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    @contextmanager
    def hold(self, name: bytes) -> Iterator[None]:
        """Keep every other thread out of the same name."""
        with self._guard:
            entry = self._entries.setdefault(name, _Entry())
            entry.users += 1
        try:
            with entry.lock:
                yield
        finally:
            with self._guard:
                entry.users -= 1
                if entry.users == 0:
                    del self._entries[name]
