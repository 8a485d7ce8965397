"""What the settings file of a store says: every setting in force, or all that is wrong."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ByteSize, SecretStr, ValidationError

from siltstone.core.errors import SettingsError
from siltstone.core.hooks import plugin_settings
from siltstone.store.settings.effective import EffectiveSettings, load_settings
from siltstone.store.settings.file import SettingsText, find_settings_file, read_settings_file
from siltstone.store.settings.model import Settings
from siltstone.store.settings.plugin_options import GROUPS, option_errors, validation_errors
from siltstone.store.settings.removed_keys import without_removed_keys
from siltstone.store.settings.sections import PluginSection
from siltstone.store.settings.template import setting_value
from siltstone.store.settings.units import format_size

HIDDEN: Final = "(not shown)"
"""In the place of an option that may be a secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSetting:
    """A setting in force.

    Attributes:
        key: its key, with dots between the sections.
        value: as the file would have it; ``None`` for one that is not set and has no default.
        line: where the file says so; ``None`` for a default.
    """

    key: str
    value: str | int | float | None
    line: int | None


def settings_errors(path: Path | str) -> list[SettingsError]:
    """Return all that is wrong with the settings file that ``path`` names. Asks no service.

    Options of a plugin that tells of no model are not looked at.

    Raises:
        StoreNotFoundError: there is no such file.
    """
    file = find_settings_file(path)
    try:
        text = without_removed_keys(read_settings_file(file, os.environ))
    except SettingsError as error:
        return [error]
    errors = []
    try:
        Settings.model_validate(text.values)
    except ValidationError as error:
        errors = validation_errors(text, error, Settings)
    errors += _option_errors(text)
    if errors:
        return errors
    try:
        load_settings(file)
    except SettingsError as error:  # two that contradict each other
        return [error]
    return []


def shown_settings(path: Path | str) -> Iterator[ShownSetting]:
    """Yield every setting of a store, in the order of ``docs/settings.md``; no secret is shown.

    Raises like ``load_settings``, and ``SettingsError`` for wrong options of a plugin.
    """
    effective = load_settings(path)
    text = effective.text
    settings = Settings.model_validate(text.values)
    for name, info in Settings.model_fields.items():
        section = getattr(settings, name)
        if not isinstance(section, BaseModel):
            yield _shown(text, (name,), setting_value(info, section))
            continue
        for key, field in type(section).model_fields.items():
            if key != "options":
                value = setting_value(field, getattr(section, key))
                yield _shown(text, (name, key), value)
        if isinstance(section, PluginSection):
            yield from _options(effective, name)


def _option_errors(text: SettingsText) -> list[SettingsError]:
    errors = []
    for section in GROUPS:
        kind = Settings.model_fields[section].annotation
        assert isinstance(kind, type), "a section is a model"
        assert issubclass(kind, PluginSection), "each group has a section of plugins"
        try:
            found = kind.model_validate(text.values.get(section))
        except ValidationError:
            continue  # told of already
        errors += option_errors(text, section, getattr(found, kind.plugin_key()), found.options)
    return errors


def _options(effective: EffectiveSettings, section: str) -> Iterator[ShownSetting]:
    name, options = {
        "long_term_storage": (effective.binding, effective.binding_options),
        "tier1": (effective.log, effective.log_options),
        "collections": (effective.collections.consensus, effective.consensus_options),
    }[section]
    for error in option_errors(effective.text, section, name, options):
        raise error
    model = plugin_settings(GROUPS[section], name)
    values: Mapping[str, Any] = options
    if model is not None:
        checked = model.model_validate(dict(options))
        values = {key: getattr(checked, key) for key in model.model_fields}
    for key, value in values.items():
        shown = HIDDEN if model is None else _option_text(value)
        yield _shown(effective.text, (section, name, key), shown)


def _option_text(value: Any) -> str | int | float | None:
    if isinstance(value, SecretStr):
        return HIDDEN
    if isinstance(value, ByteSize):
        return format_size(value)
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, list | tuple):
        return ", ".join(str(one) for one in value)
    return value if value is None or isinstance(value, int | float) else str(value)


def _shown(
    text: SettingsText, key: tuple[str, ...], value: str | int | float | None
) -> ShownSetting:
    return ShownSetting(key=".".join(key), value=value, line=text.lines.get(key))
