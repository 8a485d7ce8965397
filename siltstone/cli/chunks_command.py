"""The verb ``chunks``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain, islice
from typing import TYPE_CHECKING

import click

from siltstone.cli.exit_codes import ExitCode
from siltstone.cli.output import TABLE_ROWS_MAX, print_json, print_table
from siltstone.cli.session import Session, json_option, pass_session, recover_option

if TYPE_CHECKING:
    from siltstone.container.models.check import ChunkState

HEADERS = (
    "START",
    "LENGTH",
    "CHUNK OFFSET",
    "COMMITTED",
    "PHYSICAL",
    "EPOCH",
    "CRC32C",
    "STATE",
    "CHUNK",
)


@click.command()
@click.argument("segment")
@click.option("--deep", is_flag=True, help="Read the chunks and compare them with their checksums.")
@recover_option
@json_option
@pass_session
def chunks(session: Session, segment: str, *, deep: bool, as_json: bool) -> None:
    """Show where the flushed bytes of SEGMENT lie, and what long-term storage has of them.

    Exits with 6 when a chunk is missing, short or damaged.
    """
    problems = 0
    with session.open_reader() as store:
        found = store.segment(segment).examine(deep=deep)

        def counted() -> Iterator[ChunkState]:
            nonlocal problems
            for state in found:
                problems += state.problem is not None
                yield state

        states = counted()
        if as_json:
            for state in states:
                print_json({**asdict(state.info), **_beside(state)})
        else:
            first = list(islice(states, 1))
            while True:
                print_table(HEADERS, map(_row, islice(chain(first, states), TABLE_ROWS_MAX)))
                first = list(islice(states, 1))
                if not first:
                    break
    if problems:
        raise click.exceptions.Exit(ExitCode.DAMAGE)


def _beside(state: ChunkState) -> dict[str, object]:
    fields = asdict(state)
    del fields["info"]
    return fields


def _row(state: ChunkState) -> tuple[object, ...]:
    info = state.info
    return (
        info.start,
        info.length,
        info.chunk_offset,
        info.chunk_length,
        "-" if state.physical_length is None else str(state.physical_length),
        info.epoch,
        "-" if info.crc32c is None else f"{info.crc32c:08x}",
        state.problem or ("verified" if state.verified else "present"),
        info.chunk,
    )
