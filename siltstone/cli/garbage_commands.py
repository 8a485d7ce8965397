"""The verbs of ``gc``: what waits to be deleted, and the search for what nothing names."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from siltstone.cli.listed_verbs import ListedVerbs
from siltstone.cli.output import print_json, print_table, say
from siltstone.cli.session import (
    Session,
    dry_run_option,
    json_option,
    pass_session,
    takeover_option,
)
from siltstone.core.text import counted

if TYPE_CHECKING:
    from siltstone.store.store import Store


@click.group(cls=ListedVerbs)
def gc() -> None:
    """Garbage: chunks that nothing names any more."""


@gc.command()
@json_option
@pass_session
def status(session: Session, *, as_json: bool) -> None:
    """Show what waits to be deleted, and what for. Changes nothing."""
    with session.open_reader() as store:
        found = store.garbage()
    if as_json:
        for one in found:
            print_json(one)
        return
    print_table(
        ("CONTAINER", "DUE", "DELAYED", "NOT COVERED", "HELD", "KEPT", "FAILED"),
        (
            (
                one.container,
                one.due,
                one.delayed,
                one.uncovered,
                one.held,
                one.kept,
                one.failed_count,
            )
            for one in found
        ),
    )
    for one in found:
        for pin in one.pins:
            until = datetime.fromtimestamp(pin.expires_ms / 1000, UTC).isoformat(" ", "seconds")
            say(f"{pin.name} holds {pin.holds} until {until}: version {pin.version}")
        for failed in one.failed:
            say(f"failed {counted(failed.attempts, 'time')}: {failed.chunk}: {failed.reason}")


@gc.command()
@dry_run_option
@json_option
@takeover_option
@pass_session
def run(session: Session, *, dry_run: bool, as_json: bool, takeover: bool) -> None:
    """Delete now what is due and allowed."""
    with session.open_changing(takeover=takeover, dry_run=dry_run) as store:
        if not dry_run:
            _collect(session, store, as_json=as_json)
            return
        due = sum(one.due for one in store.garbage())
    if as_json:
        print_json({"would_run": due})
    else:
        say(f"would carry out {counted(due, 'task')}")


@gc.command()
@dry_run_option
@json_option
@takeover_option
@pass_session
def replay(session: Session, *, dry_run: bool, as_json: bool, takeover: bool) -> None:
    """Give deletions that failed too often new attempts."""
    with session.open_changing(takeover=takeover, dry_run=dry_run) as store:
        if dry_run:
            count = sum(one.failed_count for one in store.garbage())
        else:
            count = store.replay_garbage()
    if dry_run:
        if as_json:
            print_json({"would_replay": count})
        else:
            say(f"{counted(count, 'deletion')} would be tried again")
        return
    if as_json:
        print_json({"replayed": count})
    else:
        say(f"{counted(count, 'deletion')} will be tried again")


@gc.command()
@click.option("--delete", is_flag=True, help="Delete what was found; else it is only listed.")
@click.option("--dry-run", is_flag=True, help="Only list, as without --delete.")
@click.option("--all", "all_epochs", is_flag=True, help="Look into epochs found clean long ago.")
@json_option
@takeover_option
@pass_session
def sweep(
    session: Session,
    *,
    delete: bool,
    dry_run: bool,
    all_epochs: bool,
    as_json: bool,
    takeover: bool,
) -> None:
    """Look for chunks that nothing names, and for foreign names, which are never touched."""
    if dry_run and delete:
        raise click.UsageError("--delete and --dry-run exclude each other")
    if takeover and not delete:
        raise click.UsageError("--takeover needs --delete: without it nothing is claimed")
    opened = session.open_owner(takeover=takeover) if delete else session.open_reader()
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    with opened as store:
        for finding in store.sweep(delete=delete, all_epochs=all_epochs):
            counts[finding.kind] += 1
            sizes[finding.kind] += finding.length
            if as_json:
                print_json(finding)
            else:
                say(f"{finding.kind}: {finding.name}: {finding.reason}")
        for kind, count in sorted(counts.items()):
            session.note(f"{kind}: {counted(count, 'name')}, {counted(sizes[kind], 'byte')}")
        if not counts:
            session.note("nothing is there that nothing names")
        if delete:
            _collect(session, store, as_json=as_json)


def _collect(session: Session, store: Store, *, as_json: bool) -> None:
    count = store.collect()
    if as_json:
        print_json({"deleted": count})
    else:
        say(f"deleted {counted(count, 'chunk')}")
    left = sum(one.due + one.delayed + one.uncovered + one.held for one in store.garbage())
    if left:
        session.note(f"{counted(left, 'task')} left; siltstone gc status tells what for")
