"""Which block of a full cache goes next: the policy S3-FIFO. Pure.

Blocks enter a small queue. A block that is asked for again before leaving it moves to the main
queue; all others go, and only their names are remembered for a while: coming back, they enter the
main queue at once. So one long scan passes through the small queue, and what is used often stays.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

SMALL_SHARE: Final = 10
"""The small queue holds one block in this many."""
USES_MAX: Final = 3
"""Uses save a block for at most this many rounds in the main queue."""


class FifoEviction(Generic[Key]):
    """Keys in two queues. Not thread-safe.

    Args:
        room: how many keys there may be; at least 1.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._small_room = max(1, room // SMALL_SHARE)
        self._small: OrderedDict[Key, int] = OrderedDict()
        self._main: OrderedDict[Key, int] = OrderedDict()
        self._ghosts: OrderedDict[Key, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._small) + len(self._main)

    def used(self, key: Key) -> None:
        """A key that is there was asked for."""
        queue = self._small if key in self._small else self._main
        if key in queue:
            queue[key] = min(USES_MAX, queue[key] + 1)

    def add(self, key: Key) -> Key | None:
        """Add a new key; return the one that has to go for it."""
        victim = self._victim() if len(self) >= self._room else None
        if key in self._ghosts:
            del self._ghosts[key]
            self._main[key] = 0
        else:
            self._small[key] = 0
        return victim

    def keep(self, key: Key) -> None:
        """Add a key that was there before, as at a start; the room must suffice."""
        self._main[key] = 0

    def remove(self, key: Key) -> None:
        """Forget a key, whether it is there or not."""
        self._small.pop(key, None)
        self._main.pop(key, None)
        self._ghosts.pop(key, None)

    def _victim(self) -> Key:
        while True:
            if self._small and (len(self._small) >= self._small_room or not self._main):
                key, uses = self._small.popitem(last=False)
                if uses == 0:
                    self._ghosts[key] = None
                    if len(self._ghosts) > self._room:
                        self._ghosts.popitem(last=False)
                    return key
                self._main[key] = 0
            else:
                key, uses = self._main.popitem(last=False)
                if uses == 0:
                    return key
                self._main[key] = uses - 1
