"""The verb ``check``."""

from __future__ import annotations

import click

from siltstone.cli.exit_codes import ExitCode
from siltstone.cli.output import print_json
from siltstone.cli.session import Session, json_option, pass_session


@click.command()
@json_option
@pass_session
def check(session: Session, *, as_json: bool) -> None:
    """Read every chunk and compare it with its checksums. Exits with 6 on damage."""
    counts: dict[str, int] = {}
    with session.open_reader() as store:
        for finding in store.check():
            counts[finding.severity] = counts.get(finding.severity, 0) + 1
            if as_json:
                print_json(finding)
            else:
                click.echo(f"{finding.severity}: {finding.where}: {finding.message}")
    damaged = counts.get("damage", 0)
    if not as_json:
        found = ", ".join(f"{count} {severity}" for severity, count in sorted(counts.items()))
        session.note(f"found {found}" if found else "everything is as it was written")
    if damaged:
        raise click.exceptions.Exit(ExitCode.DAMAGE)
