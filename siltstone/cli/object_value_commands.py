"""The verbs of ``objects`` about single objects: put, get, head and rm."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import click

from siltstone.cli.byte_text import raw_bytes
from siltstone.cli.exit_codes import ExitCode
from siltstone.cli.interrupts import tells_done
from siltstone.cli.object_names import (
    base64_option,
    expect_option,
    expected_sqn,
    head_fields,
    head_lines,
    tag_option,
)
from siltstone.cli.output import (
    bytes_fields,
    flush_bytes,
    print_json,
    printable,
    progress_bar,
    say,
    write_bytes,
)
from siltstone.cli.path_text import PathText
from siltstone.cli.session import (
    Session,
    dry_run_option,
    json_option,
    pass_session,
    recover_option,
    takeover_option,
)
from siltstone.core.text import counted

if TYPE_CHECKING:
    from siltstone.cli.output import Advance
    from siltstone.objects import ObjectHead, OpenValue

PIECE_BYTES: Final = 2**20

INPUT: Final = PathText(exists=True, dir_okay=False, allow_dash=True)

_terms = partial(click.option, nargs=2, multiple=True, metavar="FIELD TERM")


@click.command()
@click.argument("keyspace")
@click.argument("bucket")
@click.argument("key")
@click.argument("file", type=INPUT, default="-")
@tag_option
@click.option("--metadata", metavar="TEXT", help="A note, which head shows.")
@click.option("--metadata-file", type=INPUT, metavar="FILE", help="The note is what FILE holds.")
@_terms("--index", help="Let it be found under TERM, and no longer under others.")
@_terms("--add", help="Let it be found under TERM too.")
@_terms("--remove", help="Let it be found under TERM no longer.")
@click.option("--ttl", type=int, metavar="SECONDS", help="It is invisible after that.")
@expect_option
@base64_option
@takeover_option
@json_option
@pass_session
def put(
    session: Session,
    /,
    keyspace: str,
    bucket: str,
    key: str,
    file: str,
    *,
    takeover: bool,
    as_base64: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Set KEY in BUCKET of KEYSPACE to what FILE, or standard input, holds. Prints the SQN.

    It has any length, and is read in constant memory; the object is as it was until all is there.
    Without --index, --add and --remove it is found under no term. --add and --remove change the
    terms that it has.
    """
    from siltstone import objects

    raw_bucket, raw_key = (raw_bytes(name, as_base64=as_base64) for name in (bucket, key))
    details = put_details(as_base64=as_base64, **given)
    with opened_input(file) as stream, session.open_owner(takeover=takeover) as store:
        done = objects.open(store, keyspace).put_from(raw_bucket, raw_key, stream, **details)
    if as_json:
        print_json({"keyspace": keyspace, "sqn": done.sqn, "replaced": done.replaced})
    else:
        say(str(done.sqn))


def put_details(
    *,
    tag: str,
    metadata: str | None,
    metadata_file: str | None,
    index: tuple[tuple[str, str], ...],
    add: tuple[tuple[str, str], ...],
    remove: tuple[tuple[str, str], ...],
    ttl: int | None,
    expect: int | None,
    as_base64: bool,
) -> dict[str, Any]:
    """Return what a put gets besides names and value.

    Raises:
        click.UsageError: options exclude each other, or are not base64.
    """
    from siltstone.objects.records.limits import METADATA_BYTES_MAX

    def raw(terms: tuple[tuple[str, str], ...]) -> Iterator[tuple[bytes, bytes]]:
        for field, term in terms:
            yield raw_bytes(field, as_base64=as_base64), raw_bytes(term, as_base64=as_base64)

    found: dict[str, Any] = {"tag": tag, "ttl_s": ttl, **expected_sqn(expect)}
    if metadata is not None and metadata_file is not None:
        raise click.UsageError("--metadata and --metadata-file exclude each other")
    if metadata_file is not None:
        with opened_input(metadata_file) as stream:
            found["metadata"] = stream.read(METADATA_BYTES_MAX + 1)
    elif metadata is not None:
        found["metadata"] = raw_bytes(metadata, as_base64=False)
    if index and (add or remove):
        raise click.UsageError("--index has all terms: leave --add and --remove out")
    if index:
        terms: dict[bytes, list[bytes]] = {}
        for field, term in raw(index):
            terms.setdefault(field, []).append(term)
        found["index"] = terms
    elif add or remove:
        specs = [("add", *each) for each in raw(add)] + [("remove", *each) for each in raw(remove)]
        found["specs"] = specs
    return found


@contextmanager
def opened_input(file: str) -> Iterator[BinaryIO]:
    """Open a file, or standard input for ``-``."""
    if file == "-":
        yield sys.stdin.buffer
        return
    with open(file, "rb") as stream:
        yield stream


@click.command()
@click.argument("keyspace")
@click.argument("bucket")
@click.argument("key")
@click.argument("file", type=PathText(dir_okay=False, allow_dash=True), default="-")
@tag_option
@click.option("--overwrite", is_flag=True, help="Replace a FILE that is there.")
@base64_option
@recover_option
@json_option
@pass_session
def get(
    session: Session,
    keyspace: str,
    bucket: str,
    key: str,
    file: str,
    tag: str,
    *,
    overwrite: bool,
    as_base64: bool,
    as_json: bool,
) -> None:
    """Write the value of KEY to FILE, or to standard output. Exits with 3 when it is absent.

    A file appears whole, durably, or not at all. With --json the rest of the object is told too.
    """
    from siltstone import objects

    names = [raw_bytes(name, as_base64=as_base64) for name in (bucket, key)]
    with session.open_reader() as store:
        value = objects.open(store, keyspace).open_value(*names, tag=tag)
        if value is None:
            raise _absent(keyspace, bucket, key)
        with value, progress_bar(key, value.size, shown=not session.quiet) as advance:
            pieces = _pieces(value, advance)
            if file != "-":
                write_file(Path(file), pieces, overwrite=overwrite)
            elif not as_json:
                for piece in pieces:
                    write_bytes(piece)
                flush_bytes()
            if as_json:
                told = {"file": file} if file != "-" else bytes_fields("value", value.readall())
                print_json({**head_fields(value.head), **told})


def _pieces(value: OpenValue, advance: Advance) -> Iterator[bytes]:
    """The bytes of a value, each piece verified."""
    done = 0
    while piece := value.read(PIECE_BYTES):
        yield piece
        done += len(piece)
        advance(done)


def write_file(path: Path, pieces: Iterable[bytes], *, overwrite: bool) -> None:
    """Write a file that appears whole and durably, or not at all.

    Raises:
        FileExistsError: it is there, and is not to be replaced.
        OSError: it cannot be written.
    """
    from siltstone.pipelines.folder_files import draft_of, publish, publish_over

    target = path.absolute()
    with draft_of(target) as draft:
        with draft.open("wb") as stream:
            stream.writelines(pieces)
        if overwrite:
            publish_over(draft, target)
        elif not publish(draft, target):
            raise FileExistsError(f"{path} is there; --overwrite replaces it")


@click.command()
@click.argument("keyspace")
@click.argument("bucket")
@click.argument("key")
@click.option("--subkey", default="", help="Of an entry of a keyspace of heads only.")
@tag_option
@base64_option
@recover_option
@json_option
@pass_session
def head(
    session: Session,
    keyspace: str,
    bucket: str,
    key: str,
    tag: str,
    *,
    subkey: str,
    as_base64: bool,
    as_json: bool,
) -> None:
    """Show all of KEY but its value. Exits with 3 when it is absent."""
    from siltstone import objects

    names = [raw_bytes(name, as_base64=as_base64) for name in (bucket, key, subkey)]
    with session.open_reader() as store:
        found = objects.open(store, keyspace).head(*names, tag=tag)
    if found is None:
        raise _absent(keyspace, bucket, key)
    if as_json:
        print_json(head_fields(found))
        return
    for label, value in head_lines(found):
        say(f"{label + ':':<10} {printable(str(value))}")


@click.command("rm")
@click.argument("keyspace")
@click.argument("bucket")
@click.argument("keys", nargs=-1, required=True)
@tag_option
@expect_option
@dry_run_option
@base64_option
@takeover_option
@json_option
@pass_session
def remove(
    session: Session,
    /,
    keyspace: str,
    bucket: str,
    keys: tuple[str, ...],
    *,
    dry_run: bool,
    takeover: bool,
    as_base64: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Remove KEYS of BUCKET from KEYSPACE, those that are there, in the given order."""
    from siltstone import objects

    tag, expect = given["tag"], given["expect"]
    if expect is not None and len(keys) > 1:
        raise click.UsageError("--expect is about one key")
    raw_bucket = raw_bytes(bucket, as_base64=as_base64)
    raw_keys = [raw_bytes(key, as_base64=as_base64) for key in keys]
    with (
        tells_done("removed") as done,
        session.open_changing(takeover=takeover, dry_run=dry_run) as store,
    ):
        target = objects.open(store, keyspace)
        for key, raw in zip(keys, raw_keys, strict=True):
            if dry_run:
                found = target.head(raw_bucket, raw, tag=tag)
                _tell_removal(raw_bucket, raw, found, expect, as_json=as_json)
                continue
            sqn = target.delete(raw_bucket, raw, tag=tag, **expected_sqn(expect))
            done(key)
            if as_json:
                print_json({**bytes_fields("removed", raw), "sqn": sqn})


def _tell_removal(
    bucket: bytes, key: bytes, found: ObjectHead | None, expect: int | None, *, as_json: bool
) -> None:
    """Say whether an object would be removed.

    Raises:
        ConditionFailedError: it is not as expected.
    """
    from siltstone.core.errors import ConditionFailedError
    from siltstone.objects import SqnIs
    from siltstone.objects.changes import name_text

    name = name_text(key)
    current = None if found is None else found.sqn
    wanted = expected_sqn(expect)
    if wanted and wanted["expected"] != current:
        raise ConditionFailedError(
            condition=SqnIs(name_text(bucket), name, wanted["expected"]), current=current
        )
    if as_json:
        there = found is not None
        print_json({**bytes_fields("would_remove", key), "there": there})
    elif found is None:
        say(f"would remove nothing: there is no key {name}")
    else:
        say(f"would remove {name}: {counted(found.size, 'byte')}")


def _absent(keyspace: str, bucket: str, key: str) -> click.exceptions.Exit:
    say(f"siltstone: no such object keyspace={keyspace} bucket={bucket} key={key}", err=True)
    return click.exceptions.Exit(ExitCode.NOT_FOUND)
