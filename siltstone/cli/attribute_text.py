"""Attributes as they are written on a command line: ``KEY=VALUE``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click


class _Attribute(click.ParamType[tuple[str, str]]):
    name = "key=value"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """What help calls it."""
        return "KEY=VALUE"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Split the text at its first ``=``, which no key holds."""
        if isinstance(value, tuple):
            return value
        key, sign, text = str(value).partition("=")
        if not sign or not key:
            self.fail(f"{value!r} is not KEY=VALUE", param, ctx)
        return key, text


ATTRIBUTE: Final = _Attribute()


def attributes_of(given: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return attributes that were given one by one; none may be given twice."""
    found = dict(given)
    if len(found) < len(given):
        raise click.UsageError("an attribute was given twice")
    return found
