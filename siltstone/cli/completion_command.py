"""The verb ``completion``."""

from __future__ import annotations

import click

from siltstone.cli.completion import SHELLS, script_for
from siltstone.cli.output import print_json
from siltstone.cli.session import json_option


@click.command()
@click.argument("shell", type=click.Choice(tuple(SHELLS)))
@json_option
@click.pass_context
def completion(context: click.Context, shell: str, *, as_json: bool) -> None:
    """Print what lets SHELL complete this command; source it in the shell's start file."""
    script = script_for(shell, context.find_root().command)
    if as_json:
        print_json({"shell": shell, "script": script})
    else:
        click.echo(script)
