"""How long a process waits after others were ahead of its commit.

Else all who lost try again at once, and all but one lose again: of four processes, two of three
attempts would be in vain, and each costs a create.
"""

from __future__ import annotations

from typing import Final

from siltstone.collections.collection_meter import CollectionMeter
from siltstone.core.metrics import COLLECTION_LOST_RACES

PAUSE: Final = 2.0
"""After one lost race, at most: so many times what the lost attempt took. Each further one in a row
doubles it."""

GROWTH_MAX: Final = 4
"""More, and those who wait get less than a third of what the others get."""

PAUSE_MAX_S: Final = 1.0


class LostRaces:
    """The races that one process lost in a row. Used on one loop.

    Args:
        meter: counts them all.

    Attributes:
        count: those since the state was certainly the newest one.
    """

    def __init__(self, meter: CollectionMeter) -> None:
        self.count = 0
        self._meter = meter
        self._longest_s = 0.0

    def pause_s(self, chance: float) -> float:
        """How long to wait before the next attempt, by a random number from 0 to 1."""
        return chance * self._longest_s

    def note_lost(self, took_s: float) -> None:
        """An attempt that took this long was in vain."""
        self.count += 1
        self._meter.count(COLLECTION_LOST_RACES)
        shortest_s = PAUSE * took_s
        longest_s = min(GROWTH_MAX * shortest_s, PAUSE_MAX_S)
        self._longest_s = min(max(shortest_s, 2 * self._longest_s), longest_s)

    def note_won(self) -> None:
        """An attempt was not in vain."""
        self._longest_s = 0.0
