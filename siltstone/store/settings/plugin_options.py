"""The options of a plugin, checked by the model that it tells of, with file, line and key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from siltstone.core.errors import SettingsError
from siltstone.core.hooks import BINDINGS_GROUP, CONSENSUS_GROUP, TIER1_GROUP, plugin_settings
from siltstone.core.settings_reasons import in_order, reason_of
from siltstone.store.settings.file import KeyPath, SettingsText

T = TypeVar("T")

GROUPS: Final[Mapping[str, str]] = {
    "long_term_storage": BINDINGS_GROUP,
    "tier1": TIER1_GROUP,
    "collections": CONSENSUS_GROUP,
}
"""The section of each group of plugins."""

_CHOOSERS: Final[Mapping[str, str]] = {
    "long_term_storage": "binding",
    "tier1": "log",
    "collections": "consensus",
}


def option_errors(
    text: SettingsText, section: str, name: str, options: Mapping[str, Any]
) -> list[SettingsError]:
    """Return what is wrong with the options of the plugin ``name``; nothing where all is well.

    A plugin that tells of no model checks its options itself, when it is loaded.
    """
    try:
        model = plugin_settings(GROUPS[section], name)
    except SettingsError as error:
        return [text.error((section, _CHOOSERS[section]), str(error))]
    if model is None:
        return []
    try:
        model.model_validate(dict(options))
    except ValidationError as error:
        return validation_errors(text, error, model, (section, name))
    return []


def with_place(
    text: SettingsText,
    section: str,
    name: str,
    options: Mapping[str, Any],
    load: Callable[[], T],
) -> T:
    """Run ``load``, which builds a plugin; what is wrong is told with its place in the file.

    Raises:
        SettingsError: no such plugin, a package that is missing, or wrong options.
    """
    errors = option_errors(text, section, name, options)
    if errors:
        raise first_of(errors)
    try:
        return load()
    except SettingsError as error:
        raise text.error((section, name), str(error)) from error


def first_of(errors: Sequence[SettingsError]) -> SettingsError:
    """Return the first of what is wrong; it says how many more there are."""
    if len(errors) == 1:
        return errors[0]
    return SettingsError(f"{errors[0]} (and {len(errors) - 1} more)")


def validation_errors(
    text: SettingsText,
    error: ValidationError,
    model: type[BaseModel],
    above: KeyPath = (),
) -> list[SettingsError]:
    """Return an error for each thing that is wrong, with its line.

    Args:
        text: the file.
        error: what was found.
        model: what was validated.
        above: where in the file that stands.
    """
    found = []
    for one in in_order(error.errors(include_url=False, include_input=False)):
        place = (*above, *one["loc"])
        reason = reason_of(one, model)
        if one["type"] == "extra_forbidden":
            reason = _other_plugin(text, place) or reason
        found.append(text.error(place, reason))
    return found


def _other_plugin(text: SettingsText, key: KeyPath) -> str:
    """What there is to say of options that stand under another name than the chosen plugin's."""
    if len(key) == 2 and key[0] in _CHOOSERS:
        section, chooser = str(key[0]), _CHOOSERS[str(key[0])]
        within = text.values[section]
        if isinstance(within[key[1]], Mapping):
            chosen = within.get(chooser)
            return (
                f"unknown key; {section}.{chooser} is {chosen!r}, and its options stand under "
                "that name"
            )
    return ""
