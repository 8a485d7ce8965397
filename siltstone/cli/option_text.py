"""Settings of a plugin as they are given in a command."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click
import yaml


def options_of(texts: Iterable[str], hint: str = "--option") -> dict[str, Any]:
    """Return keys and values of ``KEY=VALUE``; a value means what it would in the settings file.

    Raises:
        click.BadParameter: no ``=``, a key twice, or a value that is none.
    """
    options: dict[str, Any] = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise click.BadParameter("write KEY=VALUE", param_hint=hint)
        if key in options:
            raise click.BadParameter(f"{key} stands there twice", param_hint=hint)
        try:
            options[key] = value if "${" in value else yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise click.BadParameter(
                f"the value of {key} can not be read", param_hint=hint
            ) from error
        if not isinstance(options[key], str | int | float):
            raise click.BadParameter(f"{key} has no plain value", param_hint=hint)
    return options
