"""What verbs share that move many bytes: how fast, by how many threads, and how far it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from siltstone.cli.output import progress_bar
from siltstone.cli.session import Session
from siltstone.store.settings.units import parse_size

if TYPE_CHECKING:
    from siltstone.migration.backup.create import Progress
    from siltstone.pipelines.local_executor import LocalExecutor

F = TypeVar("F", bound=Callable[..., Any])


class SizeOption(click.ParamType[int]):
    """A number of bytes, at least one, such as ``20MiB``."""

    name = "size"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return bytes."""
        try:
            size = parse_size(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if size < 1:
            self.fail("at least one byte", param, ctx)
        return size


rate_option = click.option(
    "--rate", type=SizeOption(), help="Bytes a second at most, such as 20MiB, of all together."
)


def moving_options(verb: F) -> F:
    """How fast bytes are moved, and by how many threads."""
    for option in (
        rate_option,
        click.option(
            "--threads", type=click.IntRange(1, 256), metavar="N", help="Objects at a time."
        ),
    ):
        verb = option(verb)
    return verb


@contextmanager
def moving(
    session: Session, label: str, threads: int | None
) -> Iterator[tuple[LocalExecutor, Progress]]:
    """An executor and what moves a progress bar, until the end of the block."""
    from siltstone.pipelines.local_executor import LocalExecutor

    executor = LocalExecutor(threads)
    try:
        with progress_of(session, label) as progress:
            yield executor, progress
    finally:
        executor.close()


@contextmanager
def progress_of(session: Session, label: str) -> Iterator[Progress]:
    """What moves a progress bar, until the end of the block."""
    with progress_bar(label, None, shown=not session.quiet) as advance:

        def progress(done: int, total: int) -> None:
            advance(done, total)

        yield progress
