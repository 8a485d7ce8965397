"""The verbs of ``objects`` about two keyspaces, of one store or of two: diff and sync."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from siltstone.cli.exit_codes import ExitCode
from siltstone.cli.interrupts import goes_on
from siltstone.cli.object_names import (
    base64_option,
    head_fields,
    name_fields,
    raw_or_none,
)
from siltstone.cli.output import print_json, say, share_bar
from siltstone.cli.path_text import PathText
from siltstone.cli.session import (
    Session,
    json_option,
    pass_session,
    recover_option,
    takeover_option,
)

if TYPE_CHECKING:
    from siltstone.objects import Difference, Keyspace, SyncReport
    from siltstone.objects.sync import Preference
    from siltstone.store.store import Store

F = TypeVar("F", bound=Callable[..., Any])


def _what_options(verb: F) -> F:
    """Which objects of which two keyspaces."""
    for option in (
        base64_option,
        click.option("--end", help="The key after the last."),
        click.option("--start", help="First key of the bucket."),
        click.option("--tag", help="Only this kind of objects; without it all, which both have."),
        click.option("--bucket", help="Only this one."),
        click.argument("name", metavar="[NAME]", required=False),
        click.argument("other", metavar="OTHER_STORE", type=PathText()),
        click.argument("keyspace"),
    ):
        verb = option(verb)
    return verb


def _range(given: dict[str, Any]) -> dict[str, Any]:
    """What of both is compared, for the verbs of keyspaces."""
    as_base64 = given["as_base64"]
    names = {each: raw_or_none(given[each], as_base64=as_base64) for each in ("start", "end")}
    if given["bucket"] is None and (given["start"] is not None or given["end"] is not None):
        raise click.UsageError("--start and --end are keys of a bucket: give --bucket")
    bucket = raw_or_none(given["bucket"], as_base64=as_base64)
    return {"bucket": bucket, "tag": given["tag"], **names}


@click.command()
@_what_options
@recover_option
@json_option
@pass_session
def diff(
    session: Session,
    /,
    keyspace: str,
    other: str,
    name: str | None,
    *,
    as_json: bool,
    **given: Any,
) -> None:
    """Show which objects of KEYSPACE are not the same in NAME of OTHER_STORE. Exits with 1 if any.

    NAME is KEYSPACE if it is left out. Each line has what there is: < only in KEYSPACE, > only in
    the other one, or ! in both.
    """
    from siltstone import objects

    which = _range(given)
    there = replace(session, store=other, recover=None)
    count = 0
    with (
        session.open_reader() as left,
        there.open_reader() as right,
        share_bar("compare", shown=not session.quiet) as advance,
    ):
        theirs = objects.open(right, name or keyspace)
        differences = objects.open(left, keyspace).differences(theirs, **which, progress=advance)
        for found in differences:
            count += 1
            _tell_difference(found, as_json=as_json)
    if as_json:
        print_json({"differences": count, "exchanged_bytes": differences.exchanged_bytes})
    else:
        session.note(f"{count:,} differ" if count else "both are the same")
    if count:
        raise click.exceptions.Exit(ExitCode.FAILED)


def _tell_difference(found: Difference, *, as_json: bool) -> None:
    """Say which object differs, and where it is."""
    if as_json:
        heads = {
            side: None if head is None else head_fields(head)
            for side, head in (("ours", found.ours), ("theirs", found.theirs))
        }
        names = name_fields(found.bucket, found.key, found.subkey)
        print_json({**names, "tag": found.tag, **heads})
        return
    sign = ">" if found.ours is None else "<" if found.theirs is None else "!"
    subkey = f" subkey={found.subkey}" if found.subkey else ""
    say(f"{sign} bucket={found.bucket} key={found.key}{subkey} tag={found.tag}")


@click.command()
@_what_options
@click.option(
    "--prefer",
    required=True,
    type=click.Choice(["left", "right", "newest"]),
    help="Whose version of an object both get: KEYSPACE's, the other's, or the one changed last.",
)
@click.option(
    "--deletes", is_flag=True, help="What the preferred side lacks is removed from the other one."
)
@click.option(
    "--one-way",
    is_flag=True,
    help="Only the side that is not preferred is changed; the store of the other is not claimed.",
)
@click.option(
    "--deep",
    is_flag=True,
    help="Read every value of what is changed before, so that lost ones are copied, too.",
)
@click.option("--dry-run", is_flag=True, help="Only count; claims and changes nothing.")
@takeover_option
@json_option
@pass_session
@goes_on()
def sync(
    session: Session,
    /,
    keyspace: str,
    other: str,
    name: str | None,
    *,
    prefer: Preference,
    takeover: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Make KEYSPACE, left, and NAME of OTHER_STORE, right, equal. Exits with 6 if values are lost.

    NAME is KEYSPACE if it is left out. Both stores are claimed. What one side lacks is copied to
    it, unless --deletes removes it from the other. What is changed meanwhile stays as it is.
    """
    from siltstone import objects

    one_way, dry_run, deletes = given["one_way"], given["dry_run"], given["deletes"]
    if prefer == "newest" and (one_way or deletes):
        raise click.UsageError("--one-way and --deletes need --prefer left or right")
    if takeover and dry_run:
        raise click.UsageError("--takeover and --dry-run exclude each other")
    which = _range(given)
    claimed = {side for side in ("left", "right") if not one_way or side != prefer}
    with _both(session, other, set() if dry_run else claimed, takeover=takeover) as stores:
        left, right = (
            objects.open(store, each)
            for store, each in zip(stores, (keyspace, name or keyspace), strict=True)
        )
        if given["deep"]:
            _find_lost(session, {"left": left, "right": right}, claimed)
        with share_bar("sync", shown=not session.quiet) as advance:
            report = left.sync(
                right, prefer=prefer, deletes=deletes, dry_run=dry_run, progress=advance, **which
            )
    if dry_run and one_way:
        to_left, to_right = report.copied_to_left, report.copied_to_right
        if prefer == "left":
            report = replace(report, left_out=to_left, copied_to_left=0)
        else:
            report = replace(report, left_out=to_right, copied_to_right=0)
    _tell_sync(report, dry_run=dry_run, as_json=as_json)
    if report.too_long or report.lost:
        raise click.exceptions.Exit(ExitCode.DAMAGE if report.lost else ExitCode.FAILED)


def _find_lost(session: Session, keyspaces: Mapping[str, Keyspace], changed: set[str]) -> None:
    """Read all values of the sides that are changed; what is lost is known to the sync then."""
    for side in sorted(changed):
        with share_bar(f"read {side}", shown=not session.quiet) as advance:
            for _ in keyspaces[side].check(deep=True, progress=advance):
                pass  # it is told by the verb check


@contextmanager
def _both(
    session: Session, other: str, claimed: set[str], *, takeover: bool
) -> Iterator[tuple[Store, Store]]:
    """Open two stores, or one for both; ``claimed`` says which of left and right are changed."""
    there = replace(session, store=other, recover=None)
    with ExitStack() as stack:
        if len(claimed) == 2 and _place(session) == _place(there):
            store = stack.enter_context(session.open_owner(takeover=takeover))
            yield store, store
            return
        opened = [
            stack.enter_context(
                each.open_owner(takeover=takeover) if side in claimed else each.open_reader()
            )
            for side, each in (("left", session), ("right", there))
        ]
        yield opened[0], opened[1]


def _place(session: Session) -> Path:
    """The settings file of a store, for a comparison."""
    from siltstone.store.settings.file import FILE_NAME

    path = session.store_path().resolve()
    return path / FILE_NAME if path.is_dir() else path


def _tell_sync(report: SyncReport, *, dry_run: bool, as_json: bool) -> None:
    """Say what a sync did, or would do."""
    counts = {
        "differences": report.differences,
        "copied_to_left": report.copied_to_left,
        "copied_to_right": report.copied_to_right,
        "removed_from_left": report.removed_from_left,
        "removed_from_right": report.removed_from_right,
        "repaired": report.repaired,
        "changed": report.changed,
        "lost": report.lost,
        "left_out": report.left_out,
        "too_long": report.too_long,
        "exchanged_bytes": report.exchanged_bytes,
    }
    if as_json:
        names = [
            {**name_fields(bucket, key), "tag": tag} for tag, bucket, key in report.too_long_names
        ]
        print_json({**counts, "too_long_names": names, "dry_run": dry_run})
        return
    for tag, bucket, key in report.too_long_names:
        say(f"too long for the other side: bucket={bucket} key={key} tag={tag}")
    facts = [f"{count:,} {label.replace('_', ' ')}" for label, count in counts.items() if count]
    text = ", ".join(facts[:-1]) or "both are the same"
    say(f"would be: {text}" if dry_run and facts[:-1] else text)
