"""Settings as the store uses them: checked, paths resolved, every error with its place.

Settings that are each possible and together are not, and folders that must not be one.

What one knob alone may be is checked where it is defined. Here is what two of them must agree on.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from siltstone.container.models.settings import ContainerSettings
from siltstone.core.storage.first_look import first_look
from siltstone.store.metrics.exposition import MetricsSettings
from siltstone.store.settings.file import (
    SettingsText,
    find_settings_file,
    read_settings_file,
)
from siltstone.store.settings.model import Settings
from siltstone.store.settings.plugin_options import first_of, validation_errors
from siltstone.store.settings.sections import PluginSection
from siltstone.store.settings.units import format_size, format_time

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """``low`` must not be above ``high``, or must be below it.

    Attributes:
        low, high: knobs of a container.
        below: equal is too much as well.
        if_written: only if the file says ``low``; its default gives way by itself.
        why: what would come of it.
    """

    low: str
    high: str
    below: bool = False
    if_written: bool = False
    why: str


_RULES: Final = (
    _Rule(
        low="flush_bytes",
        high="unflushed_bytes_max",
        why="appends would wait before a flush by size begins",
    ),
    _Rule(
        low="table_flush_bytes",
        high="unflushed_table_bytes_max",
        why="updates would wait before a flush by size begins",
    ),
    _Rule(
        low="optimiser_small_bytes",
        high="chunk_bytes",
        if_written=True,
        why="every chunk would be small",
    ),
    _Rule(
        low="relocation_chunk_bytes_min",
        high="relocation_chunk_bytes_max",
        why="no chunk would be in between",
    ),
    _Rule(
        low="relocation_live_bytes_max",
        high="relocation_chunk_bytes_max",
        if_written=True,
        why="no chunk that is looked at holds so much",
    ),
    _Rule(low="pack_bytes", high="chunk_bytes", why="what is packed has to fit in a chunk"),
    _Rule(low="late_s", high="late_s_max", below=True, why="a throttle needs room to grow"),
    _Rule(
        low="throttle_s_max",
        high="append_deadline_s",
        below=True,
        why="no append that is held back would come in time",
    ),
    _Rule(
        low="slow_call_s", high="storage_deadline_s", below=True, why="no call could ever be slow"
    ),
)


def contradiction(
    values: Mapping[str, object], written: frozenset[Key], keys: Mapping[str, Key]
) -> tuple[Key, str] | None:
    """Return the first pair of settings that contradict each other: the key and the reason.

    Args:
        values: the knobs of a container by their names.
        written: the keys that the file holds.
        keys: the key of each knob.
    """
    defaults = ContainerSettings()
    for rule in _RULES:
        low, high = values[rule.low], values[rule.high]
        if not isinstance(low, int | float) or not isinstance(high, int | float):
            continue  # none is set
        if low < high or (low == high and not rule.below):
            continue
        if rule.if_written and keys[rule.low] not in written:
            continue
        is_size = isinstance(getattr(defaults, rule.high), int)
        shown = [format_size(int(v)) if is_size else format_time(float(v)) for v in (low, high)]
        must = "be below" if rule.below else "not be above"
        other = ".".join(keys[rule.high])
        reason = f"is {shown[0]} and must {must} {other}, {shown[1]}: {rule.why}"
        return keys[rule.low], reason
    return None


def shared_folder(folders: Mapping[Key, Path | None]) -> tuple[Key, str] | None:
    """Return the first folder that is, or lies in, another one: its key and the reason.

    Args:
        folders: absolute folders of different parts of the store; ``None`` where there is none.
    """
    found = [(key, path.resolve()) for key, path in folders.items() if path is not None]
    for key, path in found:
        for other, above in found:
            if key != other and path.is_relative_to(above):
                where = "is" if path == above else "lies in"
                return key, f"{where} the folder of {'.'.join(other)}: each part needs its own"
    return None


CONTAINER_KEYS: Final[Mapping[str, tuple[str, str]]] = {
    "chunk_bytes": ("segments", "chunk_size"),
    "flush_bytes": ("flush", "bytes"),
    "flush_age_s": ("flush", "age"),
    "flush_parallel": ("flush", "parallel"),
    "read_back": ("flush", "read_back"),
    "pack_bytes": ("flush", "pack_bytes"),
    "unflushed_bytes_max": ("back_pressure", "bytes"),
    "unflushed_table_bytes_max": ("back_pressure", "table_bytes"),
    "append_deadline_s": ("deadlines", "append"),
    "table_flush_bytes": ("flush", "table_bytes"),
    "table_flush_age_s": ("flush", "table_age"),
    "checkpoint_bytes": ("checkpoint", "bytes"),
    "checkpoint_age_s": ("checkpoint", "age"),
    "garbage_delay_s": ("garbage", "delay"),
    "garbage_attempts": ("garbage", "attempts"),
    "garbage_interval_s": ("garbage", "interval"),
    "sweep_requests_hour": ("garbage", "sweep_requests"),
    "optimiser_enabled": ("optimiser", "enabled"),
    "optimiser_interval_s": ("optimiser", "interval"),
    "optimiser_bytes": ("optimiser", "bytes"),
    "optimiser_requests": ("optimiser", "requests"),
    "optimiser_small_bytes": ("optimiser", "small"),
    "optimiser_chunks_min": ("optimiser", "chunks"),
    "relocation_enabled": ("relocation", "enabled"),
    "relocation_chunk_bytes_min": ("relocation", "chunk_min"),
    "relocation_chunk_bytes_max": ("relocation", "chunk_max"),
    "relocation_percent": ("relocation", "percent"),
    "relocation_live_bytes_max": ("relocation", "live"),
    "storage_deadline_s": ("deadlines", "storage"),
    "storage_rate_min": ("deadlines", "storage_rate"),
    "storage_threads": ("long_term_storage", "threads"),
    "storage_attempts": ("long_term_storage", "attempts"),
    "background_rate": ("bandwidth", "background"),
    "slow_call_s": ("health", "slow_call"),
    "storage_failures_max": ("health", "failures"),
    "storage_probe_s": ("health", "probe"),
    "late_s": ("health", "late"),
    "late_s_max": ("health", "late_max"),
    "throttle_s_max": ("health", "throttle"),
    "free_bytes_min": ("space", "free_min"),
    "used_bytes_max": ("space", "used_max"),
    "space_interval_s": ("space", "interval"),
    "verify_reads": ("reads", "verify"),
    "prefetch_bytes": ("reads", "prefetch"),
    "index_cache_bytes": ("index", "cache"),
    "index_write_bytes": ("index", "unwritten"),
    "segments_idle_max": ("segments", "idle_max"),
    "close_flush": ("close", "flush"),
}
"""Each knob of a container: section and key of the file."""

PLACE_KEYS: Final = (
    "bucket", "container", "account", "namenode", "prefix", "path", "endpoint", "profile",
)  # fmt: skip
"""Options of bindings that say where a service is, none of which may be a secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveSettings:
    """What a store is opened with.

    Attributes:
        file: the settings file.
        text: what it holds, to name the lines of what turns out to be wrong.
        uuid: of the store; ``None`` when the file does not say.
        binding: name of the binding.
        binding_options: what it gets; may hold secrets.
        log: name of the tier-1 log.
        log_options: what it gets; may hold secrets.
        log_place: file and line of what says where the log is.
        cache_folder: absolute folder of the cache of blocks; ``None`` for none.
        cache_bytes: what the cache takes at most, for each process.
        upload_rate: bytes a second that this process writes at most; ``None`` without a limit.
        download_rate: bytes a second that it reads; alike.
        index_folder: absolute folder of the local indexes.
        container: the knobs of every container.
        metrics: what is measured, and where it is shown.
    """

    file: Path
    text: SettingsText = field(repr=False, compare=False)
    uuid: str | None
    binding: str
    binding_options: Mapping[str, Any] = field(repr=False)
    log: str
    log_options: Mapping[str, Any] = field(repr=False)
    log_place: str
    cache_folder: Path | None
    cache_bytes: int
    upload_rate: int | None
    download_rate: int | None
    index_folder: Path
    container: ContainerSettings
    metrics: MetricsSettings

    @property
    def storage_place(self) -> Mapping[str, str]:
        """Facts for messages: where long-term storage is, and which file says so. No secret."""
        return storage_place(self.binding_options, self.file)


def storage_place(options: Mapping[str, Any], file: Path | None) -> Mapping[str, str]:
    """Where long-term storage is, by the options of its binding; ``None`` for no settings file."""
    found = {key: str(options[key]) for key in PLACE_KEYS if isinstance(options.get(key), str)}
    return found if file is None else {**found, "settings": str(file)}


def load_settings(
    path: Path | str, environment: Mapping[str, str] | None = None
) -> EffectiveSettings:
    """Read the settings file that ``path`` names, or that lies in the folder ``path``.

    Args:
        path: file or folder.
        environment: where references are looked up; ``None`` means the variables of this process.

    Raises:
        StoreNotFoundError: there is no such file.
        SettingsError: the file is wrong; the message names file, line, key and reason.
        StoreError: the file's place does not answer.
    """
    file = first_look(path, lambda: find_settings_file(path))
    text = read_settings_file(file, os.environ if environment is None else environment)
    try:
        settings = Settings.model_validate(text.values)
    except ValidationError as error:
        raise first_of(validation_errors(text, error, Settings)) from error
    effective = EffectiveSettings(
        file=file,
        text=text,
        uuid=settings.uuid,
        binding=settings.long_term_storage.binding,
        binding_options=resolved_options(settings.long_term_storage, file.parent),
        log=settings.tier1.log,
        log_options=resolved_options(settings.tier1, file.parent),
        log_place=text.place(("tier1", settings.tier1.log, "path")),
        cache_folder=_cache_folder(settings.cache.path, file.parent),
        cache_bytes=settings.cache.size,
        upload_rate=settings.bandwidth.upload,
        download_rate=settings.bandwidth.download,
        index_folder=file.parent / Path(settings.index.path).expanduser(),
        container=_container_settings(text, settings),
        metrics=_metrics(text, settings),
    )
    wrong = shared_folder(
        {
            ("index", "path"): effective.index_folder,
            ("cache", "path"): effective.cache_folder,
            ("tier1", effective.log, "path"): _folder(effective.log_options),
            ("long_term_storage", effective.binding, "path"): _folder(effective.binding_options),
        }
    )
    if wrong is not None:
        raise text.error(*wrong)
    return effective


def _metrics(text: SettingsText, settings: Settings) -> MetricsSettings:
    chosen = settings.metrics
    if chosen.port is not None and not chosen.enabled:
        raise text.error(("metrics", "port"), "is set, and metrics.enabled is not")
    return MetricsSettings(enabled=chosen.enabled, port=chosen.port, address=chosen.address)


def _cache_folder(path: str | None, folder: Path) -> Path | None:
    return None if path is None else folder / Path(path).expanduser()


def _folder(options: Mapping[str, Any]) -> Path | None:
    path = options.get("path")
    return Path(path) if isinstance(path, str) and path else None


def resolved_options(section: PluginSection, folder: Path) -> Mapping[str, Any]:
    """Return a plugin's options with ``path`` made absolute: plugins do not know the file."""
    options = dict(section.options)
    path = options.get("path")
    if isinstance(path, str) and path:
        options["path"] = str(folder / Path(path).expanduser())
    return options


def _container_settings(text: SettingsText, settings: Settings) -> ContainerSettings:
    values = {
        name: getattr(getattr(settings, section), key)
        for name, (section, key) in CONTAINER_KEYS.items()
    }
    written = frozenset(
        (section, key)
        for section, within in text.values.items()
        if isinstance(within, Mapping)
        for key in within
    )
    wrong = contradiction(values, written, CONTAINER_KEYS)
    if wrong is not None:
        raise text.error(*wrong)
    try:
        return ContainerSettings(**values)
    except ValueError as error:
        name, _, reason = str(error).partition(" ")
        raise text.error(CONTAINER_KEYS.get(name, ()), reason) from error
