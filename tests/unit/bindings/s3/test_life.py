"""Processes, threads and sockets: fork, pickle, close, and uploads that were not completed."""

from __future__ import annotations

import gc
import threading

import pytest

from siltstone.bindings.s3.chunk_storage import S3ChunkStorage
from siltstone.core.constants import MIB
from tests.support.stubs.read_suite import (  # noqa: F401
    open_files,
    test_after_a_fork_the_child_is_told,
    test_it_cannot_be_pickled,
    test_secrets_are_not_in_its_name,
)
from tests.support.stubs.s3_stub import Stub, broken


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
