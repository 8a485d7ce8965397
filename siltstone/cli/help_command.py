"""The verb ``help``."""

from __future__ import annotations

import click

from siltstone.cli.output import print_json
from siltstone.cli.session import json_option


@click.command("help")
@click.argument("verbs", nargs=-1, metavar="[VERB]...")
@json_option
@click.pass_context
def help_(context: click.Context, verbs: tuple[str, ...], *, as_json: bool) -> None:
    """Show the help of VERB, such as ``table put``, or the list of verbs."""
    shown = context.find_root()
    for verb in verbs:
        group = shown.command
        if not isinstance(group, click.Group):
            raise click.UsageError(f"{shown.command_path} has no verbs of its own", ctx=shown)
        name, command, _ = group.resolve_command(shown, [verb])
        assert command is not None, "resolve_command raises when there is none"
        shown = click.Context(command, info_name=name, parent=shown)
    if as_json:
        print_json({"verb": shown.command_path, "help": shown.get_help()})
    else:
        click.echo(shown.get_help())
