"""Making chunks and adding to them: under the lease, synced, and closed before it is acknowledged.

A file has one writer at a time, which holds its lease. A client that recovers the lease closes the
file, and the handle of the holder before it can no longer be used.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from hdfs_native import WriteOptions

from siltstone.bindings.hdfs.calls import GivenUpError, Turn
from siltstone.bindings.hdfs.errors import is_held, meaning, translated
from siltstone.bindings.hdfs.service import Service
from siltstone.bindings.hdfs.web import copies_told
from siltstone.core.constants import MIB, Buffer
from siltstone.core.errors import (
    ChunkAccessDeniedError,
    ChunkExistsError,
    ChunkOffsetError,
    ChunkStorageFullError,
    ChunkUnavailableError,
    Outcome,
)
from siltstone.core.remote.body import pieces
from siltstone.core.remote.target import Target
from siltstone.core.spare_threads import start_thread

if TYPE_CHECKING:
    from hdfs_native._internal import FileStatus, RawClient, RawFileWriter

STEP_BYTES: Final = MIB
"""What the SDK is given at a time: as ``bytes``, for from other buffers it takes one by one. More
would be joined before the first byte is sent, in memory that is new each time."""
WRITE_BITS: Final = 0o222
MODE: Final = 0o644
PAUSE_S: Final = 0.01
PAUSE_MAX_S: Final = 0.2
COPIES_WAIT_S: Final = 2.0
"""How long DataNodes may take to tell of a block that they have written."""
CLEANING_S: Final = 30.0
"""How long a file is tried to be closed after a call that failed."""


class Hand:
    """One change of a file: by which client it is made, and what is left of it when it fails.

    Args:
        service: where the file is.
        path: of the file.
    """

    def __init__(self, service: Service, path: str) -> None:
        self._service = service
        self._path = path
        self._number: int | None = None
        self._is_left = False

    def opened(self, work: Callable[[RawClient], RawFileWriter]) -> RawFileWriter:
        """Open the file by a client that was not left alone at it."""
        writer = self._service.clients.writer(self._path)
        self._number = writer.number
        try:
            opened = work(writer.client)
        except Exception as error:
            if meaning(error).outcome is not Outcome.UNKNOWN:
                self._number = None
            raise
        # It may have come so late that this was left before: then there is a file to close again.
        self._is_left = False
        return opened

    def closed(self, writer: RawFileWriter) -> None:
        """Close the file to the end, as it is."""
        writer.close()
        self._number = None

    def leave(self) -> None:
        """Give this up. If the file may be open, begin to close it by another client.

        The one that was used is not used for this file again, since what it sent may still come.
        Once is enough: later the file may be another writer's.
        """
        if self._number is None or self._is_left:
            return
        self._is_left = True
        self._service.clients.leave(self._path, self._number)
        if self._path not in self._service.unclosed:
            self._service.unclosed.add(self._path)
            start_thread(lambda: _cleaned(self._service, self._path))


def change(service: Service, target: Target, work: Callable[[Turn, Hand], None]) -> None:
    """Run what makes or changes a file; when it fails, or does not end in time, leave its file."""
    hand = Hand(service, target.key)
    try:
        service.run(
            lambda turn: work(turn, hand),
            target.deadline,
            target.name,
            target.operation,
            changes=True,
        )
    except BaseException:
        hand.leave()
        raise


def create(
    turn: Turn,
    hand: Hand,
    service: Service,
    target: Target,
    buffers: Sequence[Buffer],
    length: int,
) -> None:
    """Make a file that did not exist, with its bytes.

    Raises:
        ChunkExistsError: the path is taken.
        ChunkStorageFullError: the quota is used up; nothing is left over if it says so.
    """
    settings = service.settings
    options = WriteOptions(
        overwrite=False,
        create_parent=True,
        permission=MODE,
        replication=settings.replication,
        block_size=settings.block_size,
    )
    with translated(target.name, "create", changes=True):
        try:
            writer = hand.opened(lambda client: client.create(target.key, options))
        except FileExistsError as error:
            # Also where another client has it open, which for an append is another matter.
            raise ChunkExistsError("chunk exists", chunk=target.name, operation="create") from error
    try:
        _write(turn, hand, target, writer, buffers, length)
    except ChunkStorageFullError as error:
        if _removed(service, target.key):
            error.outcome = Outcome.NOT_APPLIED
        raise


def append(
    turn: Turn,
    hand: Hand,
    service: Service,
    target: Target,
    offset: int,
    buffers: Sequence[Buffer],
    length: int,
) -> None:
    """Write at the end, if ``offset`` is the end while no other client can write.

    Raises:
        ChunkNotFoundError: there is no such file.
        ChunkAccessDeniedError: it is sealed.
        ChunkOffsetError: it ends elsewhere; nothing was written.
    """
    with translated(target.name, "write"):
        status = service.info(target.key)
        _check(status, target, offset)
        if offset:
            _wait_for_copies(turn, service, target, status.replication or 1)
        writer = _leased(turn, hand, service, target.key)
    try:
        turn.check()
        with translated(target.name, "write"):
            _check(service.info(target.key), target, offset)
    except GivenUpError:
        hand.leave()
        raise
    except BaseException:
        _left(hand, writer)
        raise
    _write(turn, hand, target, writer, buffers, length)


def make_closed(turn: Turn, service: Service, path: str) -> None:
    """Close a file, whichever client has it open, and wait until that is so.

    Raises:
        FileNotFoundError: there is no such file.
    """
    pause_s = PAUSE_S
    while not _is_closed_now(service, path):
        turn.sleep(pause_s)
        pause_s = min(2 * pause_s, PAUSE_MAX_S)


def take_over(turn: Turn, service: Service, path: str) -> None:
    """Close a file that a client has open for too long, maybe another storage in this process."""
    service.clients.leave(path)
    make_closed(turn, service, path)


def _is_closed_now(service: Service, path: str) -> bool:
    """Begin to close a file; tell whether it is closed."""
    try:
        is_closed = service.clients.closer(path).recover_lease(path)
    except FileNotFoundError:
        service.unclosed.discard(path)
        raise
    except Exception as error:
        if is_held(error):
            return False
        raise
    if is_closed:
        service.unclosed.discard(path)
    return bool(is_closed)


def _leased(turn: Turn, hand: Hand, service: Service, path: str) -> RawFileWriter:
    """Open a file for appending; take it over from a client that holds it for too long."""
    until = time.monotonic() + service.settings.lease_wait_s
    # It is being closed; to do so here as well could end what is begun next.
    while path in service.unclosed and time.monotonic() < until:
        turn.sleep(PAUSE_S)
    pause_s = PAUSE_S
    while True:
        turn.check()
        try:
            return hand.opened(lambda client: client.append(path))
        except Exception as error:
            if not is_held(error):
                raise
        if time.monotonic() > until:
            take_over(turn, service, path)
            until = time.monotonic() + service.settings.lease_wait_s
        turn.sleep(pause_s)
        pause_s = min(2 * pause_s, PAUSE_MAX_S)


def _wait_for_copies(turn: Turn, service: Service, target: Target, count: int) -> None:
    """Wait until all copies of what was written last are known to the NameNode.

    It appends to those that it knows. Another one would count as a copy afterwards, for it has the
    same generation, and be taken for the better one when the file is recovered: bytes that were
    acknowledged would be lost. Where copies are missing for longer, another chunk is the better
    place to continue, which the outcome "unknown" asks for.
    """
    until = time.monotonic() + COPIES_WAIT_S
    pause_s = PAUSE_S
    while copies_told(service.settings, target.key, target.deadline) < count:
        if time.monotonic() > until:
            raise ChunkUnavailableError(
                "copies of the chunk are missing",
                chunk=target.name,
                operation="write",
                outcome=Outcome.UNKNOWN,
            )
        turn.sleep(pause_s)
        pause_s = min(2 * pause_s, PAUSE_MAX_S)


def _write(
    turn: Turn,
    hand: Hand,
    target: Target,
    writer: RawFileWriter,
    buffers: Sequence[Buffer],
    length: int,
) -> None:
    """Write, sync and close.

    The sync is what proves that the lease is still held: the NameNode takes the close of a file
    that another client has closed since for one that was sent twice.
    """
    try:
        with translated(target.name, target.operation, changes=True, is_begun=True):
            turn.check()
            for part in pieces(buffers, length, STEP_BYTES):
                turn.check()
                writer.write(b"".join(part))
            turn.check()
            writer.hsync()
            hand.closed(writer)
    except BaseException:
        hand.leave()
        raise


def _left(hand: Hand, writer: RawFileWriter) -> None:
    """Close a file that nothing was written to; a failure of that is not the caller's."""
    try:
        hand.closed(writer)
    except Exception:  # noqa: BLE001 - the SDK's are of all kinds
        hand.leave()
    except BaseException:
        hand.leave()
        raise


def _cleaned(service: Service, path: str) -> None:
    """Close a file. If that fails the next call takes it over, and so does the NameNode.

    It ends when another client has taken the file over, which may have opened it again since.
    """
    with suppress(Exception):
        until = time.monotonic() + CLEANING_S
        pause_s = PAUSE_S
        while path in service.unclosed and time.monotonic() < until:
            if _is_closed_now(service, path):
                return
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_MAX_S)


def _removed(service: Service, path: str) -> bool:
    """Give the room of a file that did not fit back; tell whether it is gone for sure."""
    try:
        return bool(service.client.delete(path, False))
    except Exception:  # noqa: BLE001 - whatever it is, the file may be there
        return False


def _check(status: FileStatus, target: Target, offset: int) -> None:
    """Check that a file takes bytes, and at this offset."""
    if not status.permission & WRITE_BITS:
        raise ChunkAccessDeniedError("chunk is sealed", chunk=target.name, operation="write")
    if status.length != offset:
        raise ChunkOffsetError(
            chunk=target.name, operation="write", expected=status.length, actual=offset
        )
