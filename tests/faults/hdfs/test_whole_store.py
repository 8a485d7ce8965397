"""A whole store on a real server that is killed in the middle of its flushes, and comes back.

What may fail: every call to the service, at any moment, while the server is down or dies. What must
hold is told in ``tests/support/faults/whole_life.py``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

import siltstone
from services.hdfs import Hdfs
from siltstone.bindings.hdfs.chunk_storage import HdfsChunkStorage
from siltstone.bindings.hdfs.settings import HdfsSettings
from siltstone.core.errors import ChunkUnavailableError, Outcome, SiltstoneError
from tests.support.faults.whole_life import new_store, whole_life
from tests.support.services.hdfs_services import new_folder, options_of, settings_of
from tests.support.services.raw_hdfs import RawHdfs
from tests.support.soak import share_of

DELAYS_S = (0.02, 0.15, 0.05, 0.3)
"""How far a flush gets before the server dies."""


@pytest.mark.slow
@pytest.mark.usefixtures("hdfs_plugin")
def test_a_server_that_is_killed_in_the_middle_of_flushes(hdfs: Hdfs, tmp_path: Path) -> None:
    """The server that all tests share; it is left as it was."""
    play(hdfs, tmp_path / "store", 1)


@pytest.mark.soak
@pytest.mark.usefixtures("hdfs_plugin")
def test_a_server_that_is_killed_again_and_again(new_hdfs: Hdfs, tmp_path: Path) -> None:
    play(new_hdfs, tmp_path / "store", share_of(30))


OWNER = """
import sys, siltstone
with siltstone.open(sys.argv[1]) as store:
    segment = store.create("a")
    for number in range(100_000):
        segment.append(bytes([number % 251]) * 10_000)
        if number % 4 == 0:
            segment.flush()
        print(number + 1, flush=True)
"""


@pytest.mark.usefixtures("hdfs_plugin")
def test_an_owner_that_is_killed_loses_nothing(hdfs: Hdfs, tmp_path: Path) -> None:
    """It may leave a file open, whose lease does not have to be awaited."""
    path = new_folder()
    options = options_of(hdfs, path, lease_wait_s=0.2, unsafe_append=True)
    place = tmp_path / "store"
    siltstone.init(place, binding="hdfs", options=options)
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(place)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    with owner:
        assert owner.stdout is not None
        acknowledged = 0
        while acknowledged < 30:
            acknowledged = int(owner.stdout.readline())
        owner.kill()
        told = owner.stdout.read().split()
        acknowledged = int(told[-1]) if told else acknowledged
    with siltstone.open(place) as store:
        segment = store.segment("a")
        length = segment.info().length
        assert length >= acknowledged * 10_000
        wanted = b"".join(bytes([number % 251]) * 10_000 for number in range(length // 10_000))
        assert segment.read(0, length) == wanted
        segment.append(b"more")
        segment.flush()
        assert [finding for finding in store.check() if finding.severity == "damage"] == []
    shutil.rmtree(place / "index")
    with siltstone.open(place) as store:
        assert store.segment("a").read(0, length + 4) == wanted + b"more"


def play(server: Hdfs, place: Path, deaths: int) -> None:
    """In turns one of each kind dies, the NameNode, one DataNode, all, or both DataNodes."""
    deadly: tuple[Callable[[], None], ...]

    def kill_one_of_each() -> None:
        server.datanodes[1].kill()
        server.kill_namenode()

    deadly = (
        kill_one_of_each,
        server.kill_namenode,
        server.datanodes[0].kill,
        server.kill,
        server.kill_datanodes,
    )
    path = new_folder()
    raw = RawHdfs(server.endpoint, path)
    options = options_of(server, path, lease_wait_s=1, deadline_s=3)
    new_store(place, "hdfs", options, storage_s=4)
    with ThreadPoolExecutor(1) as thread, whole_life(place, raw.read) as (store, ledger):
        for number in range(deaths):
            ledger.append(store, number)
            flushing = thread.submit(store.flush)
            time.sleep(DELAYS_S[number % len(DELAYS_S)])
            deadly[number % len(deadly)]()
            ledger.append(store, number + deaths)
            if not server.is_running:
                server.start_namenode()
                if not all(datanode.is_running for datanode in server.datanodes):
                    it_is_in_safe_mode(settings_of(server, path))
            server.start_datanodes()
            error = flushing.exception()
            assert error is None or isinstance(error, SiltstoneError)


def it_is_in_safe_mode(settings: HdfsSettings) -> None:
    """A NameNode waits for a DataNode: reads are answered, and no change has an effect."""
    with closing(HdfsChunkStorage(settings)) as storage:
        name, size = next((chunk.name, chunk.length) for chunk in storage.list())
        changes: tuple[Callable[[], None], ...] = (
            lambda: storage.create("new", [b"x"]),
            lambda: storage.delete(name),
        )
        for change in changes:
            with pytest.raises(ChunkUnavailableError, match="takes no changes") as caught:
                change()
            assert caught.value.outcome is Outcome.NOT_APPLIED
        assert storage.stat(name).length == size
