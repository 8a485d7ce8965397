"""What verbs about backups share: the place that has them, and which one of it."""

from __future__ import annotations

from pathlib import Path

import click

from siltstone.cli.path_text import PathText

PLACE = click.argument("place", type=PathText(path_type=Path))
TURN = click.option(
    "--takeover", is_flag=True, help="Continue although another process works in PLACE."
)
GENERATION = click.option(
    "--generation", type=click.IntRange(min=1), help="Which one; the newest by default."
)
GENERATIONS = click.argument("generations", nargs=-1, type=click.IntRange(min=1))
