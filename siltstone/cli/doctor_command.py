"""The verb ``doctor``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from siltstone.cli.collection_look import collection_damage, collection_warnings
from siltstone.cli.exit_codes import ExitCode
from siltstone.cli.output import print_json, say
from siltstone.cli.session import Session, json_option, pass_session
from siltstone.core.errors import SiltstoneError
from siltstone.core.packages import install_hint
from siltstone.core.text import counted

if TYPE_CHECKING:
    from siltstone.container.models.segments import Finding
    from siltstone.store.admin.storage_probes import Probe


DAMAGE_SHOWN = 20
"""Probes of damage: beyond these, a person needs the check."""

NEEDED = ("pytest", "hypothesis")
"""What the suite needs, and the extra ``testing`` brings."""


@click.command()
@click.option(
    "--conformance",
    is_flag=True,
    help="Instead run the whole suite of bindings on long-term storage; needs siltstone[testing].",
)
@click.option(
    "--only", default="", metavar="WORDS", help="With --conformance: checks with such names."
)
@json_option
@pass_session
def doctor(session: Session, *, conformance: bool, only: str, as_json: bool) -> None:
    """Probe what the store needs: storage, clock, tier 1, whether it opens, space, collections.

    Makes some chunks below system/doctor/ and deletes them again; claims nothing. Exits with 1 if
    anything failed.
    """
    failed = 0

    def tell(probe: Probe) -> None:
        nonlocal failed
        failed += probe.outcome == "failed"
        if as_json:
            print_json(probe)
        else:
            say(f"{probe.outcome:<8} {probe.area}: {probe.name}: {probe.detail}")

    if only and not conformance:
        raise click.UsageError("--only goes with --conformance")
    if conformance:
        _conformance(session.store_path(), tell, only)
    else:
        # Imported here, so that help and completion do not wait for what only a store needs.
        from siltstone.store.admin.doctor import diagnose

        for probe in diagnose(session.store_path()):
            tell(probe)
        for probe in _collections(session):
            tell(probe)
    if failed:
        session.note(f"{counted(failed, 'probe')} failed")
        raise click.exceptions.Exit(ExitCode.FAILED)


def _collections(session: Session) -> Iterator[Probe]:
    """Whether collections need attention, or lack objects."""
    from siltstone.store.admin.storage_probes import Probe

    warnings = collection_warnings(session)
    damage: list[Finding] = []
    if isinstance(warnings, list):
        try:
            damage = collection_damage(session)
        except (SiltstoneError, OSError) as error:
            warnings = str(error)
    for finding in damage[:DAMAGE_SHOWN]:
        detail = finding.message
        yield Probe(area="collections", name=finding.where, outcome="failed", detail=detail)
    if len(damage) > DAMAGE_SHOWN:
        detail = f"{counted(len(damage), 'object')} damaged; collection check names all"
        yield Probe(area="collections", name="all", outcome="failed", detail=detail)
    if isinstance(warnings, str):
        yield Probe(area="collections", name="all", outcome="warning", detail=warnings)
    elif not warnings and not damage:
        detail = "none" if warnings is None else "nothing to look at"
        yield Probe(area="collections", name="all", outcome="ok", detail=detail)
    else:
        for one in warnings or ():
            yield Probe(
                area="collections", name=one.collection, outcome="warning", detail=one.message
            )


def _conformance(path: Path, tell: Callable[[Probe], None], only: str) -> None:
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise click.ClickException(
            f"--conformance needs {' and '.join(missing)}; try: {install_hint('testing')}"
        )
    from siltstone.store.admin.conformance import check_conformance

    check_conformance(path, tell, only)
