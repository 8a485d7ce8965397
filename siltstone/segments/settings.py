"""What the segment layer can be told, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from siltstone.core.constants import MIB

VerifyReads = Literal["remembered", "always", "never"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentStorageSettings:
    """How segments are cut into chunks and how chunks are read.

    Attributes:
        chunk_bytes: a chunk of this many bytes is full; the service's own limit holds as well.
        verify_reads: ``remembered`` reads a part of a block without the rest of it if the block was
            verified within ``remember_s`` and the chunk's version is still the same (one ``stat`` a
            read); ``always`` reads and verifies whole blocks every time, as ``remembered`` does too
            where chunks cannot be appended to, since a ``stat`` of a service costs as much as a
            read; ``never`` is for benchmarks.
        remember_s: seconds after which a verified block is forgotten.
        read_parallel: most storage calls at a time of one read.
        read_back: read every write back and compare it before it is committed.
        prefetch_bytes: most bytes read ahead of sequential readers; 0 reads nothing ahead.
    """

    chunk_bytes: int = 128 * MIB
    verify_reads: VerifyReads = "remembered"
    remember_s: float = 600.0
    read_parallel: int = 8
    read_back: bool = False
    prefetch_bytes: int = 0

    def __post_init__(self) -> None:
        if (
            min(self.chunk_bytes, self.read_parallel) < 1
            or min(self.remember_s, self.prefetch_bytes) < 0
        ):
            raise ValueError(f"impossible settings: {self}")
