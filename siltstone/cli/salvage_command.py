"""The verb ``salvage``."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from siltstone.cli.exit_codes import ExitCode
from siltstone.cli.left_out import tell_left_out
from siltstone.cli.output import print_json, print_table
from siltstone.cli.path_text import PathText
from siltstone.cli.session import Session, json_option, pass_session
from siltstone.core.records.retention_row import RetentionScope
from siltstone.core.text import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siltstone.migration.salvage import LeftOut, SalvagedSegment, SalvagedTable, SalvageReport


@click.command()
@click.option(
    "--into",
    type=PathText(path_type=Path),
    metavar="PATH",
    help="Bring what there is into this store; without it only look.",
)
@json_option
@pass_session
def salvage(session: Session, into: Path | None, *, as_json: bool) -> None:
    """Say what chunks alone give back, and bring it into a new store.

    For a store that recover cannot build any more, or not as of its end. Each segment and table
    is called exact, prefix or guessed. The older store is only read. Exits with 6 unless all are
    exact.
    """
    # Imported here, so that help and completion do not wait for what only a store needs.
    from siltstone.migration.salvage import salvage_store

    report = salvage_store(session.store_path(), into)
    if as_json:
        for segment in report.segments:
            print_json(_fields(segment))
        for table in report.tables:
            print_json(_table_fields(table))
    else:
        print_table(
            ("SEGMENT", "VERDICT", "START", "END", "PROVEN", "MISSING", "WHY"),
            (
                (
                    segment.name,
                    segment.verdict.value,
                    segment.start_offset,
                    segment.end,
                    "-" if segment.proven is None else segment.proven,
                    sum(one.length for one in segment.missing),
                    "; ".join(segment.why),
                )
                for segment in report.segments
            ),
        )
        if report.tables:
            _show_tables(report.tables)
    _show_left_out(session, report, as_json=as_json)
    for container, doubts in report.doubts.items():
        for doubt in doubts:
            session.note(f"siltstone: container {container}: {doubt}")
    if report.has_left_collections:
        tell_left_out("salvage")
    if into is not None:
        written = counted(report.copied, "byte")
        session.note(f"siltstone: there: {counted(report.done, 'segment')}; written: {written}")
    verdicts = {segment.verdict for segment in report.segments}
    verdicts.update(table.verdict for table in report.tables)
    if verdicts - {"exact"}:
        raise click.exceptions.Exit(ExitCode.DAMAGE)


def _show_left_out(session: Session, report: SalvageReport, *, as_json: bool) -> None:
    told = {one.container for one in report.left_out}
    for container in sorted(report.doubts.keys() - told):
        session.note(
            f"siltstone: container {container}: its retention rules and the numbers of its writers "
            f"are lost"
        )
    for one in report.left_out:
        if not (one.rules or one.writers):
            continue
        proof = "" if one.proven else ", as they were in an older state"
        session.note(
            f"siltstone: container {one.container}: not brought: "
            f"{counted(len(one.rules), 'retention rule')}, "
            f"the numbers of {counted(len(one.writers), 'writer')}{proof}; --json tells them"
        )
        if as_json:
            print_json(_left_out_fields(one))


def _left_out_fields(one: LeftOut) -> dict[str, Any]:
    return {
        "left_out": {
            "retention": [
                {
                    "prefix" if rule.scope is RetentionScope.PREFIX else "segment": rule.name,
                    "bytes_max": rule.bytes_max,
                    "age_max_ms": rule.age_max_ms,
                }
                for rule in one.rules
            ],
            "writers": [
                {"segment": segment, "writer": writer, "sequence": sequence}
                for segment, writer, sequence in one.writers
            ],
        },
        "container": one.container,
        "proven": one.proven,
    }


def _show_tables(tables: Sequence[SalvagedTable]) -> None:
    print_table(
        ("TABLE", "VERDICT", "KEYS", "VERSION", "PROVEN", "WHY"),
        (
            (
                table.name,
                table.verdict.value,
                table.keys,
                table.version,
                "-" if table.proven is None else table.proven,
                "; ".join(table.why),
            )
            for table in tables
        ),
    )


def _table_fields(table: SalvagedTable) -> dict[str, Any]:
    return {
        "table": table.name,
        "container": table.container,
        "verdict": table.verdict.value,
        "keys": table.keys,
        "version": table.version,
        "proven": table.proven,
        "why": list(table.why),
        "targets": [table.target],
    }


def _fields(segment: SalvagedSegment) -> dict[str, Any]:
    return {
        "segment": segment.name,
        "container": segment.container,
        "verdict": segment.verdict.value,
        "start_offset": segment.start_offset,
        "end": segment.end,
        "proven": segment.proven,
        "ranges": [{"offset": offset, "length": length} for offset, length in segment.ranges],
        "missing": [dataclasses.asdict(one) for one in segment.missing],
        "why": list(segment.why),
        "targets": [target.name for target in segment.targets],
        "attributes": segment.attributes,
        "attributes_proven": segment.attributes_proven,
    }
