"""A process that reads by obstore and forks; prints what happened as one JSON object.

``python -m tests.faults.s3.obstore_process SCENARIO`` takes the settings of the binding from its
input. obstore's threads are the process's, and are of no use afterwards.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import obstore
from obstore.store import S3Store

from siltstone.bindings.s3 import obstore_reads
from siltstone.bindings.s3.chunk_storage import S3ChunkStorage
from siltstone.bindings.s3.settings import S3Settings
from siltstone.core.errors import ChunkUnavailableError, ClosedError

CONTENT = bytes(range(256)) * 64
WIDTH = 4
READS = 60


class Warnings(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []
        logging.getLogger("siltstone.bindings.s3").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def foreign(settings: S3Settings) -> S3Store:
    """What other code in the process might have, without limits."""
    assert settings.access_key_id is not None
    assert settings.secret_access_key is not None
    return S3Store(
        settings.bucket,
        endpoint=settings.endpoint,
        region=settings.region,
        access_key_id=settings.access_key_id.get_secret_value(),
        secret_access_key=settings.secret_access_key.get_secret_value(),
        client_options={"allow_http": True},
    )


def ends(storage: S3ChunkStorage, number: int) -> tuple[str, float]:
    """How a read ended, and after how many seconds."""
    begun = time.monotonic()
    buffer = bytearray(1_000)
    try:
        found = storage.read_into("a", number, buffer)
    except ChunkUnavailableError:
        return "unavailable", time.monotonic() - begun
    except ClosedError:
        return "closed", time.monotonic() - begun
    right = found == 1_000 and buffer == CONTENT[number : number + 1_000]
    return "right" if right else "wrong", time.monotonic() - begun


def held() -> int:
    """Threads and descriptors of this process."""
    return threading.active_count() + len(list(Path("/proc/self/fd").iterdir()))


def reads(storage: S3ChunkStorage) -> dict[str, Any]:
    """Some reads, several at a time, and how many of them ended in which way."""
    with ThreadPoolExecutor(WIDTH) as threads:
        first = [*threads.map(lambda number: ends(storage, number), range(4 * WIDTH))]
        before = held()
        rest = [*threads.map(lambda number: ends(storage, number), range(READS))]
        more = held() - before
    return {
        "ended": sorted({how for how, _ in first}),
        "lost": sum(how == "unavailable" for how, _ in first),
        "longest_s": max(seconds for _, seconds in first),
        "afterwards": sorted({how for how, _ in rest}),
        "more": more,
    }


@contextmanager
def forked(call: Any) -> Iterator[Any]:
    """A child that calls, and what it returned if it ended by itself."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, (json.dumps(call()) + "\n").encode())
        os._exit(0)
    os.close(write)
    try:
        with os.fdopen(read, "r", encoding="utf-8") as pipe:
            yield pipe
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def other_code_in_a_child(settings: S3Settings) -> dict[str, Any]:
    """A child asks obstore by itself, which makes it deaf here."""
    warnings, storage = Warnings(), S3ChunkStorage(settings)
    assert ends(storage, 0)[0] == "right"
    begun, begins = os.pipe()

    def ask() -> None:
        os.write(begins, b"x")
        obstore.get_range(foreign(settings), "a", start=0, length=1)

    with forked(ask):
        os.read(begun, 1)
        time.sleep(0.5)
        told = reads(storage)
        again = S3ChunkStorage(settings)
        told["opened_again"] = ends(again, 0)[0]
        again.close()
    storage.close()
    return {**told, "warnings": len(warnings.texts), "threads": names()}


def in_a_child(settings: S3Settings) -> dict[str, Any]:
    """A child has the storage of its parent, and one of its own."""
    storage = S3ChunkStorage(settings)
    assert ends(storage, 0)[0] == "right"

    def ask() -> dict[str, Any]:
        warnings, own = Warnings(), S3ChunkStorage(settings)
        told = {**reads(own), "inherited": ends(storage, 0)[0], "warnings": len(warnings.texts)}
        own.close()
        return told

    with forked(ask) as pipe:
        told: dict[str, Any] = json.loads(pipe.readline())
        told["parent"] = reads(storage)["afterwards"]
    storage.close()
    return told


def in_a_child_of_other_code(settings: S3Settings) -> dict[str, Any]:
    """The use of obstore before the fork is not ours, so we cannot know of it."""
    theirs = foreign(settings)
    assert bytes(obstore.get_range(theirs, "a", start=0, length=3)) == CONTENT[:3]
    with forked(lambda: reads(S3ChunkStorage(settings))) as pipe:
        told: dict[str, Any] = json.loads(pipe.readline())
        found = bytes(obstore.get_range(theirs, "a", start=0, length=3))
        told["parent"] = ["right" if found == CONTENT[:3] else "wrong"]
    return told


def names() -> list[str]:
    """Threads that the binding left."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("s3-")]


SCENARIOS = {
    call.__name__: call for call in (other_code_in_a_child, in_a_child, in_a_child_of_other_code)
}

if __name__ == "__main__":
    obstore_reads.GRACE_S = 0.5  # type: ignore[misc]
    told = SCENARIOS[sys.argv[1]](S3Settings.model_validate_json(sys.stdin.read()))
    sys.stdout.write(json.dumps(told))
