"""The options that every verb knows, before its name or after it: which store, and how to tell."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, Final

import click

from siltstone.cli.log_output import LOG_VARIABLE, logs_shown
from siltstone.cli.path_text import PathText
from siltstone.cli.session import STORE_VARIABLE, Session

_STORE_HELP: Final = (
    f"Settings file, its folder, or a URL such as s3://BUCKET/PREFIX; else ${STORE_VARIABLE}, "
    "else ./siltstone.yaml."
)


def _change(context: click.Context, **changes: Any) -> None:
    """Change the session of this verb, and of the groups above it, which tell how it ended."""
    node: click.Context | None = context
    while node is not None:
        if isinstance(node.obj, Session):
            node.obj = replace(node.obj, **changes)
        node = node.parent


def _keep_store(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        _change(context, store=value)


def _keep_quiet(context: click.Context, parameter: click.Parameter, *, value: bool) -> None:
    if value:
        _change(context, quiet=True)


def _keep_verbosity(context: click.Context, parameter: click.Parameter, value: int) -> None:
    session = context.find_object(Session)
    if session is not None and (value or context.parent is None):
        verbosity = session.verbosity + value
        _change(context, verbosity=verbosity)
        wanted = os.environ.get(LOG_VARIABLE)
        context.find_root().with_resource(logs_shown(verbosity, wanted))


def _keep_json(context: click.Context, parameter: click.Parameter, *, value: bool) -> None:
    if value:
        _change(context, as_json=True)


def _options() -> list[click.Option]:
    return [
        click.Option(
            ["--store"],
            type=PathText(),
            metavar="STORE",
            expose_value=False,
            callback=_keep_store,
            help=_STORE_HELP,
        ),
        click.Option(
            ["-q", "--quiet"],
            is_flag=True,
            expose_value=False,
            callback=lambda context, parameter, value: _keep_quiet(context, parameter, value=value),
            help="No progress bars, no notes.",
        ),
        click.Option(
            ["-v", "--verbose"],
            count=True,
            expose_value=False,
            callback=_keep_verbosity,
            help="Show tracebacks and the log; -vv shows each call to long-term storage too.",
        ),
    ]


def _json_option() -> click.Option:
    return click.Option(
        ["--json"],
        is_flag=True,
        expose_value=False,
        callback=lambda context, parameter, value: _keep_json(context, parameter, value=value),
        help="Write JSON, one value a line.",
    )


def add_common_options(command: click.Command) -> None:
    """Let ``command``, and every verb below it, take the common options.

    A verb that writes JSON has an option for it already, which asks the session too.
    """
    taken = {name for parameter in command.params for name in parameter.opts}
    added = _options() if "--json" in taken else [_json_option(), *_options()]
    command.params.extend(added)
    if isinstance(command, click.Group):
        for verb in command.commands.values():
            add_common_options(verb)


def add_common_options_to_root(command: click.Command) -> None:
    """Let the root command take the common options; its verbs get theirs when they are loaded."""
    command.params.extend([_json_option(), *_options()])
