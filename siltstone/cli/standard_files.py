"""Standard input, output and error, as the process that started the command left them."""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from typing import IO, TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from typing_extensions import Buffer

_STAND_INS: Final = (
    (0, "stdin", os.O_WRONLY),
    (1, "stdout", os.O_RDONLY),
    (2, "stderr", os.O_RDWR),
)
"""Each descriptor, its name in ``sys``, and how nothing is opened in its place: what reads closed
input or writes closed output fails with EBADF; messages to a closed output are lost."""


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


def write_whole() -> None:
    """Let standard output and error take all bytes of every write, or raise.

    With ``PYTHONUNBUFFERED`` or ``-u`` they are raw files: those write what fits, say so by a
    number that few callers read, and the rest is gone. And a pipe that does not block refuses what
    does not fit, buffered or not.
    """
    for name in ("stdout", "stderr"):
        file = getattr(sys, name)
        if isinstance(file, io.TextIOWrapper):
            setattr(sys, name, _whole(file))


def _whole(file: io.TextIOWrapper) -> io.TextIOWrapper:
    """Make a text file write whole; it keeps its bytes as long as it did before."""
    inner: Any = file.buffer
    raw = inner if isinstance(inner, io.RawIOBase) else inner.raw
    if not isinstance(raw, io.FileIO):  # a console of another system
        return file
    file.flush()
    whole = WholeWrites(raw.fileno())
    taker: Any = whole if raw is inner else io.BufferedWriter(whole)
    return io.TextIOWrapper(
        taker,
        encoding=file.encoding,
        errors=file.errors,
        line_buffering=file.line_buffering,
        write_through=file.write_through,
    )


class WholeWrites(io.RawIOBase):
    """A file that stays open, and whose writes come to their end or raise ``OSError``.

    Where the descriptor does not block, a write waits until there is room.

    Args:
        fd: the descriptor; the caller closes it.
    """

    def __init__(self, fd: int) -> None:
        super().__init__()
        self._fd = fd

    def writable(self) -> bool:
        """True."""
        return True

    def fileno(self) -> int:
        """The descriptor."""
        return self._fd

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return os.isatty(self._fd)

    def write(self, data: Buffer, /) -> int:
        """Write all of ``data``; return how many bytes that are."""
        view = memoryview(data).cast("B")
        written = 0
        while written < len(view):
            try:
                count = os.write(self._fd, view[written:])
            except BlockingIOError:
                select.select([], [self._fd], [])
                continue
            if not count:
                raise OSError(errno.EIO, "a write made no progress")
            written += count
        return written


def _opened(number: int) -> IO[Any]:
    return open(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False)
