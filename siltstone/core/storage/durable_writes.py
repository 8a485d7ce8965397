"""Writing bytes, few or very many, and coming back when they are durable."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from siltstone.core.chunk_storage import Buffer
from siltstone.core.constants import MIB
from siltstone.core.posix import FileCalls, write_fully

OUT_BYTES = 2 * MIB
"""Of a large write this many bytes are on their way to the disk while as many more are copied."""


def write_durably(calls: FileCalls, fd: int, buffers: Sequence[Buffer], offset: int) -> None:
    """Write all of ``buffers`` at ``offset``, and sync.

    Many bytes leave while the next ones are copied. The disk takes requests in their order, so a
    sync of another file would have to wait for all that one sync sends at once.
    """
    _write_runs(calls, fd, _pieces(buffers), offset, free=False)


def write_stream_durably(calls: FileCalls, fd: int, pieces: Iterable[Buffer], offset: int) -> None:
    """Write pieces one after the other from ``offset`` on, and sync; see ``write_durably``.

    A piece is done with before the next one is asked for. What is larger than ``OUT_BYTES`` does
    not stay in the memory of the machine. Whole stores are moved so, and would drive out what is
    read there; and the next bytes take the room of these, where fresh memory costs a virtual
    machine more than the disk does.
    """
    _write_runs(calls, fd, ([piece] for piece in pieces), offset, free=True)


def _write_runs(
    calls: FileCalls, fd: int, runs: Iterable[Sequence[Buffer]], offset: int, *, free: bool
) -> None:
    before = sent = position = offset
    for run in runs:
        if position - sent >= OUT_BYTES:
            calls.write_out(fd, before, position - before)
            if free:
                _free(calls, fd, before, sent)
            before, sent = sent, position
        position += write_fully(calls, fd, run, position)
    calls.fdatasync(fd)
    if free and sent > offset:
        _free(calls, fd, before, position)


def _free(calls: FileCalls, fd: int, begin: int, end: int) -> None:
    # A length of 0 would be all of the file.
    if begin < end:
        with suppress(OSError):
            calls.free_memory(fd, begin, end - begin)


def _pieces(buffers: Sequence[Buffer]) -> list[list[Buffer]]:
    """Cut the bytes of buffers into pieces of ``OUT_BYTES``, the last one smaller."""
    pieces: list[list[Buffer]] = [[]]
    room = OUT_BYTES
    for buffer in buffers:
        view = memoryview(buffer).cast("B")
        while len(view) > room:
            pieces[-1].append(view[:room])
            view = view[room:]
            pieces.append([])
            room = OUT_BYTES
        pieces[-1].append(view)
        room -= len(view)
    return pieces
