"""How verbs that check tell what they find."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import click

from siltstone.cli.exit_codes import ExitCode
from siltstone.cli.output import print_json, say
from siltstone.cli.session import Session

if TYPE_CHECKING:
    from siltstone.container.models.segments import Finding

SEVERITIES: Final = ("damage", "garbage", "warning")


def tell_finding(finding: Finding, counts: Counter[str], *, as_json: bool) -> None:
    """Count what was found, by its severity, and say it."""
    counts[finding.severity] += 1
    if as_json:
        print_json(finding)
    else:
        say(f"{finding.severity}: {finding.where}: {finding.message}")


def tell_found(session: Session, counts: Counter[str], *, deep: bool, as_json: bool) -> None:
    """Say how much was found, and end with 6 if some of it is damage."""
    if as_json:
        print_json({"found": {kind: counts[kind] for kind in SEVERITIES}, "deep": deep})
    else:
        found = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
        session.note(f"found {found}" if found else _clean(deep=deep))
    if counts["damage"]:
        raise click.exceptions.Exit(ExitCode.DAMAGE)


def _clean(*, deep: bool) -> str:
    if deep:
        return "everything is as it was written"
    return "everything is there; --deep also reads it"
