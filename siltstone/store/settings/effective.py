"""Settings as the store uses them: checked, paths resolved, every error with its place.

What one setting alone may be is checked next to its field in ``model``. Here is what two of them
must agree on, and which folders must not be one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
from siltstone.store.settings.model import CollectionsSection, Settings
from siltstone.store.settings.objects_section import ObjectsSection
from siltstone.store.settings.plugin_options import first_of, validation_errors
from siltstone.store.settings.removed_keys import without_removed_keys
from siltstone.store.settings.sections import PluginSection, Section
from siltstone.store.settings.units import format_size

Key = tuple[str, ...]

_NOT_ABOVE: Final[tuple[tuple[Key, Key, str], ...]] = (
    (
        ("flush", "bytes"),
        ("back_pressure", "bytes"),
        "appends would wait before a flush by size begins",
    ),
    (("flush", "pack_bytes"), ("segments", "chunk_size"), "what is packed has to fit in a chunk"),
)
"""Sizes of which the first must not be above the second, and what would happen otherwise."""


def _contradiction(settings: Settings) -> tuple[Key, str] | None:
    """Return the first pair of settings that contradict each other: the key and the reason."""
    for low_key, high_key, why in _NOT_ABOVE:
        low, high = (
            getattr(getattr(settings, section), key) for section, key in (low_key, high_key)
        )
        if low is not None and low > high:
            reason = f"is {format_size(low)} and must not be above {'.'.join(high_key)}, "
            return low_key, f"{reason}{format_size(high)}: {why}"
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
    str(info.json_schema_extra["knob"]): (section, key)
    for section, outer in Settings.model_fields.items()
    if isinstance(kind := outer.annotation, type) and issubclass(kind, Section)
    for key, info in kind.model_fields.items()
    if isinstance(info.json_schema_extra, dict)
}
"""Each setting of a container that users may choose: section and key of the file."""

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
        container: the settings of every container.
        metrics: what is measured, and where it is shown.
        collections: how collections are used.
        consensus_options: what their consensus gets; may hold secrets.
        objects: how keyspaces are used.
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
    collections: CollectionsSection
    consensus_options: Mapping[str, Any] = field(repr=False)
    objects: ObjectsSection

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

    A key that is a constant now is ignored, with a ``FutureWarning`` that names the value.

    Raises:
        StoreNotFoundError: there is no such file.
        SettingsError: the file is wrong; the message names file, line, key and reason.
        StoreError: the file's place does not answer.
    """
    file = first_look(path, lambda: find_settings_file(path))
    names = os.environ if environment is None else environment
    text = without_removed_keys(read_settings_file(file, names))
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
        collections=settings.collections,
        consensus_options=resolved_options(settings.collections, file.parent),
        objects=settings.objects,
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
    wrong = _contradiction(settings)
    if wrong is not None:
        raise text.error(*wrong)
    chosen: dict[str, Any] = {
        name: getattr(getattr(settings, section), key)
        for name, (section, key) in CONTAINER_KEYS.items()
    }
    found = ContainerSettings(**chosen)
    # Constants give way to what a person chose: else a flush of the table log would begin after
    # updates wait, an append held back would miss its deadline, and no call could be slow.
    return replace(
        found,
        table_flush_bytes=min(found.table_flush_bytes, found.unflushed_table_bytes_max),
        throttle_s_max=min(found.throttle_s_max, found.append_deadline_s / 2),
        slow_call_s=min(found.slow_call_s, found.storage_deadline_s / 2),
    )
