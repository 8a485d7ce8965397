"""What the command writes: results on standard output, everything for people on standard error."""

from __future__ import annotations

import base64
import dataclasses
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol

import click

TABLE_ROWS_MAX: Final = 10_000
"""The rows that are aligned in one table; a longer listing is several tables."""

_WHOLE: Final = 1_000_000
"""Steps of a bar that shows a share."""


class Advance(Protocol):
    """Tells a progress bar how much is done."""

    def __call__(self, done: int, total: int | None = None) -> None:
        """``done`` of the total, counted from the beginning; ``None`` leaves the total as it is."""
        ...


def print_json(value: object) -> None:
    """Write one value as one line of JSON, of UTF-8 whatever names of files are."""
    text = json.dumps(value, ensure_ascii=False, default=_plain)
    click.echo(text.encode("utf-8", "backslashreplace"))


def print_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write rows in columns; numbers stand to the right. A row is one line, whatever it names."""
    pending = [[str(cell) for cell in headers]]
    right = [False] * len(headers)
    for row in rows:
        right = [isinstance(cell, int) for cell in row]
        pending.append([printable(str(cell)) for cell in row])
    widths = [max(len(row[index]) for row in pending) for index in range(len(headers))]
    for row in pending:
        cells = [
            f"{cell:>{width}}" if number else f"{cell:<{width}}"
            for cell, width, number in zip(row, widths, right, strict=True)
        ]
        click.echo("  ".join(cells).rstrip())


def printable(text: str) -> str:
    """Return ``text`` with control characters escaped: a name begins no line and colours none."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text
    )


def say(text: str, *, err: bool = False) -> None:
    """Write a line for people: of names in it control characters are escaped."""
    click.echo(printable(text), err=err)


def write_bytes(data: bytes) -> None:
    """Write raw bytes to standard output."""
    sys.stdout.buffer.write(data)


def flush_bytes() -> None:
    """Hand on what was written: a follower's reader waits for it."""
    sys.stdout.buffer.flush()


def bytes_fields(name: str, data: bytes) -> dict[str, str]:
    """Return ``data`` for JSON: as text where it is UTF-8, else in base64 under another key."""
    try:
        return {name: data.decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode("ascii")}


@contextmanager
def counting_bar(label: str, total: int | None, *, shown: bool) -> Iterator[Callable[[int], None]]:
    """Show a bar as ``progress_bar`` does; the body gets what adds bytes to what is done."""
    done = 0
    with progress_bar(label, total, shown=shown) as advance:

        def add(count: int) -> None:
            nonlocal done
            done += count
            advance(done)

        yield add


@contextmanager
def share_bar(label: str, *, shown: bool) -> Iterator[Callable[[float], None]]:
    """Show a bar as ``progress_bar`` does; the body gets what is told how much is done, 0 to 1."""
    with progress_bar(label, _WHOLE, shown=shown, share=True) as advance:
        yield lambda share: advance(int(share * _WHOLE))


@contextmanager
def progress_bar(
    label: str, total: int | None, *, shown: bool, share: bool = False
) -> Iterator[Advance]:
    """Show a bar on standard error, if that is a terminal; the body gets what advances it.

    ``share`` shows percents and the time that is left; else total and done are bytes.
    """
    if not shown or not sys.stderr.isatty():
        yield _ignore
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        ProgressColumn,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns: list[ProgressColumn] = [TextColumn("{task.description}"), BarColumn()]
    if share:
        columns += [TaskProgressColumn(), TimeRemainingColumn()]
    else:
        columns += [DownloadColumn(binary_units=True), TransferSpeedColumn()]
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=total)

        def advance(done: int, total: int | None = None) -> None:
            progress.update(task, completed=done, total=total)

        yield advance


def _ignore(done: int, total: int | None = None) -> None:
    """Report no progress."""


def _plain(value: object) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    raise TypeError(f"not for JSON: {type(value).__name__}")
