"""The verbs of ``backup``: making, listing, checking, restoring and removing backups."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from siltstone.cli.backup_place import GENERATION, GENERATIONS, PLACE, TURN
from siltstone.cli.exit_codes import ExitCode
from siltstone.cli.interrupts import goes_on, tells_done
from siltstone.cli.left_out import tell_left_by_backup, tell_left_out
from siltstone.cli.listed_verbs import ListedVerbs
from siltstone.cli.moving_options import moving, on_options
from siltstone.cli.option_text import options_of
from siltstone.cli.output import print_json, print_table, say
from siltstone.cli.path_text import PathText
from siltstone.cli.session import Session, dry_run_option, json_option, pass_session
from siltstone.core.text import counted, uuid_text

if TYPE_CHECKING:
    from siltstone.core.records.backup import Backup
    from siltstone.migration.backup.create import BackupReport
    from siltstone.migration.backup.place import FoundGeneration
    from siltstone.migration.backup.restore import RestoreReport
    from siltstone.migration.backup.verify import VerifyReport
    from siltstone.store.site import Site

F = TypeVar("F", bound=Callable[..., Any])

OF = click.option("--of", metavar="UUID", help="Which store, if PLACE has backups of several.")


def _new_store_options(verb: F) -> F:
    """Where a new store lies; the verb gets what ``_site_from`` takes out of a dictionary."""
    for option in (
        click.option(
            "--log-option",
            "log_options",
            multiple=True,
            metavar="KEY=VALUE",
            help="A setting of the log, as for init.",
        ),
        click.option("--log", default="file", show_default=True, help="Tier-1 log."),
        click.option(
            "--option",
            "options",
            multiple=True,
            metavar="KEY=VALUE",
            help="A setting of the binding, as for init.",
        ),
        click.option(
            "--binding", default="nfs", show_default=True, help="Binding of long-term storage."
        ),
    ):
        verb = option(verb)
    return verb


@click.group(cls=ListedVerbs)
def backup() -> None:
    """Backups of a store, made while its owner runs; PLACE is a folder or a settings file."""


@backup.command()
@PLACE
@click.option(
    "--container",
    "containers",
    type=click.IntRange(min=0),
    multiple=True,
    help="Only this one; may stand several times.",
)
@click.option(
    "--allow-missing",
    is_flag=True,
    help="Continue when chunks of the store are damaged; the backup says which ones it lacks.",
)
@TURN
@on_options
@json_option
@pass_session
@goes_on()
def create(
    session: Session,
    /,
    place: Path,
    containers: tuple[int, ...],
    *,
    allow_missing: bool,
    takeover: bool,
    rate: int | None,
    as_json: bool,
    **choice: Any,
) -> None:
    """Make a backup in PLACE of all that is acknowledged now; copy what PLACE lacks.

    Run it again when it was interrupted: it continues.
    """
    from siltstone.migration.backup.create import create_backup

    with moving(session, "backup", **choice) as (executor, progress):
        report = create_backup(
            session.store_path(),
            place,
            containers=containers or None,
            executor=executor,
            rate=rate,
            allow_missing=allow_missing,
            takeover=takeover,
            progress=progress,
        )
    _tell_backup(report, as_json=as_json)


def _tell_backup(report: BackupReport, *, as_json: bool) -> None:
    """Say what a backup copied and what it lacks, and end as that asks."""
    if as_json:
        print_json(
            {
                **_backup_facts(report.backup),
                "copied_fragments": report.copied_fragments,
                "copied_bytes": report.copied_bytes,
                "found_fragments": report.found_fragments,
                "copied_files": report.copied_files,
                "copied_file_bytes": report.copied_file_bytes,
                "missing_chunks": report.missing,
            }
        )
    else:
        say(
            f"generation {report.backup.generation}: copied "
            f"{counted(report.copied_fragments, 'fragment')} of chunks, "
            f"{counted(report.copied_bytes, 'byte')}, and {counted(report.copied_files, 'file')}, "
            f"{counted(report.copied_file_bytes, 'byte')}"
        )
        for name, reason in report.missing.items():
            say(f"missing: {name}: {reason}")
    if report.has_left_collections:
        tell_left_out("backup")
    if report.missing:
        raise click.exceptions.Exit(ExitCode.DAMAGE)


@backup.command(name="list")
@PLACE
@OF
@json_option
@pass_session
def list_generations(session: Session, place: Path, of: str | None, *, as_json: bool) -> None:
    """Show the generations that are whole, the oldest first."""
    from siltstone.migration.backup.admin import list_backups

    found = list_backups(place, of)
    if as_json:
        for one in found:
            facts = {} if one.backup is None else _backup_facts(one.backup)
            damage = [record.text for record in one.damage]
            print_json({"generation": one.number, **facts, "damage": damage})
    else:
        print_table(
            ("GENERATION", "MADE", "CONTAINERS", "SEGMENTS", "CHUNKS", "BYTES", "MISSING"),
            (_row(one) for one in found),
        )
        for one in found:
            for record in one.damage:
                say(f"generation {one.number}: {record.text}")
    if any(one.damage for one in found):
        raise click.exceptions.Exit(ExitCode.DAMAGE)


@backup.command()
@PLACE
@GENERATIONS
@OF
@on_options
@json_option
@pass_session
def verify(
    session: Session,
    /,
    place: Path,
    generations: tuple[int, ...],
    of: str | None,
    *,
    rate: int | None,
    as_json: bool,
    **choice: Any,
) -> None:
    """Read every byte of GENERATIONS, or of all, and compare it with its checksum.

    Exits with 6 when something is damaged, missing or absent.
    """
    from siltstone.migration.backup.verify import verify_backups

    with moving(session, "verify", **choice) as (executor, progress):
        report = verify_backups(
            place, generations or None, of, executor=executor, rate=rate, progress=progress
        )
    _tell_verified(session, report, as_json=as_json)


def _tell_verified(session: Session, report: VerifyReport, *, as_json: bool) -> None:
    """Say what is wrong with backups, and end as that asks."""
    from siltstone.pipelines.work import FAILED

    for finding in report.findings:
        if as_json:
            print_json(finding)
        else:
            numbers = ", ".join(map(str, finding.generations))
            text = f"{finding.status}: {finding.subject}: generation {numbers}: {finding.message}"
            say(text)
    session.note(
        f"verify: {counted(len(report.generations), 'generation')}, "
        f"{counted(report.objects, 'object')}, {counted(report.size, 'byte')}, "
        f"{counted(len(report.findings), 'finding')}"
    )
    statuses = {finding.status for finding in report.findings}
    if statuses - {FAILED}:
        raise click.exceptions.Exit(ExitCode.DAMAGE)
    if statuses:
        raise click.exceptions.Exit(ExitCode.FAILED)


@backup.command()
@PLACE
@click.argument("folder", type=PathText(path_type=Path))
@GENERATION
@OF
@_new_store_options
@click.option(
    "--allow-missing",
    is_flag=True,
    help="Restore what there is of a backup that lacks bytes; reads of these fail then.",
)
@on_options
@json_option
@pass_session
@goes_on()
def restore(
    session: Session,
    /,
    place: Path,
    folder: Path,
    generation: int | None,
    of: str | None,
    *,
    allow_missing: bool,
    rate: int | None,
    as_json: bool,
    **choice: Any,
) -> None:
    """Make a new store in FOLDER from a backup. Options are those of init.

    The store has another id, and its logs begin again. Run it again when it was interrupted. On
    Spark every worker needs FOLDER under the same path, for the settings file that is made in it.
    """
    from siltstone.migration.backup.restore import restore_backup

    site = _site_from(folder, choice)
    with moving(session, "restore", **choice) as (executor, progress):
        report = restore_backup(
            place,
            site,
            generation,
            of,
            executor=executor,
            rate=rate,
            allow_missing=allow_missing,
            progress=progress,
        )
    _tell_restored(report, as_json=as_json)


def _tell_restored(report: RestoreReport, *, as_json: bool) -> None:
    """Say what a restore brought and what it lacks, and end as that asks."""
    if as_json:
        print_json(
            {
                "settings": str(report.settings),
                **_backup_facts(report.backup),
                "brought_chunks": report.chunks,
                "brought_bytes": report.size,
                "found_chunks": report.found,
                "missing_chunks": report.missing,
            }
        )
    else:
        say(f"made a store of generation {report.backup.generation}: {report.settings}")
        for name, reason in report.missing.items():
            say(f"missing: {name}: {reason}")
    if report.backup.has_left_collections:
        tell_left_by_backup()
    if report.missing:
        raise click.exceptions.Exit(ExitCode.DAMAGE)


@backup.command()
@PLACE
@click.argument("generations", nargs=-1, required=True, type=click.IntRange(min=1))
@OF
@dry_run_option
@TURN
@json_option
@pass_session
def remove(
    session: Session,
    place: Path,
    generations: tuple[int, ...],
    of: str | None,
    *,
    dry_run: bool,
    takeover: bool,
    as_json: bool,
) -> None:
    """Forget GENERATIONS. What no other generation names goes with the next gc."""
    from siltstone.migration.backup.admin import remove_backups

    if takeover and dry_run:
        raise click.UsageError("--takeover and --dry-run exclude each other")
    with tells_done("removed") as removed:
        remove_backups(place, generations, of, dry_run=dry_run, takeover=takeover, progress=removed)
    if as_json:
        print_json({"would_remove" if dry_run else "removed": list(generations)})
    done = "would remove" if dry_run else "removed"
    session.note(f"{done} {counted(len(generations), 'generation')}; gc makes room")


@backup.command()
@PLACE
@OF
@click.option("--dry-run", is_flag=True, help="Only count.")
@TURN
@json_option
@pass_session
def gc(
    session: Session, place: Path, of: str | None, *, dry_run: bool, takeover: bool, as_json: bool
) -> None:
    """Delete what no generation names."""
    from siltstone.migration.backup.admin import collect_backups

    report = collect_backups(place, of, dry_run=dry_run, takeover=takeover)
    if as_json:
        print_json({"objects": report.count, "bytes": report.size, "deleted": not dry_run})
    else:
        done = "would delete" if dry_run else "deleted"
        say(f"{done} {counted(report.count, 'object')}, {counted(report.size, 'byte')}")


def _site_from(folder: Path, choice: dict[str, Any]) -> Site:
    """Where a new store lies, by what ``_new_store_options`` gave, which is taken out of it."""
    from siltstone.core.hooks import BINDINGS_GROUP, TIER1_GROUP, plugin_settings
    from siltstone.store.site import site_of

    model = plugin_settings(BINDINGS_GROUP, choice["binding"])
    log_model = plugin_settings(TIER1_GROUP, choice["log"])
    options, log_options = choice.pop("options"), choice.pop("log_options")
    return site_of(
        folder,
        binding=choice.pop("binding"),
        options=options_of(options, model) if options else None,
        log=choice.pop("log"),
        log_options=options_of(log_options, log_model, "--log-option") if log_options else None,
    )


def _backup_facts(backup: Backup) -> dict[str, object]:
    containers, found = backup.containers, backup.collections
    return {
        "store": uuid_text(backup.store_id),
        "generation": backup.generation,
        "begun_ms": backup.begun_ms,
        "containers": [container.container for container in containers],
        "segments": sum(container.segments for container in containers),
        "chunks": sum(container.chunks for container in containers),
        "chunk_bytes": sum(container.chunk_bytes for container in containers),
        "collections": found.count if found else 0,
        "collection_bytes": found.part_bytes if found else 0,
        "left_out": ["collections"] if backup.has_left_collections else [],
        "tail_bytes": sum(container.tail.length for container in containers),
        "missing": sum(container.missing for container in containers),
    }


def _row(found: FoundGeneration) -> tuple[object, ...]:
    backup = found.backup
    if backup is None:
        return (found.number, "damaged", "-", "-", "-", "-", "-")
    facts = _backup_facts(backup)
    made = datetime.fromtimestamp(backup.begun_ms / 1000, UTC).isoformat(" ", "seconds")
    count = f"{len(backup.containers)} of {backup.container_count}"
    rest = (facts[key] for key in ("segments", "chunks", "chunk_bytes", "missing"))
    return (found.number, made, count, *rest)
