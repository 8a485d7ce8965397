"""Paths as people write them: an empty one is a variable that was not set."""

from __future__ import annotations

from typing import Any

import click


class PathText(click.Path):
    """A path, as ``click.Path`` checks it. Empty text is refused: it would be this folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return what ``click.Path`` makes of it."""
        if value == "":
            self.fail("the path is empty", param, ctx)
        return super().convert(value, param, ctx)
