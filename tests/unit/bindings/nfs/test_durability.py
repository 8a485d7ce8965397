"""What is acknowledged survives a power cut, and what remains after a full disk.

The model: power is lost between or within calls; all that was not synced may be gone, in any mix.
What may not be lost: a chunk, byte or removal that was acknowledged.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
from siltstone.core.chunk_storage import Buffer
from siltstone.core.errors import ChunkError, ChunkStorageFullError, Outcome
from siltstone.core.storage.durable_writes import OUT_BYTES
from siltstone.testing.faults.file_layer import Call, FileLayer, FullDisk
from siltstone.testing.faults.power_cut import PowerCut


def stored(root: Path) -> dict[str, bytes]:
    storage = NfsChunkStorage(root)
    found = {}
    for chunk in storage.list():
        buffer = bytearray(chunk.length)
        storage.read_into(chunk.name, 0, buffer)
        found[chunk.name] = bytes(buffer)
    storage.close()
    return found


def test_acknowledged_changes_survive(disk_path: Path) -> None:
    disk = PowerCut(disk_path)
    storage = NfsChunkStorage(disk_path / "far" / "below", calls=disk)
    storage.create("a/b/c", [b"abc"])
    storage.create("a/b/d", [b"gone"])
    storage.write("a/b/c", 3, [b"def"])
    storage.delete("a/b/d")
    storage.seal("a/b/c")
    disk.cut()
    assert stored(disk_path / "far" / "below") == {"a/b/c": b"abcdef"}
    assert (disk_path / "far/below/a/b/c").stat().st_mode & 0o222 == 0


def test_a_folder_that_another_process_made_is_synced_too(disk_path: Path) -> None:
    disk = PowerCut(disk_path)
    disk.mkdir(str(disk_path / "chunks"))
    disk.mkdir(str(disk_path / "chunks" / "d"))  # Its maker died before it synced anything.
    disk.mkdir(str(disk_path / "chunks" / "d" / "e"))
    storage = NfsChunkStorage(disk_path / "chunks", calls=disk)
    storage.create("d/e/a", [b"abc"])
    disk.cut()
    assert stored(disk_path / "chunks") == {"d/e/a": b"abc"}


def test_a_folder_that_came_back_is_made_durable(disk_path: Path) -> None:
    disk = PowerCut(disk_path)
    storage = NfsChunkStorage(disk_path / "chunks", calls=disk)
    for _ in range(3):
        storage.create("d/a", [b"abc"])
        storage.delete("d/a")
    storage.create("d/b", [b"abc"])
    disk.cut()
    assert stored(disk_path / "chunks") == {"d/b": b"abc"}


def test_the_name_of_a_folder_is_synced_once(disk_path: Path) -> None:
    disk = PowerCut(disk_path)
    storage = NfsChunkStorage(disk_path / "chunks", calls=disk)
    storage.create("d/e/a", [b"abc"])
    disk.forget()
    storage.create("d/e/b", [b"abc"])
    storage.create_whole("d/e/c", [b"abc"])
    # The folder of drafts is new, but no name in it has to stay.
    assert disk.targets("fsync") == ["e", "e"]
    disk.forget()
    storage.create("d/f/a", [b"abc"])
    assert disk.targets("fsync") == ["f", "d"]
    disk.cut()
    assert stored(disk_path / "chunks").keys() == {"d/e/a", "d/e/b", "d/e/c", "d/f/a"}


def test_a_folder_that_others_removed_and_made_again_is_synced_again(disk_path: Path) -> None:
    disk = PowerCut(disk_path)
    storage = NfsChunkStorage(disk_path / "chunks", calls=disk)
    storage.create("d/e/a", [b"abc"])
    NfsChunkStorage(disk_path / "chunks", calls=disk).delete("d/e/a")
    assert not (disk_path / "chunks" / "d").exists()
    disk.mkdir(str(disk_path / "chunks" / "d"))  # Its maker died before it synced anything.
    disk.mkdir(str(disk_path / "chunks" / "d" / "e"))
    storage.create("d/e/b", [b"abc"])
    disk.cut()
    assert stored(disk_path / "chunks") == {"d/e/b": b"abc"}


def test_all_folders_are_synced_where_none_can_be_told_from_older_ones(disk_path: Path) -> None:
    class Mute(FileLayer):
        def identity(self, fd: int) -> tuple[int, ...] | None:
            del fd
            return None

    layer = Mute()
    storage = NfsChunkStorage(disk_path / "chunks", calls=layer)
    storage.create("d/e/a", [b"abc"])
    layer.forget()
    storage.create("d/e/b", [b"abc"])
    assert layer.targets("fsync") == ["e", "d", "chunks"]


def run(storage: NfsChunkStorage, acknowledged: dict[str, bytes | None]) -> None:
    storage.create("d/e/a", [b"a" * 700])
    acknowledged["d/e/a"] = b"a" * 700
    storage.write("d/e/a", 700, [b"b" * 700])
    acknowledged["d/e/a"] = b"a" * 700 + b"b" * 700
    storage.create_from("d/e/s", 1_000, [b"s" * 700, b"t" * 300])
    acknowledged["d/e/s"] = b"s" * 700 + b"t" * 300
    storage.create("d/e/b", [b"x"])
    acknowledged["d/e/b"] = b"x"
    storage.delete("d/e/b")
    acknowledged["d/e/b"] = None


def run_until_the_power_is_cut(root: Path, number: int, keep: float) -> None:
    """Cut the power before file call ``number``; what was acknowledged by then must be there."""
    root.mkdir()
    disk = PowerCut(root)
    layer = FileLayer(disk)

    def cut(call: Call) -> None:
        if len(layer.calls) == number:
            disk.cut(keep=keep, seed=number)

    layer.before = cut
    acknowledged: dict[str, bytes | None] = {}
    with suppress(ChunkError):  # Closing a folder may have been the last call; that proves nothing.
        run(NfsChunkStorage(root / "chunks", calls=layer), acknowledged)
    assert len(layer.calls) >= number
    found = stored(root / "chunks")
    for name, content in acknowledged.items():
        if content is None:
            assert name not in found
        elif name == "d/e/b":  # Its delete may have begun.
            assert found.get(name, content) == content
        else:
            assert found[name][: len(content)] == content


@pytest.mark.slow
@pytest.mark.parametrize("keep", [0.0, 0.5, 1.0])
def test_power_may_be_cut_at_every_call(disk_path: Path, keep: float) -> None:
    layer = FileLayer()
    run(NfsChunkStorage(disk_path / "clean", calls=layer), {})
    assert len(layer.calls) > 40
    for number in range(1, len(layer.calls) + 1):
        run_until_the_power_is_cut(disk_path / f"{number}", number, keep)


def test_every_new_folder_and_name_is_synced(disk_path: Path) -> None:
    layer = FileLayer()
    storage = NfsChunkStorage(disk_path / "chunks", calls=layer)
    storage.create("d/e/a", [b"abc"])
    assert layer.targets("fdatasync") == ["a"]
    # The folder that holds the root, then from the chunk's folder up to the root.
    assert layer.targets("fsync") == [str(disk_path), "e", "d", "chunks"]
    layer.forget()
    storage.delete("d/e/a")
    assert layer.targets("fsync") == ["e"]
    storage.close()


def test_a_streamed_create_syncs_what_a_create_does(disk_path: Path) -> None:
    layer = FileLayer()
    storage = NfsChunkStorage(disk_path / "chunks", calls=layer)
    storage.create_from("d/e/a", 3 * OUT_BYTES, [bytes(OUT_BYTES)] * 3)
    kinds = ("pwritev", "write_out", "fdatasync", "fsync")
    assert [call.kind for call in layer.calls if call.kind in kinds] == [
        "fsync", "pwritev", "write_out", "pwritev", "write_out", "pwritev",
        "fdatasync", "fsync", "fsync", "fsync",
    ]  # fmt: skip
    assert layer.targets("fdatasync") == ["a"]
    assert layer.targets("fsync") == [str(disk_path), "e", "d", "chunks"]
    storage.close()


@pytest.mark.parametrize("kind", ["pwritev", "write_out", "fdatasync", "fsync", "close"])
def test_a_streamed_create_that_fails_is_unknown_and_no_failure_of_its_pieces(
    disk_path: Path, kind: str
) -> None:
    layer = FileLayer()
    storage = NfsChunkStorage(disk_path / "chunks", calls=layer)
    storage.create("a", [b"x"])
    layer.forget()
    layer.fail_call(kind)
    with pytest.raises(ChunkError) as caught:
        storage.create_from("b", 2 * OUT_BYTES, [bytes(OUT_BYTES)] * 2)
    assert caught.value.outcome is Outcome.UNKNOWN
    storage.close()


def test_syncs_come_before_the_acknowledgement_and_in_order(disk_path: Path) -> None:
    layer = FileLayer()
    storage = NfsChunkStorage(disk_path / "chunks", calls=layer)
    storage.create("a", [b"abc"])
    kinds = [call.kind for call in layer.calls if call.kind in ("pwritev", "fdatasync", "fsync")]
    # The folder above the root comes first; the root, which holds the new name, comes last.
    assert kinds == ["fsync", "pwritev", "fdatasync", "fsync"]
    layer.forget()
    storage.write("a", 3, [b"d"])
    assert [call.kind for call in layer.calls] == [
        "open", "fstat", "pwritev", "fdatasync", "close",
    ]  # fmt: skip


def test_create_that_does_not_fit_gives_the_room_back(disk_path: Path) -> None:
    disk = FullDisk(room=10)
    storage = NfsChunkStorage(disk_path / "chunks", calls=disk)
    with pytest.raises(ChunkStorageFullError) as caught:
        storage.create("d/a", [b"0123456789", b"x"])
    assert caught.value.outcome is Outcome.NOT_APPLIED
    assert stored(disk_path / "chunks") == {}
    assert not (disk_path / "chunks" / "d" / "a").exists()


@pytest.mark.parametrize("call", ["unlink", "fsync"])
def test_create_is_unknown_when_its_removal_is(disk_path: Path, call: str) -> None:
    layer = FileLayer()
    storage = NfsChunkStorage(disk_path, calls=layer)
    storage.create("first", [b"x"])
    layer.fail_call("fdatasync", 1, errno.EDQUOT)
    layer.fail_call(call, 1, errno.EIO)
    with pytest.raises(ChunkStorageFullError) as caught:
        storage.create("a", [b"abc"])
    assert caught.value.outcome is Outcome.UNKNOWN


def test_write_that_does_not_fit_is_unknown(disk_path: Path) -> None:
    disk = FullDisk(room=10)
    storage = NfsChunkStorage(disk_path / "chunks", calls=disk)
    storage.create("a", [b"01234"])
    with pytest.raises(ChunkStorageFullError) as caught:
        storage.write("a", 5, [b"56789", b"x"])
    assert caught.value.outcome is Outcome.UNKNOWN
    assert stored(disk_path / "chunks")["a"].startswith(b"01234")


def test_full_disk_refuses_new_folders(disk_path: Path) -> None:
    disk = FullDisk(room=0, error=errno.EDQUOT)
    storage = NfsChunkStorage(disk_path / "chunks", calls=disk)
    with pytest.raises(ChunkStorageFullError) as caught:
        storage.create("d/a", [b"x"])
    assert caught.value.outcome is Outcome.NOT_APPLIED
    assert os.listdir(disk_path) == []


def test_short_writes_continue(disk_path: Path) -> None:
    class ShortWrites(FileLayer):
        def pwritev(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
            return super().pwritev(fd, [bytes(memoryview(buffers[0])[:3])], offset)

    layer = ShortWrites()
    storage = NfsChunkStorage(disk_path, calls=layer)
    storage.create("a", [b"0123456", b"", b"78", b"9"])
    storage.write("a", 10, [b"abcdefg"])
    assert stored(disk_path) == {"a": b"0123456789abcdefg"}
    assert len(layer.targets("pwritev")) == 5 + 3


def test_writes_without_progress_end(disk_path: Path) -> None:
    class NoWrites(FileLayer):
        def pwritev(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
            return 0

    storage = NfsChunkStorage(disk_path, calls=NoWrites())
    with pytest.raises(ChunkError, match="no progress"):
        storage.create("a", [b"x"])


def test_many_buffers_go_in_batches(disk_path: Path) -> None:
    layer = FileLayer()
    storage = NfsChunkStorage(disk_path, calls=layer)
    storage.create("a", [b"x"] * 2_500)
    assert len(layer.targets("pwritev")) == 3
