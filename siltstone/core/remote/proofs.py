"""What was proven of services in this process, so that each proof is made once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Final

Proven = tuple[str | None, ...]
"""The service, and what else a proof depends on."""

SCRATCH: Final = "system/doctor/"
"""Where ``siltstone doctor`` tries things, so it removes what a crash leaves."""


class Proofs:
    """Knows which services were proven. Thread-safe."""

    def __init__(self) -> None:
        self._proven: set[Proven] = set()
        self._lock = threading.Lock()

    def make_sure(self, what: Proven, prove: Callable[[str], None]) -> None:
        """Call ``prove``, unless it has succeeded before.

        Args:
            what: is proven.
            prove: is given a folder of its own for what it makes. Several threads may prove the
                same at a time.
        """
        with self._lock:
            if what in self._proven:
                return
        prove(f"{SCRATCH}{os.urandom(8).hex()}/")
        self.take(what)

    def take(self, what: Proven) -> None:
        """Take something for proven."""
        with self._lock:
            self._proven.add(what)

    def forget(self) -> None:
        """Take nothing for proven."""
        with self._lock:
            self._proven.clear()
