"""A whole store in a folder of HDFS: made, used, probed; and what is wrong with a folder."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

import siltstone
from services.hdfs import Hdfs
from siltstone.bindings.hdfs.chunk_storage import HdfsChunkStorage, open_folder
from siltstone.bindings.hdfs.service import Service
from siltstone.core.constants import MIB
from siltstone.core.errors import (
    ChunkNameError,
    ChunkUnavailableError,
    ClosedError,
    Outcome,
    SettingsError,
    SiltstoneError,
    StoreExistsError,
)
from siltstone.store.admin.doctor import diagnose
from tests.support.services.hdfs_services import HdfsService, new_folder, options_of, settings_of
from tests.support.services.raw_hdfs import RawHdfs
from tests.support.soak import share_of

TOKEN = f"canary-{os.urandom(12).hex()}"


@pytest.mark.usefixtures("hdfs_plugin")
def test_a_store_lives_in_a_folder(hdfs: Hdfs, tmp_path: Path) -> None:
    path = new_folder()
    raw = RawHdfs(hdfs.endpoint, path)
    file = siltstone.init(tmp_path / "store", binding="hdfs", options=options_of(hdfs, path))
    parts = [bytes([number]) * 300_000 for number in range(6)]
    with siltstone.open(file) as store:
        segment = store.create("a")
        for part in parts:
            segment.append(part)
            segment.flush()
        gone = store.create("gone")
        gone.append(b"x" * 5_000)
        gone.flush()
        gone.delete()
    with siltstone.open(file, read_only=True) as store:
        assert store.segment("a").read(250_000, 100_000) == b"".join(parts)[250_000:350_000]
    names = raw.names()
    assert names
    probes = list(diagnose(file))
    assert [probe for probe in probes if probe.outcome == "failed"] == []
    found = {probe.name: probe.outcome for probe in probes if probe.area == "storage"}
    assert found["create is exclusive"] == found["listings are in order"] == "ok"
    assert sorted(raw.names()) == sorted(names)
    with pytest.raises(StoreExistsError, match="not empty"):
        siltstone.init(tmp_path / "other", binding="hdfs", options=options_of(hdfs, path))


@pytest.mark.usefixtures("hdfs_plugin")
def test_wrong_options_are_named(hdfs: Hdfs, tmp_path: Path) -> None:
    file = new_folder()
    RawHdfs(hdfs.endpoint, file.rpartition("/")[0]).write(file.rpartition("/")[2], b"x")
    cases: list[tuple[dict[str, Any], str]] = [
        ({"path": file}, r"hdfs\.path.* is no folder"),
        ({"colour": "red"}, r"hdfs\.colour"),
        ({"insecure": False}, "insecure"),
        ({"webhdfs": f"http://127.0.0.1:{hdfs.port}/x"}, "end with the port"),
        ({"webhdfs": "http://127.0.0.1:9"}, r"hdfs\.webhdfs"),
        ({"webhdfs": f"http://127.0.0.1:{hdfs.rpc_port}"}, r"hdfs\.webhdfs"),
    ]
    for more, said in cases:
        wanted = options_of(hdfs, new_folder()) | {"webhdfs_token": TOKEN} | more
        with pytest.raises(SettingsError, match=said) as caught:
            siltstone.init(tmp_path / "store", binding="hdfs", options=wanted)
        assert TOKEN not in str(caught.value)
        assert not (tmp_path / "store").exists()


def test_no_server_at_the_address(hdfs: Hdfs) -> None:
    settings = settings_of(hdfs, new_folder(), namenode="hdfs://127.0.0.1:9")
    with pytest.raises(ChunkUnavailableError):
        open_folder(settings)
    storage = HdfsChunkStorage(settings)
    with pytest.raises(ChunkUnavailableError) as caught:
        storage.create("a", [b"x"])
    assert caught.value.outcome is Outcome.UNKNOWN
    storage.close()


AS_BOB = """
import sys
from siltstone.bindings.hdfs.chunk_storage import open_folder
from siltstone.bindings.hdfs.settings import HdfsSettings
storage = open_folder(HdfsSettings.model_validate_json(sys.argv[1]))
buffer = bytearray(3)
print(storage.read_into("a", 0, buffer), bytes(buffer), [found.name for found in storage.list()])
calls = {
    "create": lambda: storage.create("b", [b"x"]),
    "write": lambda: storage.write("a", 3, [b"x"]),
    "delete": lambda: storage.delete("a"),
    "seal": lambda: storage.seal("a"),
}
for name, call in calls.items():
    try:
        call()
    except Exception as error:
        print(name, type(error).__name__, error.outcome)
"""


def test_a_user_that_may_only_read(hdfs: Hdfs) -> None:
    """The client takes the user from the environment, once for a process."""
    service = HdfsService(server=hdfs, more={"unsafe_append": True})
    service.outside_write("a", b"abc")
    done = subprocess.run(
        [sys.executable, "-c", AS_BOB, service.settings.model_dump_json()],
        env={**os.environ, "HADOOP_USER_NAME": "bob"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.splitlines() == [
        "3 b'abc' ['a']",
        *(f"{name} ChunkAccessDeniedError not applied" for name in ("create", "write")),
        *(f"{name} ChunkAccessDeniedError not applied" for name in ("delete", "seal")),
    ]
    assert service.outside_read("a") == b"abc"


def test_a_process_that_was_forked_is_told(hdfs: Hdfs) -> None:
    service = HdfsService(server=hdfs)
    storage = service.open()
    storage.create("a", [b"abc"])
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover
        said = []
        try:
            for call in (lambda: storage.stat("a"), lambda: Service(service.settings)):
                try:
                    call()
                except ClosedError as error:
                    said.append(str(error))
            storage.close()
        finally:
            os.write(write, "|".join(said).encode())
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    assert b"belongs to the process that opened it" in told
    assert b"spawn it instead" in told
    assert storage.stat("a").length == 3
    storage.close()


def test_nothing_shows_a_token(hdfs: Hdfs) -> None:
    settings = settings_of(hdfs, new_folder(), webhdfs_token=TOKEN)
    storage = HdfsChunkStorage(settings)
    shown = [repr(storage), repr(settings), str(settings), repr(storage.service)]
    shown += [settings.model_dump_json(), yaml.safe_dump(settings.model_dump(mode="json"))]
    for call in (lambda: storage.stat("a"), lambda: storage.write("a", 1, [b"x"])):
        with pytest.raises(SiltstoneError) as caught:
            call()
        shown += [str(caught.value), repr(caught.value), str(caught.value.__cause__)]
    storage.close()
    assert not [text for text in shown if TOKEN in text]


def held() -> tuple[int, int]:
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir())), threading.active_count()


def cycle(service: HdfsService, number: int) -> None:
    storage = service.open()
    storage.create(f"{number}", [b"x"])
    assert storage.stat(f"{number}").length == 1
    storage.delete(f"{number}")
    storage.close()


def check_cycles(service: HdfsService, count: int) -> None:
    for number in range(5):
        cycle(service, number)
    before = held()
    for number in range(count):
        cycle(service, number)
    after = held()
    # A DataNode's connection may be kept, or not.
    assert after[0] <= before[0] + 4
    assert after[1] <= before[1]


def test_opening_and_closing_leaves_nothing(hdfs: Hdfs) -> None:
    check_cycles(HdfsService(server=hdfs), 50)


@pytest.mark.soak
def test_opening_and_closing_ten_thousand_times(hdfs: Hdfs) -> None:
    check_cycles(HdfsService(server=hdfs), share_of(10_000))


def test_names_that_hdfs_cannot_hold(hdfs: Hdfs) -> None:
    service = HdfsService(server=hdfs)
    storage = service.open()
    for name in ("a:b", "d/.snapshot", ".snapshot/a", "x" * 256, f"d/{'é' * 128}/a"):
        with pytest.raises(ChunkNameError) as caught:
            storage.create(name, [b"x"])
        assert caught.value.outcome is Outcome.NOT_APPLIED
    assert service.outside_names() == []
    storage.close()


def test_folders_go_with_their_last_chunk(hdfs: Hdfs) -> None:
    service = HdfsService(server=hdfs)
    storage = service.open()
    storage.create("d/e/a", [b"x"])
    storage.create("d/b", [b"x"])
    storage.delete("d/e/a")
    assert service.raw.folders() == ["d"]
    storage.delete("d/b")
    assert service.raw.folders() == []
    assert service.raw.status() is not None, "the folder of the store stays"
    storage.close()


def test_a_large_chunk_is_whole(hdfs: Hdfs) -> None:
    service = HdfsService(server=hdfs, more={"block_size": MIB, "unsafe_append": True})
    storage = service.open()
    content = os.urandom(5 * MIB + 3)
    storage.create("a", [content[:7], memoryview(content)[7:]])
    storage.write("a", len(content), [content])
    buffer = bytearray(2 * len(content))
    assert storage.read_into("a", 0, buffer) == len(buffer)
    assert buffer == content * 2
    assert service.outside_read("a") == content * 2
    assert storage.used_space() == len(content) * 2
    storage.close()
