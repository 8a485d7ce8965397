"""Blocks that were verified a short while ago, so that a part of one may be read without the rest.

A memory, never a proof: it holds for one version of a chunk, as the storage's ``stat`` tells it,
and for a few minutes. Thread-safe.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

_CHUNKS_MAX = 4_096


@dataclass(slots=True)
class _Remembered:
    """Blocks of one version of a chunk, as bits: of the running half period and the last."""

    version: str
    started: float
    recent: int = 0
    before: int = 0


class VerifiedBlocks:
    """Remembers blocks for between a half and the whole of ``remember_s``, in two bits a block.

    Args:
        now: a clock that never goes back, in seconds.
        remember_s: a block is never remembered for longer.
        chunks_max: above this many chunks the one not used for longest is forgotten.
    """

    def __init__(
        self, now: Callable[[], float], *, remember_s: float = 600.0, chunks_max: int = _CHUNKS_MAX
    ) -> None:
        self._now = now
        self._half_s = remember_s / 2
        self._chunks_max = chunks_max
        self._lock = threading.Lock()
        self._chunks: OrderedDict[str, _Remembered] = OrderedDict()

    def version(self, chunk: str, first: int, end: int) -> str | None:
        """The version in which blocks ``[first, end)`` were all verified, if they were."""
        wanted = (1 << end) - (1 << first)
        with self._lock:
            entry = self._chunks.get(chunk)
            if entry is None:
                return None
            if self._now() - entry.started >= self._half_s:
                self._age(entry)
            self._chunks.move_to_end(chunk)
            if (entry.recent | entry.before) & wanted != wanted:
                return None
            return entry.version

    def remember(self, chunk: str, version: str, first: int, end: int) -> None:
        """Note that blocks ``[first, end)`` were verified after the chunk had this version.

        Whatever was known of another version is forgotten.
        """
        with self._lock:
            entry = self._chunks.get(chunk)
            if entry is None or entry.version != version:
                entry = self._chunks[chunk] = _Remembered(version=version, started=self._now())
            self._age(entry)
            entry.recent |= (1 << end) - (1 << first)
            self._chunks.move_to_end(chunk)
            if len(self._chunks) > self._chunks_max:
                self._chunks.popitem(last=False)

    def forget(self, chunk: str) -> None:
        """Forget a chunk that changed or is gone."""
        with self._lock:
            self._chunks.pop(chunk, None)

    def _age(self, entry: _Remembered) -> None:
        now = self._now()
        halves = 2.0 if self._half_s <= 0 else (now - entry.started) / self._half_s
        if halves < 1:
            return
        entry.before = entry.recent if halves < 2 else 0
        entry.recent = 0
        entry.started = now
