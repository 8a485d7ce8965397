"""The verbs of ``collection`` that tidy up, look inside, and check."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from datetime import UTC, datetime

import click

from siltstone.cli.collection_changes import changing
from siltstone.cli.findings import tell_finding, tell_found
from siltstone.cli.output import print_json, print_table, say, share_bar
from siltstone.cli.session import Session, dry_run_option, json_option, pass_session
from siltstone.core.text import counted


@click.command()
@click.argument("collections", nargs=-1, required=True)
@json_option
@pass_session
def compact(session: Session, collections: tuple[str, ...], *, as_json: bool) -> None:
    """Merge all batches of COLLECTIONS into one each, which is sorted and read fastest."""
    with changing(session) as opened:
        for name in collections:
            target = opened.collection(name)
            with share_bar(name, shown=not session.quiet) as advance:
                target.compact(progress=advance)
            info = target.info()
            if as_json:
                fields = {"rows": info.rows, "length": info.length, "parts": info.parts}
                print_json({"collection": name, **fields})
            else:
                size = f"{counted(info.rows, 'row')} of {counted(info.length, 'byte')}"
                say(f"{name}: {size} in {counted(info.parts, 'part')}")


@click.command()
@click.argument("collections", nargs=-1)
@json_option
@pass_session
def space(session: Session, collections: tuple[str, ...], *, as_json: bool) -> None:
    """Show what COLLECTIONS, or all, use of long-term storage, garbage that waits included.

    Dropped ones, and those without a name, are shown by their ids.
    """
    with session.open_collections(reads=True) as opened:
        found = opened.space(collections)
    if as_json:
        for one in found:
            print_json({**asdict(one), "length": one.length})
        return
    print_table(
        ("COLLECTION", "OBJECTS", "BYTES", "ENTRIES", "ROLLUPS", "PARTS", "OTHERS"),
        (
            (
                one.id if one.name is None else one.name,
                one.objects,
                one.length,
                one.entry_bytes,
                one.rollup_bytes,
                one.part_bytes,
                one.other_bytes,
            )
            for one in found
        ),
    )
    total = counted(sum(one.length for one in found), "byte")
    session.note(f"{counted(sum(one.objects for one in found), 'object')}, {total}")


@click.command()
@click.argument("collections", nargs=-1)
@dry_run_option
@json_option
@pass_session
def gc(session: Session, collections: tuple[str, ...], *, dry_run: bool, as_json: bool) -> None:
    """Delete what nothing needs any more, of COLLECTIONS or of all, dropped ones too.

    Rows that a compaction replaced stay for garbage.delay, and as long as readers hold them.
    """
    # What an owner would delete can be seen without being it.
    with session.open_collections(reads=True) if dry_run else changing(session) as opened:
        if collections:
            targets = [opened.collection(name) for name in collections]
            count = sum(target.collect(dry_run=dry_run) for target in targets)
        else:
            count = opened.collect(dry_run=dry_run)
    if as_json:
        print_json({"would_delete" if dry_run else "deleted": count})
    else:
        say(f"{'would delete' if dry_run else 'deleted'} {counted(count, 'object')}")


@click.command()
@click.argument("collections", nargs=-1)
@click.option(
    "--nameless",
    is_flag=True,
    help="Also drop collections that have no name in the catalog.",
)
@dry_run_option
@json_option
@pass_session
def sweep(
    session: Session,
    collections: tuple[str, ...],
    *,
    nameless: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Delete what processes that died left, of COLLECTIONS or of all. Foreign names stay."""
    if nameless and collections:
        raise click.UsageError("--nameless goes without COLLECTIONS: it looks at all")
    if dry_run:
        _tell_leftovers(session, collections, nameless=nameless, as_json=as_json)
        return
    with changing(session) as opened:
        if collections:
            count = sum(opened.collection(name).sweep() for name in collections)
        else:
            count = opened.sweep(nameless=nameless)
    if as_json:
        print_json({"deleted": count})
    else:
        say(f"deleted {counted(count, 'object')}")


def _tell_leftovers(
    session: Session, collections: tuple[str, ...], *, nameless: bool, as_json: bool
) -> None:
    with session.open_collections(reads=True) as opened:
        found = list(opened.check(collections))
    doomed = [one for one in found if one.severity == "garbage"]
    if nameless:
        doomed += [one for one in found if one.message.startswith("it has no name")]
    for finding in doomed:
        if as_json:
            print_json({"would_delete": finding.where})
        else:
            say(f"would delete {finding.where}: {finding.message}")
    session.note(f"{counted(len(doomed), 'object')} would go")


@click.command()
@click.argument("collections", nargs=-1, required=True)
@json_option
@pass_session
def upgrade(session: Session, collections: tuple[str, ...], *, as_json: bool) -> None:
    """Raise the format of COLLECTIONS to the newest that this release writes.

    Older releases refuse them from then on. Nothing else raises it.
    """
    with changing(session) as opened:
        for name in collections:
            number = opened.collection(name).upgrade()
            if as_json:
                print_json({"collection": name, "format": number})
            else:
                say(f"{name}: format {number}")


@click.command()
@click.argument("collection")
@click.option("--from", "start", type=click.IntRange(min=1), help="Number of the first entry.")
@click.option("--limit", type=click.IntRange(min=1), help="Most entries, the newest ones.")
@json_option
@pass_session
def entries(
    session: Session, collection: str, start: int | None, limit: int | None, *, as_json: bool
) -> None:
    """Show the changes of COLLECTION that are kept: number, time, what they changed, and who.

    Older ones are deleted as the collection is written on. What it shows may change.
    """
    with session.open_collections(reads=True) as opened:
        found = opened.collection(collection).entries()
    chosen = [entry for entry in found if entry.seqno >= (start or 0)]
    for entry in chosen[-limit:] if limit else chosen:
        if as_json:
            print_json(entry)
            continue
        time = datetime.fromtimestamp(entry.written_ms / 1000, UTC)
        say(f"{entry.seqno} {time.isoformat(' ', 'milliseconds')} {entry.actor}")
        for change in entry.changes:
            say(f"  {change}")


@click.command()
@click.argument("collections", nargs=-1)
@click.option("--deep", is_flag=True, help="Read every object and compare it with its sum.")
@json_option
@pass_session
def check(session: Session, collections: tuple[str, ...], *, deep: bool, as_json: bool) -> None:
    """Compare COLLECTIONS, or all, with long-term storage, both ways. Exits with 6 on damage.

    Without --deep only presence and lengths of objects are looked at.
    """
    counts: Counter[str] = Counter()
    with (
        session.open_collections(reads=True) as opened,
        share_bar("check", shown=not session.quiet) as advance,
    ):
        for finding in opened.check(collections, deep=deep, progress=advance):
            tell_finding(finding, counts, as_json=as_json)
    tell_found(session, counts, deep=deep, as_json=as_json)
