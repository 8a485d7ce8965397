"""The settings of a container, with the one default of each and the reason for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from siltstone.core.chunk_storage import Capabilities
from siltstone.core.constants import MIB

CloseFlush = Literal["auto", "always", "never"]
"""What a close brings to long-term storage; see ``settlement``."""

WRITE_BYTES = 32 * MIB
"""Most bytes of one segment in one transaction, where chunks are appended to."""

PACK_CREATES_MIN = 2
"""Where every flush makes a chunk, two segments that share one save a request, and a chunk."""

PACK_APPENDS_MIN = 16
"""Where flushes are appended to a segment's own chunk; packing fewer of them saves little."""


def check_close_flush(choice: CloseFlush, *, what: str) -> None:
    """Refuse what a close does not know. Raises ``ValueError``."""
    known = get_args(CloseFlush)
    if choice not in known:
        raise ValueError(f"{what} is one of {', '.join(known)}, not {choice!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Values that users have no reason to change; only tests and benchmarks pass others."""

    # A flush of the table log costs two requests and a listing, however much it brings.
    table_flush_bytes: int = 4 * MIB
    # What opening has to replay after the last checkpoint is minutes old, not hours.
    checkpoint_age_s: float = 600.0
    # With the growing pauses between them, a deletion is tried for about four hours.
    garbage_attempts: int = 10
    # Garbage has waited for minutes already; half a minute more costs no space worth naming.
    garbage_interval_s: float = 30.0
    # One a minute costs cents a month, and what a crash left does no harm while it waits.
    sweep_requests_hour: int = 60
    # Truncations and concats wake the optimiser anyway; a round walks over everything else.
    optimiser_interval_s: float = 60.0
    # About 4 MiB a second; a lower bound is the setting bandwidth.background.
    optimiser_bytes: int = 256 * MIB
    # About 8 a second, which leaves most of what a service allows to flushes and reads.
    optimiser_requests: int = 500
    # An eighth of a chunk; merging larger ones writes much and saves few requests.
    optimiser_small_bytes: int = 16 * MIB
    # Fewer neighbours save too few requests for the bytes that are written again.
    optimiser_chunks_min: int = 4
    # The dead part of a smaller chunk is too little space for a copy.
    relocation_chunk_bytes_min: int = 64 * MIB
    # A copy frees four bytes or more for each that it writes.
    relocation_percent: int = 80
    # A slow but usable link; a write of 32 MiB then has 92 seconds instead of 60.
    storage_rate_min: int = MIB
    # A service in good order answers sooner, also from another continent.
    slow_call_s: float = 1.0
    # One slow round of flushes is no reason to hold appends back ...
    late_s: float = 60.0
    # ... and ten minutes are an outage, in which appends should fill tier 1 slowly.
    late_s_max: float = 600.0
    # Callers slow down, and still get answers well before their deadline.
    throttle_s_max: float = 1.0
    # Of some bindings it is a listing of everything; a disk does not fill up in a minute.
    space_interval_s: float = 60.0
    # Less makes more and smaller files. A store with many containers gives less to each.
    index_write_bytes: int = 16 * MIB
    # Bounds their memory; to load one again costs a look at the local index.
    segments_idle_max: int = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSettings(Tuning):
    """Settings of one container, which users may choose; every owner of it may choose others.

    The file's model (``store/settings/model.py``) names, describes and checks each of them. Where
    the default is ``None``, ``resolved`` says what holds.
    """

    chunk_bytes: int = 128 * MIB
    flush_bytes: int | None = None
    flush_age_s: float | None = None
    flush_parallel: int = 4
    read_back: bool = False
    pack_bytes: int | None = None
    unflushed_bytes_max: int = 256 * MIB
    unflushed_table_bytes_max: int = 64 * MIB
    append_deadline_s: float = 30.0
    table_flush_age_s: float = 30.0
    checkpoint_bytes: int = 32 * MIB
    garbage_delay_s: float = 900.0
    optimiser_enabled: bool = True
    relocation_enabled: bool = True
    storage_deadline_s: float = 60.0
    storage_threads: int = 16
    storage_attempts: int = 4
    background_rate: int | None = None
    free_bytes_min: int = 256 * MIB
    used_bytes_max: int | None = None
    verify_reads: Literal["remembered", "always", "never"] = "remembered"
    prefetch_bytes: int = 64 * MIB
    index_cache_bytes: int = 64 * MIB
    close_flush: CloseFlush = "auto"

    def resolved(self, capabilities: Capabilities) -> FlushPolicy:
        """When and how segments are flushed to a service of these capabilities."""
        size, age_s = (8 * MIB, 30.0) if capabilities.append else (64 * MIB, 600.0)
        chunk_bytes = min(self.chunk_bytes, capabilities.chunk_bytes_max)
        pack_bytes = min(MIB, chunk_bytes // 8) if self.pack_bytes is None else self.pack_bytes
        return FlushPolicy(
            size_bytes=size if self.flush_bytes is None else self.flush_bytes,
            age_s=age_s if self.flush_age_s is None else self.flush_age_s,
            chunk_bytes=chunk_bytes,
            # Where each write makes a chunk, it may as well fill it.
            write_bytes=WRITE_BYTES if capabilities.append else max(chunk_bytes, WRITE_BYTES),
            pack_bytes=min(pack_bytes, chunk_bytes),
            pack_count_min=PACK_APPENDS_MIN if capabilities.append else PACK_CREATES_MIN,
            creates_always=not capabilities.append,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushPolicy:
    """When a segment is flushed, and how.

    Attributes:
        size_bytes: with this many unflushed bytes, at once.
        age_s: when its oldest unflushed byte is this old.
        chunk_bytes: what a chunk takes.
        write_bytes: most bytes of one segment that one transaction states.
        pack_bytes: fewer unflushed bytes than this may share a chunk with those of others.
        pack_count_min: they do when one round has at least this many such segments.
        creates_always: every flush makes a chunk, so that what is due in one round shares them,
            however much it is.
    """

    size_bytes: int
    age_s: float
    chunk_bytes: int
    write_bytes: int
    pack_bytes: int
    pack_count_min: int
    creates_always: bool = False
