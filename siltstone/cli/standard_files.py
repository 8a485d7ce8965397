"""Standard input, output and error, when whoever started the command closed one of them."""

from __future__ import annotations

import os
import sys
from typing import IO, Any, Final

_STAND_INS: Final = (
    (0, "stdin", os.O_WRONLY),
    (1, "stdout", os.O_RDONLY),
    (2, "stderr", os.O_RDWR),
)
"""Each descriptor, its name in ``sys``, and how nothing is opened in its place: what reads closed
input or writes closed output fails with EBADF; messages that nobody wants are gone."""


def fill_closed_files() -> None:
    """Put something in the place of closed standard files.

    Else the next file that is opened gets such a number: a log that then gets the messages of
    libraries, or the socket of an event loop that ends the process when it has to close it.
    """
    for number, name, flags in _STAND_INS:
        try:
            os.fstat(number)
        except OSError:
            found = os.open(os.devnull, flags)
            if found != number:
                os.dup2(found, number)
                os.close(found)
            setattr(sys, name, _opened(number))


def _opened(number: int) -> IO[Any]:
    return open(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False)
