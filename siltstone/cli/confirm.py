"""The question before something goes for ever."""

from __future__ import annotations

import sys

import click

from siltstone.cli.exit_codes import ExitCode
from siltstone.cli.output import say


def ask(question: str, *, refused: str) -> None:
    """Ask a person, who says yes or ends the verb; ``refused`` is told then.

    Raises:
        click.UsageError: there is no terminal.
    """
    if not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask on: give --yes")
    if not click.confirm(question, err=True):
        say(refused, err=True)
        raise click.exceptions.Exit(ExitCode.FAILED)
