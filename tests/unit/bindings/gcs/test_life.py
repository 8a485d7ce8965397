"""Processes, threads and sockets: fork, pickle, close, and what remains after joins."""

from __future__ import annotations

import gc
import os
import pickle
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from siltstone.bindings.gcs.chunk_storage import GcsChunkStorage
from siltstone.core.errors import ChunkError, ClosedError, Outcome
from tests.support.stubs.gcs_stub import Reply, Request, Stub, broken, lost_reply


def test_it_cannot_be_pickled(storage: GcsChunkStorage) -> None:
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(storage)


def test_secrets_are_not_in_its_name(storage: GcsChunkStorage) -> None:
    assert repr(storage) == "GcsChunkStorage(bucket='bucket', prefix='')"


def test_after_a_fork_the_child_is_told(stub: Stub, storage: GcsChunkStorage) -> None:
    stub.store("a", b"abc")
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
    stub.store("a", b"abc")
    stub.store("b", b"abc")
    gc.collect()
    files, threads = open_files(), threading.active_count()
    for number in range(20):
        storage = GcsChunkStorage(stub.settings())
        storage.stat("a")
        storage.concat(f"{number}", [("a", 3), ("b", 3)])
        storage.close()
        assert not [t.name for t in threading.enumerate() if t.name.startswith("gcs-")]
    gc.collect()
    # The stub itself may still be closing its ends.
    assert open_files() <= files + 60
    assert threading.active_count() <= threads + 60


@pytest.mark.slow
def test_what_a_join_could_not_remove_is_hidden_and_swept(
    stub: Stub, storage: GcsChunkStorage
) -> None:
    names = [f"s/{number:02}" for number in range(40)]
    for name in names:
        stub.store(name, b"x")
    for target in ("data/c0/a", "other/a"):
        stub.fail("delete", broken, broken)
        storage.concat(target, [(name, 1) for name in names])
    left = [key for key in stub.objects if "//" in key]
    assert len(left) == 4
    assert all(key.startswith("/") for key in left)
    assert {chunk.name for chunk in storage.list()} == {*names, "data/c0/a", "other/a"}
    assert storage.sweep_leftovers("data/c0/", age_s=3600) == 0
    assert storage.sweep_leftovers("data/c0/", age_s=0) == 2
    assert len([key for key in stub.objects if "//" in key]) == 2
    assert storage.sweep_leftovers("data/c0/", age_s=0) == 0
    assert storage.sweep_leftovers("", age_s=0) == 2
    assert not [key for key in stub.objects if "//" in key]


def test_the_sweep_spares_what_came_since_it_looked(stub: Stub, storage: GcsChunkStorage) -> None:
    key = "/data/c0/a//0123456789abcdef/0"
    stub.store(key, b"old", age_s=1e6)

    def replaced(_: Request, carry_out: Callable[[], Reply]) -> Reply:
        stub.store(key, b"new")
        return carry_out()

    stub.fail("delete", replaced)
    assert storage.sweep_leftovers("data/", age_s=3600) == 0
    assert stub.contents() == {key: b"new"}


def test_a_join_that_fails_before_its_last_step_leaves_nothing(
    stub: Stub, storage: GcsChunkStorage
) -> None:
    names = [f"s/{number:02}" for number in range(70)]
    for name in names:
        stub.store(name, b"x")
    before = stub.contents()
    stub.fail("compose", lost_reply)
    with pytest.raises(ChunkError) as caught:
        storage.concat("t", [(name, 1) for name in names])
    assert caught.value.outcome is Outcome.NOT_APPLIED
    assert stub.contents() == before


def test_a_long_target_leaves_room_for_names_in_between(
    stub: Stub, storage: GcsChunkStorage
) -> None:
    target = "é" * 511
    for number in range(33):
        stub.store(f"{number}", b"x")
    storage.concat(target, [(f"{number}", 1) for number in range(33)])
    keys = [request.key for request in stub.asked if request.what == "compose"]
    assert max(len(key.encode()) for key in keys) <= 1_024
    assert storage.stat(target).length == 33
