"""Plain files and objects in and out, and what was taken in place."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from siltstone.cli.bring_files import show_plan, told_imports
from siltstone.cli.listed_verbs import ListedVerbs
from siltstone.cli.moving_options import LOCAL, SPARK, on_options, open_executor
from siltstone.cli.output import counting_bar, print_json, print_table, say
from siltstone.cli.path_text import PathText
from siltstone.cli.read_commands import write_range
from siltstone.cli.session import (
    Session,
    dry_run_option,
    json_option,
    pass_session,
    recover_option,
    takeover_option,
)
from siltstone.core.text import counted
from siltstone.migration.files.name_rule import PATH

if TYPE_CHECKING:
    from siltstone.migration.files.import_plan import PlannedFileSegment
    from siltstone.store.store import Store


class _Range(click.ParamType[tuple[int | None, int | None]]):
    """START:END, each of which may be left out."""

    name = "START:END"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int | None, int | None]:
        """The two offsets."""
        if isinstance(value, tuple):
            return value
        match = re.fullmatch(r"([0-9]*):([0-9]*)", str(value))
        if match is None:
            self.fail("write START:END, offsets in bytes; each may be left out", param, ctx)
        begin, end = (int(text) if text else None for text in match.groups())
        return begin, end


RANGE: Final = _Range()


@click.command("import")
@click.argument("segment")
@click.argument("sources", nargs=-1, required=True)
@click.option("--in-place", is_flag=True, help="Move no byte: the files themselves become chunks.")
@click.option("--objects", is_flag=True, help="SOURCES are prefixes of keys of long-term storage.")
@click.option("--no-verify", is_flag=True, help="Read no byte of what is taken in place.")
@click.option("--adoption", metavar="NAME", help="What files in place are kept for; 'files'.")
@click.option("--seal", is_flag=True, help="Seal the segments.")
@click.option("--dry-run", is_flag=True, help="Only show what would become of which file.")
@on_options
@takeover_option
@json_option
@pass_session
def import_(
    session: Session,
    /,
    segment: str,
    sources: tuple[str, ...],
    *,
    in_place: bool,
    objects: bool,
    dry_run: bool,
    takeover: bool,
    rate: int | None,
    as_json: bool,
    **choice: Any,
) -> None:
    """Make SEGMENT of files, one after the other; those of a folder in the order of their paths.

    In SEGMENT {path}, {folder} and {name} stand for parts of a file's path below the folder that
    was given: 'logs/{path}' makes a segment of each file. SEGMENT must not exist. The same command
    again continues where it was ended. On Spark every worker needs the files under the same paths.
    """
    kept_for, unread, seal = (choice.pop(name) for name in ("adoption", "no_verify", "seal"))
    if not in_place and (objects or unread or kept_for):
        raise click.UsageError("--objects, --no-verify and --adoption are for --in-place")
    if in_place and choice["on"] == SPARK:
        raise click.UsageError("--on spark is for copies: leave it out with --in-place")
    if in_place and (choice["threads"] or (rate and unread)):
        raise click.UsageError(
            "--threads is for copies, and --rate for what is read: with --in-place by one thread, "
            "with --no-verify not at all"
        )
    from siltstone.migration.files.import_files import ADOPTION, THREADS, ImportChoices

    planned = _plan(session, segment, sources, in_place=in_place, objects=objects)
    if dry_run:
        show_plan(planned, as_json=as_json)
        return
    choices = ImportChoices(
        adoption=(kept_for or ADOPTION) if in_place else None,
        verify=not unread,
        seal=seal,
    )
    if choice["on"] == LOCAL:
        choice["threads"] = choice["threads"] or THREADS
    with session.open_owner(takeover=takeover) as store, open_executor(**choice) as executor:
        told_imports(session, store, planned, choices, executor, rate=rate, as_json=as_json)


def _plan(
    session: Session, segment: str, sources: tuple[str, ...], *, in_place: bool, objects: bool
) -> list[PlannedFileSegment]:
    from siltstone.migration.files.import_plan import local_root, plan_files, plan_objects
    from siltstone.store.store_assembly import storage_of

    if not in_place:
        return plan_files(segment, sources)
    with closing(storage_of(session.store_path())) as storage:
        if objects:
            return plan_objects(segment, storage, sources)
        root = local_root(storage)
        if root is None:
            raise click.UsageError(
                "--in-place takes files below the folder of long-term storage, and this store's "
                "is no folder here; --objects takes prefixes of its keys"
            )
        return plan_files(segment, sources, root=root)


@click.command()
@click.argument("segments", nargs=-1, required=True)
@click.argument("target", type=PathText(path_type=Path, allow_dash=True))
@click.option("--range", "span", type=RANGE, help="Only these offsets of one segment.")
@click.option("--overwrite", is_flag=True, help="Replace files that are there.")
@recover_option
@json_option
@pass_session
def export(
    session: Session,
    segments: tuple[str, ...],
    target: Path,
    span: tuple[int | None, int | None] | None,
    *,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Write SEGMENTS to TARGET: one to a file, several below a folder, each by its name.

    One to standard output with - as TARGET; a file of that name is ./-.

    A SEGMENT with {path} means all that fit, each to the file of that path: the way back of an
    import. Every block is verified, and a file appears whole, durably, or not at all.
    """
    from siltstone.migration.files.export_files import export_files, plan_export

    start, end = span or (None, None)
    if str(target) == "-":
        if len(segments) != 1 or PATH in segments[0] or as_json or overwrite:
            raise click.UsageError(
                "one segment goes to standard output, as it is: without --json and --overwrite"
            )
        write_range(session, segments[0], start, end)
        return
    with session.open_reader() as store:
        planned = plan_export(store, segments, target, overwrite=overwrite, start=start, end=end)
        total = sum(file.length for file in planned)
        with counting_bar("export", total, shown=not session.quiet) as progress:
            for file in export_files(store, planned, progress):
                if as_json:
                    facts = {"segment": file.segment, "offset": file.start, "length": file.length}
                    print_json({**facts, "file": str(file.target)})
                else:
                    say(f"{file.target}: {counted(file.length, 'byte')} of {file.segment}")


@click.group(cls=ListedVerbs)
def adoption() -> None:
    """Files and objects that were taken in place."""


@adoption.command("ls")
@json_option
@pass_session
def list_adoptions(session: Session, *, as_json: bool) -> None:
    """List adoptions: what segments have, and what none has any more."""
    with session.open_reader() as store:
        found = store.adoptions()
    if as_json:
        for one in found:
            print_json(one)
        return
    print_table(
        ("NAME", "CONTAINER", "STATE", "CHUNKS", "BYTES", "DROPPED", "BYTES"),
        (
            (
                one.name,
                one.container,
                "finalised" if one.finalised else "kept",
                one.chunks,
                one.length,
                one.dropped,
                one.dropped_length,
            )
            for one in found
        ),
    )


@adoption.command()
@click.argument("name")
@dry_run_option
@takeover_option
@json_option
@pass_session
def finalise(session: Session, name: str, *, dry_run: bool, takeover: bool, as_json: bool) -> None:
    """Let files of NAME be deleted once no segment has them, like other chunks."""
    with session.open_changing(takeover=takeover, dry_run=dry_run) as store:
        if dry_run:
            _tell_adoption(store, name, "would be deleted", as_json=as_json)
            return
        count = store.finalise_adoption(name)
    if as_json:
        print_json({"adoption": name, "garbage": count})
    else:
        say(f"{name} is finalised; {counted(count, 'file')} that no segment has will be deleted")


@adoption.command()
@click.argument("name")
@dry_run_option
@takeover_option
@json_option
@pass_session
def release(session: Session, name: str, *, dry_run: bool, takeover: bool, as_json: bool) -> None:
    """Forget files of NAME that no segment has any more; they stay where they are."""
    with session.open_changing(takeover=takeover, dry_run=dry_run) as store:
        if dry_run:
            _tell_adoption(store, name, "would be released", as_json=as_json)
            return
        found = store.release_adoption(name)
    if as_json:
        print_json(found)
    else:
        say(f"{counted(found.released, 'file')} released, {found.in_use} still in segments")


def _tell_adoption(store: Store, name: str, what: str, *, as_json: bool) -> None:
    """Say how many files no segment has any more, and what would become of them."""
    from siltstone.container.models.imports import AdoptionNotFoundError

    found = [one for one in store.adoptions() if one.name == name]
    if not found:
        raise AdoptionNotFoundError("no such adoption", session=name)
    dropped = sum(one.dropped for one in found)
    length = sum(one.dropped_length for one in found)
    if as_json:
        print_json({"adoption": name, "dropped": dropped, "dropped_length": length})
    else:
        say(f"{counted(dropped, 'file')} of {counted(length, 'byte')} {what}")


@adoption.command()
@click.argument("segments", nargs=-1, required=True)
@takeover_option
@json_option
@pass_session
def sums(session: Session, segments: tuple[str, ...], *, takeover: bool, as_json: bool) -> None:
    """Read what SEGMENTS have in place without sums, and record them."""
    with session.open_owner(takeover=takeover) as store:
        for name in segments:
            with counting_bar(name, None, shown=not session.quiet) as progress:
                length = store.record_sums(name, progress=progress)
            if as_json:
                print_json({"segment": name, "length": length})
            else:
                say(f"{name}: {counted(length, 'byte')} read")
