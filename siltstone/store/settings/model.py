"""What a person may write in ``siltstone.yaml``: one model a section, each default in one place.

The defaults of a container's knobs are those of ``ContainerSettings``; here they
only get their names. ``effective`` checks them against each other and resolves paths.
"""

from __future__ import annotations

import uuid
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field

from siltstone.container.models.settings import CloseFlush, ContainerSettings
from siltstone.core.constants import GIB
from siltstone.store.settings.sections import Count, PluginSection, Section, Text
from siltstone.store.settings.unit_types import Rate, Size, Time

_DEFAULTS: Final = ContainerSettings()


def _uuid(value: object) -> str:
    try:
        return str(uuid.UUID(str(value)))
    except ValueError as error:
        raise ValueError(f"not a uuid: {value!r}") from error


class LongTermStorage(PluginSection):
    """Where the chunks lie; the binding's options stand under its name."""

    binding: Text = Field(description="name of the binding that speaks to the service")
    threads: Count = Field(
        default=_DEFAULTS.storage_threads,
        description="calls to the service at a time; more hide latency, fewer spare the service",
    )
    attempts: Count = Field(
        default=_DEFAULTS.storage_attempts,
        description="a read, stat, listing or delete without an answer is tried so often; nothing "
        "else is ever repeated",
    )


class Cache(Section):
    """Blocks of chunks that were read, kept on a local disk; for a service that is far away."""

    path: Text | None = Field(
        default=None,
        description="folder on a local disk for blocks that were read; unless set, none is kept",
    )
    size: Size = Field(
        default=4 * GIB,
        description="what they take at most; each process that has the store open takes as much",
    )


class BandwidthSettings(Section):
    """How many bytes a second move between this process and long-term storage at most."""

    upload: Rate | None = Field(
        default=None,
        description="flushes and all else that an open store writes; unless set, there is no "
        "limit. Jobs, imports, copies and moves have `--rate`",
    )
    download: Rate | None = Field(
        default=None,
        description="reads, those of users too: they wait for their turn; unless set, there is no "
        "limit",
    )
    background: Rate | None = Field(
        default=_DEFAULTS.background_rate,
        description="the optimiser alone, each way and for each container: nobody waits for it; "
        "unless set, there is no limit",
    )


class Tier1(PluginSection):
    """The log that everything acknowledged goes through first; its options stand under its name."""

    log: Text = Field(description="name of the log")


class IndexSettings(Section):
    """The local index of the metadata: a cache, which can be deleted while no process uses it."""

    path: Text = Field(
        default="./index",
        description="folder on a local disk; opening is fast when it survived",
    )
    cache: Size = Field(
        default=_DEFAULTS.index_cache_bytes,
        description="memory for blocks of the index, for each container",
    )
    unwritten: Size = Field(
        default=_DEFAULTS.index_write_bytes,
        description="memory for rows that no file of the index has yet, for each container; less "
        "in a store of so many that they would have more than 32MiB together",
    )


class Segments(Section):
    """How segments lie in chunks and in memory."""

    chunk_size: Size = Field(
        default=_DEFAULTS.chunk_bytes,
        description="a chunk takes no more than this; larger ones are fewer objects to keep",
    )
    idle_max: Count = Field(
        default=_DEFAULTS.segments_idle_max,
        description="idle segments whose state stays in memory, for each container",
    )


class Flush(Section):
    """When acknowledged bytes move to long-term storage."""

    bytes: Size | None = Field(
        default=_DEFAULTS.flush_bytes,
        description="a segment with so many unflushed bytes is flushed at once; unless set, 8MiB, "
        "or 64MiB where chunks cannot be appended to",
    )
    age: Time | None = Field(
        default=_DEFAULTS.flush_age_s,
        description="a segment whose oldest unflushed byte is so old is flushed; unless set, 30s, "
        "or 10min where chunks cannot be appended to",
    )
    parallel: Count = Field(
        default=_DEFAULTS.flush_parallel,
        description="chunks of segments that a container writes at a time",
    )
    pack_bytes: Size | None = Field(
        default=_DEFAULTS.pack_bytes,
        description="segments with fewer unflushed bytes than this may share a chunk, before they "
        "are due too; unless set, 1MiB, or an eighth of a chunk",
    )
    read_back: bool = Field(
        default=_DEFAULTS.read_back,
        description="read every write to long-term storage back and compare it before it counts; "
        "for a service that is not trusted, at the price of reading everything once",
    )
    table_bytes: Size = Field(
        default=_DEFAULTS.table_flush_bytes,
        description="unflushed bytes of the table log that start a flush of it",
    )
    table_age: Time = Field(
        default=_DEFAULTS.table_flush_age_s,
        description="age of the oldest of them that does",
    )


class Close(Section):
    """What a close brings to long-term storage."""

    flush: CloseFlush = Field(
        default=_DEFAULTS.close_flush,
        description="auto: what owners before left, what is on its way, and more than 1MiB; "
        "always: everything, or the close fails; never: only what is on its way",
    )


class BackPressure(Section):
    """What happens when long-term storage cannot keep up."""

    bytes: Size = Field(
        default=_DEFAULTS.unflushed_bytes_max,
        description="appends wait while a container has so many bytes only in tier 1 and in the "
        "owner's memory, or a segment with such bytes for each 4KiB of it",
    )
    table_bytes: Size = Field(
        default=_DEFAULTS.unflushed_table_bytes_max,
        description="table updates wait while so many bytes of the table log are only there",
    )


class CheckpointSettings(Section):
    """How often the full metadata is written, so that opening reads little."""

    bytes: Size = Field(
        default=_DEFAULTS.checkpoint_bytes,
        description="growth of the table log that starts a checkpoint",
    )
    age: Time = Field(
        default=_DEFAULTS.checkpoint_age_s,
        description="age of the newest checkpoint that does, if anything changed, "
        "and if uploads of large indexes are worth it",
    )


class Garbage(Section):
    """When chunks that nothing names any more are deleted."""

    delay: Time = Field(
        default=_DEFAULTS.garbage_delay_s,
        description="kept so long for readers that began before; 0s deletes at once",
    )
    attempts: Count = Field(
        default=_DEFAULTS.garbage_attempts,
        description="failed deletions before a chunk is set aside for a person",
    )
    interval: Time = Field(
        default=_DEFAULTS.garbage_interval_s, description="how often due deletions are looked for"
    )
    sweep_requests: Count = Field(
        default=_DEFAULTS.sweep_requests_hour,
        description="listings an hour that the search for forgotten chunks may cost",
    )


class OptimiserSettings(Section):
    """How small chunks become fewer and larger ones, in the background."""

    enabled: bool = Field(
        default=_DEFAULTS.optimiser_enabled,
        description="merge small neighbouring chunks of a segment into one new chunk",
    )
    interval: Time = Field(
        default=_DEFAULTS.optimiser_interval_s,
        description="how often a round begins; each looks at 10,000 extents at most",
    )
    bytes: Size = Field(
        default=_DEFAULTS.optimiser_bytes, description="most bytes that a round writes again"
    )
    requests: Count = Field(
        default=_DEFAULTS.optimiser_requests,
        description="most calls to long-term storage that a round makes, about",
    )
    small: Size = Field(
        default=_DEFAULTS.optimiser_small_bytes,
        description="a chunk that holds no more of a segment than this is small",
    )
    chunks: Count = Field(
        default=_DEFAULTS.optimiser_chunks_min,
        description="fewer small neighbours than this are left alone; at least 2. Four times as "
        "many where others share all of their chunks and they fill less than half of one",
    )


class Relocation(Section):
    """When the live rest of a mostly truncated first chunk is copied, and the chunk freed."""

    enabled: bool = Field(
        default=_DEFAULTS.relocation_enabled,
        description="copy such a rest; without it the space is freed with the chunk's last byte",
    )
    chunk_min: Size = Field(
        default=_DEFAULTS.relocation_chunk_bytes_min,
        description="smaller chunks are left alone",
    )
    chunk_max: Size = Field(
        default=_DEFAULTS.relocation_chunk_bytes_max,
        description="larger ones too",
    )
    percent: Count = Field(
        default=_DEFAULTS.relocation_percent,
        description="at least so much of the chunk was truncated; at most 100",
    )
    live: Size = Field(
        default=_DEFAULTS.relocation_live_bytes_max,
        description="at most so many bytes are copied",
    )


class Health(Section):
    """When long-term storage counts as slow, late or away, and what follows."""

    slow_call: Time = Field(
        default=_DEFAULTS.slow_call_s,
        description="a call that takes longer is slow: it is logged; if most are, so is storage",
    )
    failures: Count = Field(
        default=_DEFAULTS.storage_failures_max,
        description="so many calls in a row without an answer, and no more are sent but probes; "
        "at most 5",
    )
    probe: Time = Field(
        default=_DEFAULTS.storage_probe_s,
        description="so long behind them one call is sent, then twice as long behind that, "
        "up to 30s, until one is answered",
    )
    late: Time = Field(
        default=_DEFAULTS.late_s,
        description="bytes that are overdue for a flush so long are late, and appends are held "
        "back from here on",
    )
    late_max: Time = Field(
        default=_DEFAULTS.late_s_max,
        description="from here on as long as they ever are; above late",
    )
    throttle: Time = Field(
        default=_DEFAULTS.throttle_s_max,
        description="how long an append is held back then; 0s never holds one back",
    )


class SpaceSettings(Section):
    """When long-term storage has too little room, and appends are refused: safe mode."""

    free_min: Size = Field(
        default=_DEFAULTS.free_bytes_min,
        description="safe mode begins when less is free, and ends when a quarter more is; 0 never",
    )
    used_max: Size | None = Field(
        default=_DEFAULTS.used_bytes_max,
        description="safe mode begins when the store's files hold so much, and ends a tenth below; "
        "some bindings look at every file to tell",
    )
    interval: Time = Field(
        default=_DEFAULTS.space_interval_s,
        description="how often room is looked at while anything is written",
    )


class MetricsSection(Section):
    """What an owner measures of itself, for Prometheus and OpenTelemetry; needs the extra."""

    enabled: bool = Field(
        default=False,
        description="measure, and put spans into traces where an SDK of OpenTelemetry is installed",
    )
    port: Annotated[Count, Field(le=65_535)] | None = Field(
        default=None,
        description="show all metrics of the process by HTTP on this port; unless set, nothing "
        "listens",
    )
    address: Text = Field(
        default="127.0.0.1",
        description="where it listens; this machine alone unless changed, for nobody is asked who "
        "he is",
    )


class Reads(Section):
    """How bytes are read."""

    verify: Literal["remembered", "always", "never"] = Field(
        default=_DEFAULTS.verify_reads,
        description="compare checksums once in ten minutes or in a bucket always, on every read, "
        "or (benchmarks) never",
    )
    prefetch: Size = Field(
        default=_DEFAULTS.prefetch_bytes,
        description="read ahead of sequential readers while storage is slow, at most so much "
        "for each container; 0 reads nothing ahead",
    )


class Deadlines(Section):
    """How long is waited."""

    append: Time = Field(
        default=_DEFAULTS.append_deadline_s,
        description="an append that found no room so long fails, not applied",
    )
    storage: Time = Field(
        default=_DEFAULTS.storage_deadline_s,
        description="a call to long-term storage that takes longer has an unknown outcome",
    )
    storage_rate: Size = Field(
        default=_DEFAULTS.storage_rate_min,
        description="bytes a second: such a call has so much more time as its bytes need at this "
        "rate; lower it for a link that is slower",
    )


class Settings(Section):
    """The whole file."""

    uuid: Annotated[str, BeforeValidator(_uuid)] | None = Field(
        default=None,
        description="of the store, written by init; storage that holds another store is refused",
    )
    long_term_storage: LongTermStorage
    cache: Cache = Cache()
    bandwidth: BandwidthSettings = BandwidthSettings()
    tier1: Tier1
    index: IndexSettings = IndexSettings()
    segments: Segments = Segments()
    flush: Flush = Flush()
    close: Close = Close()
    back_pressure: BackPressure = BackPressure()
    checkpoint: CheckpointSettings = CheckpointSettings()
    garbage: Garbage = Garbage()
    optimiser: OptimiserSettings = OptimiserSettings()
    relocation: Relocation = Relocation()
    health: Health = Health()
    space: SpaceSettings = SpaceSettings()
    metrics: MetricsSection = MetricsSection()
    reads: Reads = Reads()
    deadlines: Deadlines = Deadlines()
