"""Verbs that change segments. They claim the store for as long as they run."""

from __future__ import annotations

from pathlib import Path

import click

from siltstone.cli.attribute_text import ATTRIBUTE, attributes_of
from siltstone.cli.dry_runs import tell_removals, tell_truncation
from siltstone.cli.interrupts import tells_done
from siltstone.cli.keyspace_names import check_no_keyspace, force_option, is_forced
from siltstone.cli.output import print_json, say
from siltstone.cli.path_text import PathText
from siltstone.cli.read_commands import OFFSET
from siltstone.cli.session import (
    Session,
    dry_run_option,
    json_option,
    pass_session,
    takeover_option,
)
from siltstone.core.constants import CONTAINERS_MAX


@click.command()
@click.argument("folder", type=PathText())
@click.option(
    "--containers",
    type=click.IntRange(1, CONTAINERS_MAX),
    default=1,
    show_default=True,
    help="Parts that processes can own, fixed for the life of the store.",
)
@click.option(
    "--binding",
    default=None,
    show_default="nfs",
    help="Binding of long-term storage.",
)
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of the binding, such as bucket=archive; may stand several times.",
)
@click.option("--log", default="file", show_default=True, help="Tier-1 log.")
@click.option(
    "--log-option",
    "log_options",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of the log, such as topic=archive; may stand several times.",
)
@json_option
@pass_session
def init(
    session: Session,
    folder: str,
    containers: int,
    binding: str | None,
    options: tuple[str, ...],
    log: str,
    log_options: tuple[str, ...],
    *,
    as_json: bool,
) -> None:
    """Make a store in FOLDER: a settings file with comments, and its folders.

    Without options chunks and log lie in folders too. A secret is best given as '${NAME}', a
    variable. FOLDER may be the URL of long-term storage, such as s3://BUCKET/PREFIX: settings and
    log then lie in a folder of your own, where --store finds them by that URL.
    """
    # Imported here, so that help and completion do not wait for what only a store needs.
    from siltstone.cli.option_text import options_of
    from siltstone.core.hooks import BINDINGS_GROUP, TIER1_GROUP, plugin_settings
    from siltstone.store.admin.init import init_store
    from siltstone.store.settings.store_url import is_url, parse_store_url

    place = Path(folder)
    if is_url(folder):
        if binding is not None:
            raise click.UsageError("the URL says which binding; leave --binding out")
        url = parse_store_url(folder)
        place, binding, options = url.home, url.binding, (*url.option_texts, *options)
    binding = binding or "nfs"
    model, log_model = plugin_settings(BINDINGS_GROUP, binding), plugin_settings(TIER1_GROUP, log)
    if binding != "nfs" and not options:
        raise click.UsageError(f"the binding {binding!r} needs at least one --option")
    if log != "file" and not log_options:
        raise click.UsageError(f"the log {log!r} needs at least one --log-option")
    settings = init_store(
        place,
        containers=containers,
        binding=binding,
        options=options_of(options, model) if options else None,
        log=log,
        log_options=options_of(log_options, log_model, "--log-option") if log_options else None,
    )
    if as_json:
        print_json({"settings": str(settings), "containers": containers})
    else:
        say(f"made a store: {settings}")


@click.command()
@click.argument("segment")
@click.option("--exist-ok", is_flag=True, help="An existing segment is fine, as it is.")
@click.option(
    "--attribute", "noted", type=ATTRIBUTE, multiple=True, help="Note this about a new segment."
)
@takeover_option
@json_option
@pass_session
def create(
    session: Session,
    segment: str,
    noted: tuple[tuple[str, str], ...],
    *,
    exist_ok: bool,
    takeover: bool,
    as_json: bool,
) -> None:
    """Make the empty segment SEGMENT."""
    attributes = attributes_of(noted)
    with session.open_owner(takeover=takeover) as store:
        info = store.create(segment, exist_ok=exist_ok, attributes=attributes).info()
    if as_json:
        print_json(info)


@click.command()
@click.argument("segment", required=False)
@takeover_option
@json_option
@pass_session
def flush(session: Session, segment: str | None, *, takeover: bool, as_json: bool) -> None:
    """Move SEGMENT, or all of the store, from tier 1 to long-term storage."""
    with session.open_owner(takeover=takeover) as store:
        if segment is None:
            store.flush()
        else:
            store.segment(segment).flush()
        stats = store.stats()
    if as_json:
        print_json({"unflushed_bytes": sum(one.unflushed_bytes for one in stats)})


@click.command()
@click.argument("segment")
@takeover_option
@json_option
@pass_session
def seal(session: Session, segment: str, *, takeover: bool, as_json: bool) -> None:
    """Let SEGMENT take no more bytes, for ever."""
    with session.open_owner(takeover=takeover) as store:
        info = store.segment(segment).seal()
    if as_json:
        print_json(info)


@click.command()
@click.argument("segment")
@click.argument("offset", type=OFFSET)
@force_option
@dry_run_option
@takeover_option
@json_option
@pass_session
def truncate(
    session: Session, segment: str, offset: int, *, dry_run: bool, takeover: bool, as_json: bool
) -> None:
    """Drop the bytes of SEGMENT below OFFSET, for ever."""
    check_no_keyspace([segment])
    with session.open_changing(takeover=takeover, dry_run=dry_run) as store:
        target = store.segment(segment, force=is_forced())
        if dry_run:
            tell_truncation(target.info(), offset, as_json=as_json)
            return
        target.truncate(offset)
        info = target.info()
    if as_json:
        print_json(info)


@click.command()
@click.argument("target")
@click.argument("source")
@takeover_option
@json_option
@pass_session
def concat(session: Session, target: str, source: str, *, takeover: bool, as_json: bool) -> None:
    """Append the sealed segment SOURCE to TARGET. SOURCE is gone then. Prints where it begins."""
    with session.open_owner(takeover=takeover) as store:
        offset = store.segment(target).concat(source)
    if as_json:
        print_json({"segment": target, "offset": offset})
    else:
        click.echo(str(offset))


@click.command("rm")
@click.argument("segments", nargs=-1)
@click.option("--prefix", metavar="TEXT", help="Remove all segments whose names begin so.")
@force_option
@dry_run_option
@takeover_option
@json_option
@pass_session
def remove(
    session: Session,
    segments: tuple[str, ...],
    prefix: str | None,
    *,
    dry_run: bool,
    takeover: bool,
    as_json: bool,
) -> None:
    """Remove SEGMENTS, in the given order, or all whose names begin with --prefix."""
    if bool(segments) == (prefix is not None):
        raise click.UsageError("name segments, or give --prefix")
    if prefix == "":
        raise click.UsageError("--prefix is empty, and so would choose every segment")
    with (
        tells_done("removed") as done,
        session.open_changing(takeover=takeover, dry_run=dry_run) as store,
    ):
        if prefix is not None:
            segments = tuple(info.name for info in store.list(prefix))
        check_no_keyspace(segments)
        if dry_run:
            tell_removals(session, store, segments, as_json=as_json)
            return
        for name in segments:
            store.segment(name, force=is_forced()).delete()
            done(name)
            if as_json:
                print_json({"removed": name})
