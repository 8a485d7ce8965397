"""The knobs of a container, with the one default of each and the reason for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from siltstone.core.chunk_storage import Capabilities
from siltstone.core.constants import GIB, MIB

_MAY_BE_ZERO = frozenset({"garbage_delay_s", "prefetch_bytes", "throttle_s_max", "free_bytes_min"})

CloseFlush = Literal["auto", "always", "never"]
"""What a close brings to long-term storage; see ``settlement``."""

WRITE_BYTES = 32 * MIB
"""Most bytes of one segment in one transaction, where chunks are appended to."""

PACK_CREATES_MIN = 2
"""Where every flush makes a chunk, two segments that share one save a request, and a chunk."""

PACK_APPENDS_MIN = 16
"""Where flushes are appended to a segment's own chunk, so many requests a round are too many."""


def check_close_flush(choice: CloseFlush, *, what: str) -> None:
    """Refuse what a close does not know. Raises ``ValueError``."""
    known = get_args(CloseFlush)
    if choice not in known:
        raise ValueError(f"{what} is one of {', '.join(known)}, not {choice!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSettings:
    """Settings of one container; every owner of it may choose others.

    Attributes:
        chunk_bytes: a chunk takes no more than this and is then rolled over.
        flush_bytes: a segment with so many unflushed bytes is flushed at once; ``None`` means 8 MiB
            where chunks can be appended to, and 64 MiB where every flush makes a new one.
        flush_age_s: a segment whose oldest unflushed byte is so old is flushed; ``None`` means 30
            seconds where chunks can be appended to, else 10 minutes.
        flush_parallel: chunks of segments that are written at a time.
        read_back: read every write to long-term storage back and compare it.
        pack_bytes: segments with fewer unflushed bytes than this may share a chunk; ``None`` means
            1 MiB, or an eighth of a chunk if that is less.
        unflushed_bytes_max: appends wait while so many bytes are only in tier 1, or so many
            segments have some that their state would take as much; see ``Pressure``.
        unflushed_table_bytes_max: table updates of users wait while so many bytes of the table log
            are only in tier 1.
        append_deadline_s: how long they wait before they fail, not applied.
        table_flush_bytes: unflushed bytes of the table log that start a flush of it.
        table_flush_age_s: age of the oldest of them that does.
        checkpoint_bytes: growth of the table log that starts a checkpoint.
        checkpoint_age_s: age of the newest checkpoint that does, if anything changed and the upload
            is worth it; see ``upload_budget``.
        garbage_delay_s: a chunk that nothing references is kept so long for readers.
        garbage_attempts: failed deletions before a task is set aside for a person.
        garbage_interval_s: how often due tasks are looked for.
        sweep_requests_hour: listings an hour of the background sweep.
        optimiser_enabled: merge small neighbouring chunks in the background.
        optimiser_interval_s: how often a round of it begins.
        optimiser_bytes: most bytes that a round writes again.
        optimiser_requests: most calls to long-term storage of a round, about.
        optimiser_small_bytes: a chunk with at most so many bytes of a segment is small.
        optimiser_chunks_min: fewer small neighbours than this are left alone.
        relocation_enabled: copy the live rest of a mostly dead first chunk, and free the chunk.
        relocation_chunk_bytes_min: smaller chunks are left alone.
        relocation_chunk_bytes_max: larger ones too.
        relocation_percent: at least so much of the chunk is dead.
        relocation_live_bytes_max: at most so many live bytes are copied.
        storage_deadline_s: a call to long-term storage that takes longer has an unknown outcome.
        storage_rate_min: bytes a second; a call has so much more time as its bytes need at this
            rate, so that a large write over a slow link comes to its end.
        storage_threads: calls to long-term storage at a time.
        storage_attempts: a read, stat, listing or delete that got no answer is tried so often.
        background_rate: bytes a second that the optimiser reads, and as many that it writes;
            ``None`` without a limit.
        slow_call_s: a call that takes longer is slow, and warned of.
        storage_failures_max: so many calls in a row without an answer, and no more are sent.
        storage_probe_s: then one is sent so long behind them, and again after twice as long, up to
            30 seconds, until one is answered.
        late_s: bytes that are overdue for a flush so long are late: from here on appends are
            throttled.
        late_s_max: from here on as much as they ever are.
        throttle_s_max: how long an append is held back then; 0 never does.
        free_bytes_min: safe mode begins when less is free on long-term storage; 0 never.
        used_bytes_max: safe mode begins when the store's files hold so much; ``None`` never.
        space_interval_s: how often room is looked at.
        verify_reads: ``remembered``, ``always`` or ``never``.
        prefetch_bytes: most bytes read ahead of sequential readers; 0 reads nothing ahead.
        index_cache_bytes: block cache of the table index.
        index_write_bytes: its rows that are in no file yet.
        segments_idle_max: idle segments whose state stays in memory.
        close_flush: what a close brings to long-term storage: ``auto`` what is worth it,
            ``always`` everything, ``never`` nothing but what is on its way.
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
    table_flush_bytes: int = 4 * MIB
    table_flush_age_s: float = 30.0
    checkpoint_bytes: int = 32 * MIB
    checkpoint_age_s: float = 600.0
    garbage_delay_s: float = 900.0
    garbage_attempts: int = 10
    garbage_interval_s: float = 30.0
    sweep_requests_hour: int = 60
    optimiser_enabled: bool = True
    optimiser_interval_s: float = 60.0
    optimiser_bytes: int = 256 * MIB
    optimiser_requests: int = 500
    optimiser_small_bytes: int = 16 * MIB
    optimiser_chunks_min: int = 4
    relocation_enabled: bool = True
    relocation_chunk_bytes_min: int = 64 * MIB
    relocation_chunk_bytes_max: int = GIB
    relocation_percent: int = 80
    relocation_live_bytes_max: int = 256 * MIB
    storage_deadline_s: float = 60.0
    storage_rate_min: int = MIB
    storage_threads: int = 16
    storage_attempts: int = 4
    background_rate: int | None = None
    slow_call_s: float = 1.0
    storage_failures_max: int = 5
    storage_probe_s: float = 5.0
    late_s: float = 60.0
    late_s_max: float = 600.0
    throttle_s_max: float = 1.0
    free_bytes_min: int = 256 * MIB
    used_bytes_max: int | None = None
    space_interval_s: float = 60.0
    verify_reads: Literal["remembered", "always", "never"] = "remembered"
    prefetch_bytes: int = 64 * MIB
    index_cache_bytes: int = 64 * MIB
    index_write_bytes: int = 16 * MIB
    segments_idle_max: int = 10_000
    close_flush: CloseFlush = "auto"

    def __post_init__(self) -> None:
        """Refuse what could not work.

        Raises:
            ValueError: a number is not positive, or two settings contradict each other.
        """
        for name in self.__slots__:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                continue
            if name in _MAY_BE_ZERO and value < 0:
                raise ValueError(f"{name} must be at least 0, not {value}")
            if name not in _MAY_BE_ZERO and value <= 0:
                raise ValueError(f"{name} must be above 0, not {value}")
        if self.chunk_bytes > 1024 * GIB:
            raise ValueError(f"chunk_bytes must be at most 1 TiB, not {self.chunk_bytes}")
        if self.optimiser_chunks_min < 2:
            raise ValueError(
                f"optimiser_chunks_min must be at least 2, not {self.optimiser_chunks_min}"
            )
        if self.relocation_percent > 100:
            raise ValueError(
                f"relocation_percent must be at most 100, not {self.relocation_percent}"
            )
        if self.relocation_chunk_bytes_min > self.relocation_chunk_bytes_max:
            raise ValueError(
                f"relocation_chunk_bytes_min is {self.relocation_chunk_bytes_min} bytes and must "
                f"not be above the maximum, {self.relocation_chunk_bytes_max}"
            )
        if self.pack_bytes is not None and self.pack_bytes > self.chunk_bytes:
            raise ValueError(
                f"pack_bytes must be at most chunk_bytes ({self.chunk_bytes}), "
                f"not {self.pack_bytes}"
            )
        if self.storage_failures_max > 5:
            # The journal gives up behind six attempts, and with it the owner.
            raise ValueError(
                f"storage_failures_max must be at most 5, not {self.storage_failures_max}"
            )
        if self.late_s >= self.late_s_max:
            raise ValueError(
                f"late_s is {self.late_s:g} seconds and must be below the maximum, "
                f"{self.late_s_max:g}"
            )
        if self.verify_reads not in ("remembered", "always", "never"):
            raise ValueError(
                f"verify_reads is one of remembered, always, never: {self.verify_reads!r}"
            )
        check_close_flush(self.close_flush, what="close_flush")

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
        size_bytes: with so many unflushed bytes, at once.
        age_s: when its oldest unflushed byte is so old.
        chunk_bytes: what a chunk takes.
        write_bytes: most bytes of one segment that one transaction states.
        pack_bytes: fewer unflushed bytes than this may share a chunk with those of others.
        pack_count_min: so many segments with so few bytes, in one round, do.
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
