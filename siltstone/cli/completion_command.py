"""The verb ``completion``."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from siltstone.cli.output import print_json
from siltstone.cli.session import json_option

SHELLS = ("bash", "fish", "zsh")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@json_option
@click.pass_context
def completion(context: click.Context, shell: str, *, as_json: bool) -> None:
    """Print what lets SHELL complete this command; source it in the shell's start file."""
    kind = get_completion_class(shell)
    assert kind is not None, "click knows the shells that are offered"
    root = context.find_root()
    script = kind(root.command, {}, "siltstone", "_SILTSTONE_COMPLETE").source()
    if as_json:
        print_json({"shell": shell, "script": script})
    else:
        click.echo(script)
