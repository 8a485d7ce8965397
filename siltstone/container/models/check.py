"""What a check tells: frozen values, no behaviour."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from siltstone.container.models.segments import ChunkInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckProgress:
    """How far a check has come. Another one can continue after it.

    Attributes:
        container: the one that is being checked; those before it are done.
        chunk_id: every chunk of that container up to this id is done, its rows too.
        chunks_done: count of chunks so far, of this container.
        chunks_total: how many it has.
        bytes_done: their committed bytes.
        bytes_total: of all of them.
    """

    container: int
    chunk_id: int
    chunks_done: int
    chunks_total: int
    bytes_done: int
    bytes_total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkState:
    """A run of a segment's bytes, and the chunk on long-term storage that holds it.

    Attributes:
        info: what the rows say.
        physical_length: bytes that the chunk has there; ``None`` when it is missing. What lies
            beyond the committed length was never acknowledged.
        problem: ``missing``, ``short``, ``damaged``; ``None`` when nothing is wrong.
        verified: whether its bytes were read and match their sums.
        message: the problem with all facts; empty without one.
    """

    info: ChunkInfo
    physical_length: int | None
    problem: str | None
    verified: bool
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """What a check is to do.

    Attributes:
        deep: read every byte and compare it with its sum; else look at lengths alone.
        after: continue after this chunk id; 0 begins with the rows.
        progress: told how far it has come.
    """

    deep: bool = True
    after: int = 0
    progress: Callable[[CheckProgress], None] = lambda _: None
