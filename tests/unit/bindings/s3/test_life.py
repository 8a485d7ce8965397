"""Processes, threads and sockets: fork, pickle, close, and uploads that nobody completed."""

from __future__ import annotations

import gc
import os
import pickle
import threading
from pathlib import Path

import pytest

from siltstone.bindings.s3.chunk_storage import S3ChunkStorage
from siltstone.core.constants import MIB
from siltstone.core.errors import ClosedError
from tests.support.stubs.s3_stub import Stub, broken


def test_it_can_not_be_pickled(storage: S3ChunkStorage) -> None:
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(storage)


def test_secrets_are_not_in_its_name(storage: S3ChunkStorage) -> None:
    assert repr(storage) == "S3ChunkStorage(bucket='bucket', prefix='')"


def test_after_a_fork_the_child_is_told(stub: Stub, storage: S3ChunkStorage) -> None:
    stub.objects["a"] = b"abc"
    storage.stat("a")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover
        said = "nothing"
        try:
            storage.stat("a")
        except ClosedError as error:
            said = str(error)
        finally:
            storage.close()
            os.write(write, said.encode())
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        assert b"belongs to the process that opened it" in pipe.read()
    os.waitpid(child, 0)
    assert storage.stat("a").length == 3


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.slow
def test_closing_frees_sockets_and_threads(stub: Stub) -> None:
    stub.objects["a"] = b"abc"
    gc.collect()
    files, threads = open_files(), threading.active_count()
    for number in range(20):
        storage = S3ChunkStorage(stub.settings(put_bytes_max=5 * MIB, part_bytes=5 * MIB))
        storage.stat("a")
        storage.create(f"{number}", [bytes(11 * MIB)])
        stub.objects.pop(f"{number}")
        storage.close()
        assert not [t.name for t in threading.enumerate() if t.name.startswith("s3-")]
    gc.collect()
    # The stub itself may still be closing its ends.
    assert open_files() <= files + 40
    assert threading.active_count() <= threads + 40


def test_unfinished_uploads_are_swept(stub: Stub, storage: S3ChunkStorage) -> None:
    stub.objects["s"] = bytes(6 * MIB)
    stub.fail("POST?uploadId", broken, broken)
    for name in ("data/c0/a", "other/a"):
        with pytest.raises(Exception, match="no whole answer"):
            storage.concat(name, [("s", 6 * MIB)])
    assert len(stub.uploads) == 2
    assert storage.sweep_leftovers("data/c0/", age_s=1e12) == 0
    assert storage.sweep_leftovers("data/c0/", age_s=60) == 1
    assert [key for key, _ in stub.uploads.values()] == ["other/a"]
    assert storage.sweep_leftovers("data/c0/", age_s=60) == 0
