"""A client's folder: names, settings, one process, and what goes with a volume that is dropped."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from errno import ENOSPC
from io import BytesIO
from pathlib import Path

import pytest

from siltstone import volumes
from siltstone.bindings.memory.bucket import Bucket
from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import ClosedError, SettingsError, StoreError, StoreInUseError
from siltstone.volumes import push
from siltstone.volumes.partitions import VolumePartition
from siltstone.volumes.settings import ClientSettings
from tests.support.volumes.page_model import PAGE_BYTES

PAGE = b"p" * PAGE_BYTES


@pytest.fixture
def client(tmp_path: Path) -> Iterator[volumes.VolumeClient]:
    with volumes.open(tmp_path / "a", place=str(tmp_path / "place")) as client:
        yield client


def commit(volume: volumes.Volume, index: int, page: bytes = PAGE) -> None:
    with volume.writer() as writer:
        writer.write(index, page)
        writer.commit()


def test_a_client_finds_its_volumes_and_its_place_again(tmp_path: Path) -> None:
    with volumes.open(tmp_path / "a", place=str(tmp_path / "place")) as client:
        commit(client.create("one"), 7)
        client.volume("one").push()
        log = client.volume("one").log
        client.create("two")
    with volumes.open(tmp_path / "a") as client:
        assert client.names() == ["one", "two"]
        assert client.volume("one").log == log
        commit(client.volume("one"), 8)
        client.volume("one").push()
        with client.volume("one").reader() as reader:
            assert (reader.read(7), reader.read(8)) == (PAGE, PAGE)
    assert sorted(each.name for each in (tmp_path / "place").iterdir()) == [
        ".siltstone-drafts",
        "volumes",
    ]


def test_a_new_client_needs_a_place(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="give the place"):
        volumes.open(tmp_path / "a")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("place: p\ninterval: .inf", "interval"),
        ("place: p\nsync: sideways", "sync"),
        ("place: p\ninterval: 0s", "interval"),
        ("place: p\ninterval: 30", "interval"),
        ("place: p\ncache: 5 GB", "cache"),
        ("place: p\nlevel: 20", "level"),
        ("place: p\ndurability: none", "durability"),
        ("place: p\nunknown: 1", "unknown"),
        ("sync: both", "place"),
    ],
)
def test_wrong_settings_are_told_with_their_line(tmp_path: Path, line: str, told: str) -> None:
    (tmp_path / "volumes.yaml").write_text(line)
    with pytest.raises(SettingsError, match=rf"volumes.yaml.*{told}"):
        volumes.open(tmp_path)


@pytest.mark.parametrize("name", ["", "a\n", "\0", "x" * 256, "ä" * 128, "\udc80"])
def test_a_name_that_cannot_be_shown_is_refused(client: volumes.VolumeClient, name: str) -> None:
    with pytest.raises(volumes.VolumeNameError):
        client.create(name)
    assert client.names() == []


def test_a_place_below_the_home_folder_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "volumes.yaml").write_text("place: ~/place\n")
    with volumes.open(tmp_path / "a") as client:
        client.create("v").fetch()
    assert (tmp_path / "home" / "place" / "volumes" / "place").is_file()


def test_a_name_is_used_once(client: volumes.VolumeClient) -> None:
    client.create("v")
    with pytest.raises(volumes.VolumeExistsError):
        client.create("v")
    with pytest.raises(volumes.VolumeNotFoundError, match="volume=w"):
        client.volume("w")


def test_a_dropped_volume_is_gone_here_and_stays_in_the_place(
    client: volumes.VolumeClient,
) -> None:
    volume = client.create("v")
    commit(volume, 1)
    volume.push()
    kept = client.create("kept")
    commit(kept, 1)
    reader, writer = volume.reader(), volume.writer()
    client.drop("v")
    assert client.names() == ["kept"]
    for use in (
        lambda: reader.read(1),
        lambda: writer.write(1, PAGE),
        volume.reader,
        volume.push,
        volume.pull,
    ):
        with pytest.raises(volumes.VolumeNotFoundError):
            use()
    reader.close()
    again = client.clone("v", volume.log)
    with again.reader() as found, kept.reader() as other:
        assert (found.read(1), other.read(1)) == (PAGE, PAGE)


def test_the_records_of_a_log_go_with_its_last_volume(client: volumes.VolumeClient) -> None:
    volume = client.create("v")
    commit(volume, 1)
    volume.push()
    again = client.clone("again", volume.log)
    client.drop("v")
    commit(again, 2)
    assert again.push()
    client.drop("again")
    rows = again._local.rows
    assert rows.known(bytes.fromhex(again.log)) == 0


def test_a_reader_may_be_closed_after_its_client(tmp_path: Path) -> None:
    client = volumes.open(tmp_path / "a", place=str(tmp_path / "place"))
    volume = client.create("v")
    commit(volume, 1)
    reader, writer = volume.reader(), volume.writer()
    commit(volume, 1)
    client.close()
    with pytest.raises(ClosedError):
        reader.read(1)
    reader.close()
    writer.close()


def test_a_second_process_is_refused(client: volumes.VolumeClient, tmp_path: Path) -> None:
    with pytest.raises(StoreInUseError, match="client's folder"):
        volumes.open(tmp_path / "a")
    script = f"from siltstone import volumes; volumes.open({str(tmp_path / 'a')!r})"
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "StoreInUseError" in told.stderr


def test_a_closed_client_says_so(tmp_path: Path) -> None:
    client = volumes.open(tmp_path / "a", place=str(tmp_path / "place"))
    volume = client.create("v")
    client.close()
    client.close()
    for use in (client.names, lambda: client.create("w"), volume.reader, volume.info):
        with pytest.raises(ClosedError):
            use()


@pytest.mark.parametrize("index", [0, -1, 2**32])
def test_an_index_that_no_volume_has_is_refused(client: volumes.VolumeClient, index: int) -> None:
    with client.create("v").writer() as writer:
        with pytest.raises(ValueError, match="numbered from 1"):
            writer.read(index)
        with pytest.raises(ValueError, match="numbered from 1"):
            writer.write(index, PAGE)
        with pytest.raises(ValueError, match="pages"):
            writer.truncate(index if index else 2**32)


@pytest.mark.parametrize("page", [b"", b"x" * 4095, b"x" * 4097])
def test_a_page_of_another_length_is_refused(client: volumes.VolumeClient, page: bytes) -> None:
    with client.create("v").writer() as writer, pytest.raises(ValueError, match="4096 bytes"):
        writer.write(1, page)


def test_the_last_page_that_a_volume_can_have_is_synced(
    client: volumes.VolumeClient, tmp_path: Path
) -> None:
    volume = client.create("v")
    commit(volume, 2**32 - 1)
    with volume.writer() as writer:
        writer.truncate(3)
        writer.commit()
    with volume.writer() as writer:
        writer.truncate(2**32 - 1)
        writer.write(5, PAGE)
        writer.commit()
    volume.push()
    with (
        volumes.open(tmp_path / "b", place=str(tmp_path / "place")) as other,
        other.clone("v", volume.log).reader() as reader,
        volume.reader() as mine,
    ):
        for each in (reader, mine):
            assert each.page_count == 2**32 - 1
            assert each.read(5) == PAGE
            assert each.read(2**32 - 1) == bytes(PAGE_BYTES)


def test_volumes_are_synced_in_the_background(tmp_path: Path) -> None:
    folder, place = tmp_path / "a", str(tmp_path / "place")
    with volumes.open(folder, place=place) as client:
        commit(client.create("v"), 1)
        log = client.volume("v").log
    with (folder / "volumes.yaml").open("a") as file:
        file.write("interval: 10ms\n")
    with volumes.open(folder) as client:
        ended = threading.Event()
        while client.volume("v").info().unpushed:
            ended.wait(0.01)
        commit(client.volume("v"), 2)
        while client.volume("v").info().unpushed:
            ended.wait(0.01)
        assert client.volume("v").info().line == "2 r2"
    with volumes.open(tmp_path / "b", place=place) as other:
        assert other.clone("v", log).info().remote == 2


def test_a_sync_in_the_background_goes_on_whatever_one_met(tmp_path: Path) -> None:
    bucket, met = Bucket(), threading.Event()

    def opened() -> MemoryChunkStorage:
        if not met.is_set():
            met.set()
            raise OSError("no room")
        return MemoryChunkStorage(bucket)

    settings = ClientSettings.model_validate({"place": "memory", "interval": "10ms"})
    with volumes.VolumeClient(tmp_path, settings, opened, SystemEnvironment()) as client:
        commit(client.create("v"), 1)
        assert met.wait(5)
        for _ in range(500):
            if not client.volume("v").info().unpushed:
                break
            threading.Event().wait(0.01)
        assert client.volume("v").info().line == "1 r1"


def test_a_close_waits_for_the_sync_of_one_volume_only(tmp_path: Path) -> None:
    bucket, begun, goes_on = Bucket(), threading.Event(), threading.Event()

    def opened() -> MemoryChunkStorage:
        begun.set()
        assert goes_on.wait(5)
        return MemoryChunkStorage(bucket)

    settings = ClientSettings.model_validate({"place": "memory", "interval": "500ms"})
    client = volumes.VolumeClient(tmp_path, settings, opened, SystemEnvironment())
    for name in ("a", "b"):
        commit(client.create(name), 1)
    assert begun.wait(5)
    closing = threading.Thread(target=client.close)
    closing.start()
    assert client._stopped.wait(5)
    goes_on.set()
    closing.join(5)
    assert len([key for key in bucket.keys if b"/commits/" in key]) == 1


def test_a_push_without_room_for_a_bundle_says_so(
    client: volumes.VolumeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = client.create("v")
    commit(volume, 1)
    with monkeypatch.context() as patch:
        patch.setattr(push, "SpooledTemporaryFile", lambda _, **place: FullFile())
        with pytest.raises(StoreError, match="no room"):
            volume.push()
    assert client.sync()[0].action is volumes.SyncAction.PUSHED


class FullFile(BytesIO):
    """A file on a disk that is full."""

    def write(self, data: object) -> int:
        raise OSError(ENOSPC, "No space left on device")


def test_verbs_that_need_no_place_do_not_wait_for_it(tmp_path: Path) -> None:
    asked, goes_on = threading.Event(), threading.Event()

    def opened() -> MemoryChunkStorage:
        asked.set()
        assert goes_on.wait(5)
        return MemoryChunkStorage(Bucket())

    settings = ClientSettings(place="memory")
    with volumes.VolumeClient(tmp_path, settings, opened, SystemEnvironment()) as client:
        pushing = threading.Thread(target=client.create("a").fetch)
        pushing.start()
        assert asked.wait(5)
        made = threading.Thread(target=client.create, args=("b",))
        made.start()
        made.join(4)
        was_made = not made.is_alive()
        goes_on.set()
        pushing.join(5)
    assert was_made


def test_a_client_that_cannot_be_made_leaves_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = str(tmp_path / "place")
    with monkeypatch.context() as patch:
        patch.setattr(volumes.VolumeClient, "_own_id", lambda _: 1 // 0)
        with pytest.raises(ZeroDivisionError) as raised:
            volumes.open(tmp_path / "a", place=place)
    with volumes.open(tmp_path / "a") as client:
        assert client.names() == []
    del raised  # what it refers to was alive until now


def test_a_batch_of_a_client_that_is_closed_meanwhile_says_so(
    client: volumes.VolumeClient,
) -> None:
    batch = client._partitions.batch()
    client.close()
    with pytest.raises(ClosedError):
        batch.put(VolumePartition.PAGES, b"key", b"value")


FORKED = """
import os, sys
from siltstone import volumes
from siltstone.core.errors import StoreError
client = volumes.open(sys.argv[1], place=sys.argv[2])
volume = client.create("v")
with volume.writer() as writer:
    writer.write(1, b"p" * 4096)
    writer.commit()
reader, writer = volume.reader(), volume.writer()
writer.write(1, b"q" * 4096)
child = os.fork()
if not child:
    for verb in (writer.commit, volume.info, volume.push, client.names, lambda: reader.read(1)):
        try:
            verb()
        except StoreError as error:
            assert "forked" in str(error), error
        else:
            os._exit(1)
    client.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
writer.commit()
client.close()
client = volumes.open(sys.argv[1])
assert client.volume("v").info().line == "2 +2 r_"
client.close()
"""


def test_a_forked_process_cannot_use_the_client_of_its_parent(tmp_path: Path) -> None:
    folders = [str(tmp_path / name) for name in ("a", "place")]
    subprocess.run([sys.executable, "-c", FORKED, *folders], check=True, timeout=60)
