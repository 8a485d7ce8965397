"""The verb ``ls``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

import click

from siltstone.cli.attribute_text import ATTRIBUTE, attributes_of
from siltstone.cli.name_pattern import NamePattern
from siltstone.cli.output import TABLE_ROWS_MAX, print_json, print_table
from siltstone.cli.session import Session, json_option, pass_session, recover_option
from siltstone.store.settings.units import about_size

if TYPE_CHECKING:
    from siltstone.container.models.segments import SegmentInfo
    from siltstone.store.store import Store


class _AboutSize(int):
    """Bytes, shown with a unit; stands to the right as other numbers do."""

    def __str__(self) -> str:
        return about_size(int(self))


_HEADERS: Final = ("NAME", "START", "LENGTH", "FLUSHED", "STATE")


@click.command("ls")
@click.argument("pattern", metavar="[PREFIX]", default="")
@click.option("-l", "--long", "is_long", is_flag=True, help="Show when each was created too, UTC.")
@click.option("-h", "--human", is_flag=True, help="Show sizes such as 1.5GiB.")
@click.option(
    "--where",
    type=ATTRIBUTE,
    multiple=True,
    help="Only segments that have this attribute; several times for several.",
)
@recover_option
@json_option
@pass_session
def list_segments(
    session: Session,
    pattern: str,
    where: tuple[tuple[str, str], ...],
    *,
    is_long: bool,
    human: bool,
    as_json: bool,
) -> None:
    """List the segments whose names start with PREFIX, or match it as a pattern.

    In a pattern * and ? stand for characters other than /, ** for any. Quote it, or the shell
    looks for files.
    """
    wanted = attributes_of(where)
    with session.open_reader() as store:
        found = _found(store, NamePattern(pattern), wanted)
        if as_json:
            for info in found:
                print_json(info)
            return
        size = _AboutSize if human else int
        for first in found:
            page = chain([first], islice(found, TABLE_ROWS_MAX - 1))
            print_table(
                (*_HEADERS[:-1], "CREATED", _HEADERS[-1]) if is_long else _HEADERS,
                (_row(info, size, is_long=is_long) for info in page),
            )


def _found(store: Store, pattern: NamePattern, where: Mapping[str, str]) -> Iterator[SegmentInfo]:
    return (info for info in store.list(pattern.prefix, where=where) if pattern.fits(info.name))


def _row(info: SegmentInfo, size: type[int], *, is_long: bool) -> tuple[Any, ...]:
    created = datetime.fromtimestamp(info.created_ms / 1000, UTC).isoformat(" ", "seconds")
    return (
        info.name,
        size(info.start_offset),
        size(info.length),
        size(info.flushed_length),
        *((created.removesuffix("+00:00"),) if is_long else ()),
        "sealed" if info.sealed else "open",
    )
