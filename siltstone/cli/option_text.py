"""Settings of a plugin as they are given in a command: values are taken as they are typed."""

from __future__ import annotations

from collections.abc import Iterable
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args

import click
from pydantic import BaseModel, TypeAdapter, ValidationError

from siltstone.core.near_names import meant
from siltstone.core.settings_reasons import reason_of

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo


def options_of(
    texts: Iterable[str], model: type[BaseModel] | None, hint: str = "--option"
) -> dict[str, Any]:
    """Return keys and values of ``KEY=VALUE``.

    A value is the text after the first ``=``, whatever characters it has. Where the plugin tells
    that a setting is a number or a truth value, it is read as such. ``${NAME}`` stays a reference
    to a variable, for the settings file.

    Args:
        texts: what was given.
        model: of the plugin's settings; ``None`` if it tells of none.
        hint: the option that they were given with.

    Raises:
        click.BadParameter: no ``=``, a key twice or unknown, or a value that is none.
    """
    options: dict[str, Any] = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise click.BadParameter("write KEY=VALUE", param_hint=hint)
        if key in options:
            raise click.BadParameter(f"{key} stands there twice", param_hint=hint)
        if model is None or "${" in value:
            options[key] = value
            continue
        field = model.model_fields.get(key)
        if field is None:
            near = meant(key, model.model_fields)
            raise click.BadParameter(f"there is no setting {key!r}{near}", param_hint=hint)
        try:
            options[key] = _typed(field, value)
        except ValidationError as error:
            found = error.errors(include_url=False, include_input=False)
            reason = reason_of(found[0], None)
            raise click.BadParameter(f"{key}: {reason}", param_hint=hint) from error
    return options


def _typed(field: FieldInfo, value: str) -> str | int | float:
    """What the settings file is to hold; raises ``ValidationError`` for what is no such number.

    All else, such as sizes and words of a choice, is read from text as it was written.
    """
    kind: Any = field.annotation
    kinds = set(get_args(kind) or (kind,))
    if not kinds - {NoneType} <= {bool, int, float}:
        return value
    found: int | float = TypeAdapter(kind).validate_python(value)
    return found
