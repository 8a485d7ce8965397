"""The verb ``doctor``."""

from __future__ import annotations

import click

from siltstone.cli.exit_codes import ExitCode
from siltstone.cli.output import print_json
from siltstone.cli.session import Session, json_option, pass_session


@click.command()
@json_option
@pass_session
def doctor(session: Session, *, as_json: bool) -> None:
    """Probe what the store needs: long-term storage, clock, tier 1, free space, leftovers.

    Makes some chunks below system/doctor/ and deletes them again; claims nothing. Exits with 1 if
    anything failed.
    """
    # Imported here, so that help and completion do not wait for what only a store needs.
    from siltstone.store.doctor import diagnose

    failed = 0
    for probe in diagnose(session.store_path()):
        failed += probe.outcome == "failed"
        if as_json:
            print_json(probe)
        else:
            click.echo(f"{probe.outcome:<8} {probe.area}: {probe.name}: {probe.detail}")
    if failed:
        session.note(f"{failed} probes failed")
        raise click.exceptions.Exit(ExitCode.FAILED)
