"""The verbs of ``settings``: what the settings file says, and whether it is right."""

from __future__ import annotations

import click

from siltstone.cli.exit_codes import ExitCode
from siltstone.cli.listed_verbs import ListedVerbs
from siltstone.cli.output import print_json, print_table, say
from siltstone.cli.session import Session, json_option, pass_session


@click.group(cls=ListedVerbs)
def settings() -> None:
    """The settings file of the store. These verbs ask no service, and open nothing."""


@settings.command()
@json_option
@pass_session
def show(session: Session, *, as_json: bool) -> None:
    """Show every setting in force, defaults too, with the line that says so. No secret is shown."""
    from siltstone.store.settings.settings_views import shown_settings

    found = list(shown_settings(session.store_path()))
    if as_json:
        for one in found:
            print_json(one)
        return
    print_table(
        ("KEY", "VALUE", "FROM"),
        (
            (
                one.key,
                _text(one.value),
                "default" if one.line is None else f"line {one.line}",
            )
            for one in found
        ),
    )


@settings.command()
@json_option
@pass_session
def check(session: Session, *, as_json: bool) -> None:
    """Look for mistakes in the settings file, and tell all of them. Exits with 2 if there are any.

    Whether the service that it names answers is what siltstone doctor looks at.
    """
    from siltstone.store.settings.settings_views import settings_errors

    found = settings_errors(session.store_path())
    for error in found:
        if as_json:
            print_json({"error": str(error)})
        else:
            say(str(error))
    if found:
        raise click.exceptions.Exit(ExitCode.USAGE)
    session.note("the settings are right; siltstone doctor looks at what they name")


def _text(value: str | float | None) -> str:
    if value is None:
        return "-"
    return str(value).lower() if isinstance(value, bool) else str(value)
