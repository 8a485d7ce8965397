"""What a person may write in ``siltstone.yaml``: one model a section, checks next to each field.

A ``knob`` is a setting of a container, with the default that it has in ``ContainerSettings``.
``effective`` checks what two settings must agree on, and resolves paths.
"""

from __future__ import annotations

import uuid
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from siltstone.container.models.settings import CloseFlush, ContainerSettings
from siltstone.core.constants import GIB, MIB
from siltstone.store.settings.objects_section import ObjectsSection
from siltstone.store.settings.sections import Count, PluginSection, Section, Text
from siltstone.store.settings.unit_types import PositiveSize, PositiveTime, Rate, Size, Time

_DEFAULTS: Final = ContainerSettings()

LEASE_S_MIN: Final = 30.0
"""A lease is renewed each third of its time, which must not cost more than the polls."""

LEASE_S_MAX: Final = 30 * 86_400.0
"""A process that died holds its parts for as long as its lease: none should for months."""


def knob(name: str, description: str) -> Any:
    """A field for the attribute ``name`` of ``ContainerSettings``."""
    default = getattr(_DEFAULTS, name)
    return Field(default=default, description=description, json_schema_extra={"knob": name})


def _uuid(value: object) -> str:
    try:
        return str(uuid.UUID(str(value)))
    except ValueError as error:
        raise ValueError(f"not a uuid: {value!r}") from error


def _chunk_size(value: int) -> int:
    if value > 1024 * GIB:
        raise ValueError("must be at most 1 TiB")
    return value


def _part_size(value: int) -> int:
    if not MIB <= value <= GIB:
        raise ValueError("must be from 1 MiB to 1 GiB")
    return value


def _lease(value: float) -> float:
    if not LEASE_S_MIN <= value <= LEASE_S_MAX:
        raise ValueError("must be from 30 s to 30 d")
    return value


def _off(value: object) -> object:
    """YAML reads the word ``off`` as false."""
    return "off" if value is False else value


class LongTermStorage(PluginSection):
    """Where the chunks lie; the binding's options stand under its name."""

    binding: Text = Field(description="name of the binding for the service")
    threads: Count = knob(
        "storage_threads",
        "calls to the service at a time; more hide latency, fewer spare the service",
    )
    attempts: Count = knob(
        "storage_attempts",
        "attempts of a read, stat, listing or delete that gets no answer; nothing else is ever "
        "repeated",
    )


class Cache(Section):
    """Blocks of chunks that were read, kept on a local disk; for a service that is far away."""

    path: Text | None = Field(
        default=None,
        description="folder on a local disk for blocks that were read; without it there is no "
        "cache",
    )
    size: Size = Field(
        default=4 * GIB,
        description="the most that these blocks take, for each process that has the store open",
    )


class BandwidthSettings(Section):
    """The most bytes a second that move between this process and long-term storage."""

    upload: Rate | None = Field(
        default=None,
        description="for flushes and all else that an open store writes; without it there is no "
        "limit. Jobs, imports, copies and moves have `--rate`",
    )
    download: Rate | None = Field(
        default=None,
        description="for all reads, which wait for their turn; without it there is no limit",
    )
    background: Rate | None = knob(
        "background_rate",
        "for what the optimiser reads, and as much for what it writes, in each container; and for "
        "what value compaction writes, in each keyspace. Without it there is no limit",
    )


class Tier1(PluginSection):
    """The log that makes an append durable; its options stand under its name."""

    log: Text = Field(description="name of the log")


class IndexSettings(Section):
    """The local index of the metadata: a cache, which can be deleted while no process uses it."""

    path: Text = Field(
        default="./index",
        description="folder on a local disk; a store whose index is still there opens fast",
    )
    cache: PositiveSize = knob(
        "index_cache_bytes", "memory for blocks of the index, for each container"
    )


class Segments(Section):
    """How segments lie in chunks."""

    chunk_size: Annotated[PositiveSize, AfterValidator(_chunk_size)] = knob(
        "chunk_bytes", "the most that a chunk holds; larger chunks are fewer objects, at most 1TiB"
    )


class Flush(Section):
    """When acknowledged bytes move to long-term storage."""

    bytes: PositiveSize | None = knob(
        "flush_bytes",
        "unflushed bytes of a segment that start a flush of it; without it 8MiB, or 64MiB where "
        "chunks cannot be appended to",
    )
    age: PositiveTime | None = knob(
        "flush_age_s",
        "age of the oldest unflushed byte of a segment that starts a flush of it; without it 30s, "
        "or 10min where chunks cannot be appended to",
    )
    parallel: Count = knob("flush_parallel", "chunks of segments that a container writes at a time")
    pack_bytes: PositiveSize | None = knob(
        "pack_bytes",
        "segments with fewer unflushed bytes than this may share a chunk, and are flushed early "
        "for it; without it 1MiB, or an eighth of a chunk if that is less",
    )
    read_back: bool = knob(
        "read_back",
        "read every write to long-term storage back and compare it before it counts; for a "
        "service that is not trusted, and it reads everything once more",
    )
    table_age: PositiveTime = knob(
        "table_flush_age_s",
        "age of the oldest unflushed byte of the table log that starts a flush of it; 4MiB start "
        "one too",
    )


class Close(Section):
    """What a close brings to long-term storage."""

    flush: CloseFlush = knob(
        "close_flush",
        "auto: what earlier owners left, what is being flushed, and more than 1MiB; always: "
        "everything, or the close fails; never: only what is being flushed",
    )


class BackPressure(Section):
    """What happens when long-term storage cannot keep up."""

    bytes: PositiveSize = knob(
        "unflushed_bytes_max",
        "appends wait while this many bytes of a container are unflushed, or one segment with "
        "unflushed bytes for each 4KiB of it, but at least 1,000 segments. The owner holds these "
        "bytes in memory, readers do not",
    )
    table_bytes: PositiveSize = knob(
        "unflushed_table_bytes_max",
        "table updates wait while this many bytes of the table log are unflushed",
    )


class CheckpointSettings(Section):
    """How often the full metadata is written, so that opening reads little."""

    bytes: PositiveSize = knob(
        "checkpoint_bytes",
        "growth of the table log that starts a checkpoint; if the upload is worth it, 10min with "
        "any change start one too, and so do 10s with 4MiB of growth",
    )


class Garbage(Section):
    """When chunks that are no longer referenced are deleted."""

    delay: Time = knob(
        "garbage_delay_s",
        "how long a chunk that is no longer referenced, or a part of a collection, is kept for "
        "readers that have begun; 0s deletes it at once",
    )


class OptimiserSettings(Section):
    """How small chunks become fewer and larger ones, in the background."""

    enabled: bool = knob(
        "optimiser_enabled", "merge small neighbouring chunks of a segment into one new chunk"
    )


class Relocation(Section):
    """When the live rest of a mostly truncated first chunk is copied, and the chunk freed."""

    enabled: bool = knob(
        "relocation_enabled",
        "copy the live rest of a mostly truncated first chunk; without it the space is freed with "
        "the last byte of the chunk",
    )


class SpaceSettings(Section):
    """When long-term storage has too little room, and appends are refused: safe mode."""

    free_min: Size = knob(
        "free_bytes_min",
        "safe mode begins when less is free, and ends when a quarter more is; 0 never begins it",
    )
    used_max: PositiveSize | None = knob(
        "used_bytes_max",
        "safe mode begins when the files of the store hold this much, and ends a tenth below; some "
        "bindings list every file for this, once a minute",
    )


class MetricsSection(Section):
    """What an owner measures of itself, for Prometheus and OpenTelemetry; needs the extra."""

    enabled: bool = Field(
        default=False,
        description="measure, and add spans to traces where an SDK of OpenTelemetry is installed",
    )
    port: Annotated[Count, Field(le=65_535)] | None = Field(
        default=None,
        description="serve all metrics of the process by HTTP on this port; without it there is "
        "no endpoint",
    )
    address: Text = Field(
        default="127.0.0.1",
        description="where the endpoint listens; localhost only by default: it has no "
        "authentication",
    )


class Reads(Section):
    """How bytes are read."""

    verify: Literal["remembered", "always", "never"] = knob(
        "verify_reads",
        "when checksums are compared. remembered: once in ten minutes, in a bucket on every read; "
        "always: on every read; never: not at all, for benchmarks. Values of keyspaces are "
        "compared with sums of their own on every read, whatever is set",
    )
    prefetch: Size = knob(
        "prefetch_bytes",
        "the most that is read ahead of sequential readers while storage is slow, for each "
        "container; 0 reads nothing ahead",
    )


class CollectionsSection(PluginSection):
    """How this process uses collections."""

    part_size: Annotated[PositiveSize, AfterValidator(_part_size)] = Field(
        default=128 * MIB,
        description="the most that an object with rows holds, from 1MiB to 1GiB; two of them are "
        "in memory while they are uploaded",
    )
    compaction: Annotated[Literal["background", "off"], BeforeValidator(_off)] = Field(
        default="background",
        description="background: appends of this process start merges of small batches when they "
        "are due; off: they do not, and another process, or `siltstone collection compact`, has to",
    )
    poll_max: PositiveTime = Field(
        default=10.0,
        description="the longest pause between two looks of a follower for what other processes "
        "appended; each look is a request",
    )
    lease: Annotated[PositiveTime, AfterValidator(_lease)] = Field(
        default=900.0,
        description="how long a reader or an upload of a process that died keeps rows from being "
        "deleted, from 30s to 30d; a living process renews it three times in this time",
    )
    consensus: Text = Field(
        default="objects",
        description="what orders the appends of several processes. objects: names of objects on "
        "long-term storage, each created once. table: a table of the store, for the process that "
        "owns it. Plugins add others, whose options stand under their names. It stays as it is "
        "from the first collection on",
    )

    @classmethod
    def plugin_key(cls) -> str:
        """See ``PluginSection``."""
        return "consensus"


class Deadlines(Section):
    """How long calls may take."""

    append: PositiveTime = knob(
        "append_deadline_s", "an append that finds no room within this time fails, not applied"
    )
    storage: PositiveTime = knob(
        "storage_deadline_s",
        "a call to long-term storage that takes longer has an unknown outcome; each MiB of it adds "
        "a second, so raise this for a link slower than 1MiB a second",
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
    health: Section = Section()
    """Empty since its keys are constants; see ``removed_keys``."""
    space: SpaceSettings = SpaceSettings()
    metrics: MetricsSection = MetricsSection()
    reads: Reads = Reads()
    collections: CollectionsSection = CollectionsSection()
    objects: ObjectsSection = ObjectsSection()
    deadlines: Deadlines = Deadlines()
