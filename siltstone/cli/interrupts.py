"""The end of a verb by a signal or half-way, and what a person is told of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

GOES_ON: Final = "the same command continues where it stopped"


NAMES_MAX: Final = 20
"""How many results are named; of more only the count is told."""


class Interrupted(BaseException):
    """SIGINT, as it leaves a verb: click itself writes a line of its own of Python's."""


class Terminated(BaseException):
    """SIGTERM: unwinds like an interrupt, so that the store is closed on the way."""


@contextmanager
def goes_on(*, when: bool = True) -> Iterator[None]:
    """A verb, or a part of it, that continues when it is run again after a signal ended it.

    What it had done is not done again. ``when`` says whether that is so with the options given.
    """
    try:
        yield
    except (KeyboardInterrupt, Interrupted, Terminated) as stop:
        if when:
            stop.add_note(GOES_ON)
        raise


@contextmanager
def tells_done(what: str) -> Iterator[Callable[[object], None]]:
    """A verb with several targets: what ends it half-way says which of them are done.

    The body gets what notes a target as done. ``what`` was done to it, such as "removed".
    """
    done: list[str] = []
    try:
        yield lambda target: done.append(str(target))
    except BaseException as error:
        if done:
            more = [f"{len(done) - NAMES_MAX} more"] if len(done) > NAMES_MAX else []
            error.add_note(f"{what} before that: {', '.join([*done[:NAMES_MAX], *more])}")
        raise


def end_text(what: str, notes: Sequence[str] = ()) -> str:
    """Say that a signal ended the command, and what its verb notes of that."""
    text = f"siltstone: {'; '.join([what, *notes])}"
    # A terminal shows ^C, and does not end the line.
    return f"\n{text}" if sys.stderr is not None and sys.stderr.isatty() else text
