"""What each errno means, at each stage of a call."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
from siltstone.bindings.nfs.errors import CLASSES, Effect, chunk_error
from siltstone.core.errors import (
    ChunkAccessDeniedError,
    ChunkError,
    ChunkExistsError,
    ChunkNameError,
    ChunkNotFoundError,
    ChunkStorageFullError,
    ChunkUnavailableError,
    Outcome,
)
from siltstone.core.open_files import ChunkOpenFilesError
from siltstone.testing.faults.file_layer import FileLayer
from tests.support.faults.held_things import held_uncollected

NOT, UNKNOWN = Outcome.NOT_APPLIED, Outcome.UNKNOWN

TABLE: list[tuple[int, type[ChunkError], Outcome, type[ChunkError]]] = [
    # errno, class when the call itself was refused, its outcome, class after an effect began
    (errno.ENOENT, ChunkNotFoundError, NOT, ChunkUnavailableError),
    (errno.ENOTDIR, ChunkNotFoundError, NOT, ChunkUnavailableError),
    (errno.ELOOP, ChunkNotFoundError, NOT, ChunkUnavailableError),
    (errno.EISDIR, ChunkNotFoundError, NOT, ChunkUnavailableError),
    (errno.ENXIO, ChunkNotFoundError, NOT, ChunkUnavailableError),
    (errno.EEXIST, ChunkExistsError, NOT, ChunkUnavailableError),
    (errno.ENOSPC, ChunkStorageFullError, NOT, ChunkStorageFullError),
    (errno.EDQUOT, ChunkStorageFullError, NOT, ChunkStorageFullError),
    (errno.EACCES, ChunkAccessDeniedError, NOT, ChunkAccessDeniedError),
    (errno.EPERM, ChunkAccessDeniedError, NOT, ChunkAccessDeniedError),
    (errno.EROFS, ChunkAccessDeniedError, NOT, ChunkAccessDeniedError),
    (errno.ENAMETOOLONG, ChunkNameError, NOT, ChunkUnavailableError),
    (errno.EILSEQ, ChunkNameError, NOT, ChunkUnavailableError),
    (errno.EMFILE, ChunkOpenFilesError, NOT, ChunkOpenFilesError),
    (errno.ENFILE, ChunkOpenFilesError, NOT, ChunkOpenFilesError),
    (errno.ENOMEM, ChunkUnavailableError, NOT, ChunkUnavailableError),
    (errno.EIO, ChunkUnavailableError, UNKNOWN, ChunkUnavailableError),
    (errno.ESTALE, ChunkUnavailableError, UNKNOWN, ChunkUnavailableError),
    (errno.ETIMEDOUT, ChunkUnavailableError, UNKNOWN, ChunkUnavailableError),
    (errno.EFBIG, ChunkUnavailableError, UNKNOWN, ChunkUnavailableError),
]


@pytest.mark.parametrize(("number", "kind", "outcome", "kind_later"), TABLE)
def test_table(
    number: int, kind: type[ChunkError], outcome: Outcome, kind_later: type[ChunkError]
) -> None:
    def made(effect: Effect) -> ChunkError:
        error = OSError(number, os.strerror(number))
        return chunk_error(error, chunk="a", operation="write", effect=effect)

    assert (type(made(Effect.NONE)), made(Effect.NONE).outcome) == (kind, NOT)
    assert (type(made(Effect.ONE_CALL)), made(Effect.ONE_CALL).outcome) == (kind, outcome)
    assert (type(made(Effect.BEGUN)), made(Effect.BEGUN).outcome) == (kind_later, UNKNOWN)
    assert errno.errorcode[number] in str(made(Effect.NONE))


def test_table_has_every_class() -> None:
    assert set(CLASSES) <= {row[0] for row in TABLE}


# Which call of which operation fails, and what must be known then. Numbers count from the start of
# the operation; the root stays open, so the folder "d" is the first open and the chunk the second.
CASES = [
    ("create", "open", 2, errno.EIO, ChunkUnavailableError, UNKNOWN),
    ("create", "open", 2, errno.ESTALE, ChunkUnavailableError, UNKNOWN),
    ("create", "open", 2, errno.EACCES, ChunkAccessDeniedError, NOT),
    ("create", "open", 2, errno.EROFS, ChunkAccessDeniedError, NOT),
    ("create", "open", 2, errno.EDQUOT, ChunkStorageFullError, NOT),
    ("create", "open", 1, errno.EIO, ChunkUnavailableError, NOT),
    ("create", "pwritev", 1, errno.EIO, ChunkUnavailableError, UNKNOWN),
    ("create", "fdatasync", 1, errno.EIO, ChunkUnavailableError, UNKNOWN),
    ("create", "close", 1, errno.EIO, ChunkUnavailableError, UNKNOWN),
    ("create", "fsync", 1, errno.EIO, ChunkUnavailableError, UNKNOWN),
    ("create in a new folder", "fsync", 2, errno.EIO, ChunkUnavailableError, UNKNOWN),
    ("create in a new folder", "identity", 1, errno.EIO, ChunkUnavailableError, UNKNOWN),
    ("write", "open", 2, errno.EIO, ChunkUnavailableError, NOT),
    ("write", "fstat", 1, errno.EIO, ChunkUnavailableError, NOT),
    ("write", "pwritev", 1, errno.ENOSPC, ChunkStorageFullError, UNKNOWN),
    ("write", "pwritev", 1, errno.EIO, ChunkUnavailableError, UNKNOWN),
    ("write", "fdatasync", 1, errno.EIO, ChunkUnavailableError, UNKNOWN),
    ("write", "fdatasync", 1, errno.EDQUOT, ChunkStorageFullError, UNKNOWN),
    ("write", "close", 2, errno.EIO, ChunkUnavailableError, UNKNOWN),
    ("delete", "stat", 1, errno.EIO, ChunkUnavailableError, NOT),
    ("delete", "unlink", 1, errno.EROFS, ChunkAccessDeniedError, NOT),
    ("delete", "unlink", 1, errno.EIO, ChunkUnavailableError, UNKNOWN),
    ("delete", "unlink", 1, errno.ENOENT, ChunkNotFoundError, UNKNOWN),
    ("delete", "fsync", 1, errno.EIO, ChunkUnavailableError, UNKNOWN),
    ("seal", "fchmod", 1, errno.EPERM, ChunkAccessDeniedError, NOT),
    ("seal", "fsync", 1, errno.EIO, ChunkUnavailableError, UNKNOWN),
    ("read_into", "preadv", 1, errno.EIO, ChunkUnavailableError, NOT),
    ("stat", "open", 2, errno.ESTALE, ChunkUnavailableError, NOT),
    ("list", "scandir", 1, errno.EIO, ChunkUnavailableError, NOT),
]


@pytest.mark.parametrize(("operation", "call", "number", "error", "kind", "outcome"), CASES)
def test_failing_calls(
    tmp_path: Path,
    operation: str,
    call: str,
    number: int,
    error: int,
    kind: type[ChunkError],
    outcome: Outcome,
) -> None:
    layer = FileLayer()
    storage = NfsChunkStorage(tmp_path / "chunks", calls=layer)
    storage.create("d/old", [b"abc"])
    layer.forget()
    layer.fail_call(call, number, error)
    calls: dict[str, Callable[[], object]] = {
        "create": lambda: storage.create("d/new", [b"abc"]),
        "create in a new folder": lambda: storage.create("e/new", [b"abc"]),
        "write": lambda: storage.write("d/old", 3, [b"def"]),
        "delete": lambda: storage.delete("d/old"),
        "seal": lambda: storage.seal("d/old"),
        "read_into": lambda: storage.read_into("d/old", 0, bytearray(3)),
        "stat": lambda: storage.stat("d/old"),
        "list": lambda: list(storage.list()),
    }
    with pytest.raises(ChunkError) as caught:
        calls[operation]()
    assert type(caught.value) is kind
    assert caught.value.outcome is outcome
    assert isinstance(caught.value.__cause__, OSError)
    syncs = layer.targets("fdatasync") + layer.targets("fsync")
    assert len(syncs) == len(set(syncs)), "a failed sync was tried again"
    storage.close()


def test_a_failed_write_is_not_hidden_by_a_failed_close(tmp_path: Path) -> None:
    layer = FileLayer()
    storage = NfsChunkStorage(tmp_path, calls=layer)
    storage.create("a", [b"abc"])
    layer.fail_call("pwritev", 1, errno.ENOSPC)
    layer.fail_call("close", 1, errno.EIO)
    with pytest.raises(ChunkStorageFullError) as caught:
        storage.write("a", 3, [b"def"])
    assert caught.value.outcome is UNKNOWN


def test_no_descriptor_leaks_from_failures(tmp_path: Path) -> None:
    before = held_uncollected()
    for operation, call, number, error, kind, outcome in CASES:
        folder = tmp_path / f"{operation}-{call}-{number}-{error}"
        folder.mkdir()
        test_failing_calls(folder, operation, call, number, error, kind, outcome)
    assert not held_uncollected() - before
