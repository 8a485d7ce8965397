"""The end of a verb by a signal, and what a person is told of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

GOES_ON: Final = "the same command goes on where it stopped"


class Interrupted(BaseException):
    """SIGINT, as it leaves a verb: click itself writes a line of its own of Python's."""


class Terminated(BaseException):
    """SIGTERM: unwinds like an interrupt, so that the store is closed on the way."""


@contextmanager
def goes_on(*, when: bool = True) -> Iterator[None]:
    """A verb, or a part of it, that goes on when it is run again after a signal ended it.

    What it had done is not done again. ``when`` says whether that is so with the options given.
    """
    try:
        yield
    except (KeyboardInterrupt, Interrupted, Terminated) as stop:
        if when:
            stop.add_note(GOES_ON)
        raise


def end_text(what: str, stop: BaseException) -> str:
    """Say that a signal ended the verb, and whether it goes on."""
    text = f"siltstone: {'; '.join([what, *getattr(stop, '__notes__', ())])}"
    # A terminal shows ^C, and ends no line behind it.
    return f"\n{text}" if sys.stderr.isatty() else text
