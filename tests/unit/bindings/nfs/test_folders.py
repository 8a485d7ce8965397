"""Links, litter, pipes and odd files in the folder; folders that come and go; names as paths."""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import MIB
from siltstone.core.errors import (
    ChunkAccessDeniedError,
    ChunkError,
    ChunkExistsError,
    ChunkNameError,
    ChunkNotFoundError,
    ChunkOffsetError,
    ChunkUnavailableError,
    Outcome,
)
from siltstone.core.posix import PathName, SystemFileCalls
from siltstone.testing.faults.file_layer import Call, FileLayer
from tests.support.faults.held_things import held_below, held_uncollected

LITTER = ".nfs000000000123abcd00000001"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "chunks"
    root.mkdir()
    return root


@pytest.fixture(params=["one call", "a walk"])
def storage(root: Path, request: pytest.FixtureRequest) -> NfsChunkStorage:
    """Both ways to a chunk: a layer leaves only the walk."""
    return NfsChunkStorage(root, calls=None if request.param == "one call" else FileLayer())


def refuses_all(storage: ChunkStorage, name: str, kind: type[ChunkError]) -> None:
    with pytest.raises(kind):
        storage.stat(name)
    with pytest.raises(kind):
        storage.read_into(name, 0, bytearray(10))
    with pytest.raises(kind):
        storage.write(name, 0, [b"x"])
    with pytest.raises(kind):
        storage.delete(name)
    with pytest.raises(kind):
        storage.seal(name)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    return outside / "secret"


def test_a_link_to_a_file_is_no_chunk(storage: NfsChunkStorage, root: Path, secret: Path) -> None:
    (root / "link").symlink_to(secret)
    (root / "dangling").symlink_to(root / "nowhere")
    refuses_all(storage, "link", ChunkNotFoundError)
    for name in ("link", "dangling"):
        with pytest.raises(ChunkExistsError):
            storage.create(name, [b"x"])
    assert list(storage.list()) == []
    assert secret.read_bytes() == b"secret"
    assert not (root / "nowhere").exists()


def test_a_link_to_a_folder_leads_nowhere(
    storage: NfsChunkStorage, root: Path, secret: Path
) -> None:
    (root / "d").symlink_to(secret.parent)
    refuses_all(storage, "d/secret", ChunkNotFoundError)
    with pytest.raises(ChunkNameError):
        storage.create("d/new", [b"x"])
    with pytest.raises(ChunkNameError):
        storage.create("d/e/new", [b"x"])
    for prefix in ("", "d", "d/", "d/s"):
        assert list(storage.list(prefix)) == []
    assert os.listdir(secret.parent) == ["secret"]
    assert storage.used_space() == 0


class Counting(SystemFileCalls):
    """Counts the system calls of a read."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.reads = 0

    def open(
        self, path: PathName, flags: int, mode: int = 0o666, *, dir_fd: int | None = None
    ) -> int:
        self.opened.append(os.fsdecode(path))
        return super().open(path, flags, mode, dir_fd=dir_fd)

    def open_below(self, path: PathName, flags: int, *, dir_fd: int) -> int:
        self.opened.append(os.fsdecode(path))
        return super().open_below(path, flags, dir_fd=dir_fd)

    def preadv(self, fd: int, buffers: Sequence[memoryview | bytearray], offset: int) -> int:
        self.reads += 1
        return super().preadv(fd, buffers, offset)


def test_a_read_opens_one_file_and_reads_once(root: Path) -> None:
    NfsChunkStorage(root).create("a/b/c", [b"bytes"])
    calls = Counting()
    storage, buffer = NfsChunkStorage(root, calls=calls), bytearray(2 * MIB)
    for _ in range(2):
        assert storage.read_into("a/b/c", 0, buffer) == 5
    assert calls.opened == [str(root), "a/b/c", "a/b/c"]
    assert calls.reads == 2
    before = held_uncollected()
    for name in ("a/b", "a/b/c/d", "x"):
        with pytest.raises(ChunkNotFoundError):
            storage.read_into(name, 0, buffer)
    with pytest.raises(ChunkOffsetError):
        storage.read_into("a/b/c", 6, buffer)
    assert not held_uncollected() - before


def test_the_root_itself_may_be_a_link(tmp_path: Path, root: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    NfsChunkStorage(tmp_path / "link").create("a", [b"x"])
    assert os.listdir(root) == ["a"]


def test_what_is_no_file_is_no_chunk(storage: NfsChunkStorage, root: Path) -> None:
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.open(root, os.O_RDONLY)
        server.bind(f"/proc/self/fd/{here}/socket")
        os.close(here)
    (root / "folder").mkdir()
    for name in ("pipe", "socket", "folder"):
        refuses_all(storage, name, ChunkNotFoundError)
        with pytest.raises(ChunkExistsError):
            storage.create(name, [b"x"])
    assert list(storage.list()) == []
    assert len(os.listdir(root)) == 3


def test_what_nfs_clients_leave_is_ignored(storage: NfsChunkStorage, root: Path) -> None:
    storage.create("d/a", [b"x"])
    (root / LITTER).write_bytes(b"litter")
    (root / "d" / LITTER).write_bytes(b"litter")
    assert [chunk.name for chunk in storage.list()] == ["d/a"]
    assert storage.used_space() == 1
    for name in (LITTER, f"d/{LITTER}", f"{LITTER}/a"):
        refuses_all(storage, name, ChunkNameError)
        with pytest.raises(ChunkNameError):
            storage.create(name, [b"x"])
    storage.create(".nfs-is-a-fine-name", [b"x"])
    assert storage.stat(".nfs-is-a-fine-name").length == 1


def test_names_that_are_not_utf8_are_ignored(storage: NfsChunkStorage, root: Path) -> None:
    (Path(os.fsdecode(os.fsencode(root) + b"/\xff\xfe"))).write_bytes(b"x")
    storage.create("a", [b"x"])
    assert [chunk.name for chunk in storage.list()] == ["a"]


def test_folders_deeper_than_any_key_are_ignored(storage: NfsChunkStorage, root: Path) -> None:
    here = os.open(root, os.O_RDONLY)
    for _ in range(600):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("a", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    storage.create("e", [b"x"])
    assert [chunk.name for chunk in storage.list()] == ["e"]


def test_a_part_that_the_file_system_cannot_hold(storage: NfsChunkStorage) -> None:
    for name in ("x" * 256, "d/" + "x" * 256, "x" * 256 + "/d"):
        with pytest.raises(ChunkNameError) as caught:
            storage.create(name, [b"x"])
        assert caught.value.outcome is Outcome.NOT_APPLIED
        refuses_all(storage, name, ChunkNameError)
    assert list(storage.list("x" * 256 + "/")) == []


def test_a_chunk_is_no_folder(storage: NfsChunkStorage) -> None:
    storage.create("a", [b"x"])
    with pytest.raises(ChunkNameError, match="no folder"):
        storage.create("a/b", [b"x"])
    refuses_all(storage, "a/b", ChunkNotFoundError)
    assert list(storage.list("a/")) == []
    storage.create("d/b", [b"x"])
    with pytest.raises(ChunkExistsError):
        storage.create("d", [b"x"])


def test_a_sealed_chunk_refuses_even_the_super_user(storage: NfsChunkStorage, root: Path) -> None:
    storage.create("a", [b"abc"])
    storage.seal("a")
    assert (root / "a").stat().st_mode & 0o777 & 0o222 == 0
    with pytest.raises(ChunkAccessDeniedError, match=r"sealed|denied"):
        storage.write("a", 3, [b"x"])


def test_opening_makes_nothing(tmp_path: Path) -> None:
    storage = NfsChunkStorage(tmp_path / "no" / "where")
    assert list(storage.list()) == []
    assert storage.used_space() == 0
    refuses_all(storage, "a", ChunkNotFoundError)
    assert os.listdir(tmp_path) == []
    storage.create("a", [b"x"])
    assert os.listdir(tmp_path / "no" / "where") == ["a"]


def test_a_root_that_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    storage = NfsChunkStorage(tmp_path / "file")
    with pytest.raises(ChunkError):
        storage.create("a", [b"x"])


def test_a_relative_root_stays_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    monkeypatch.chdir(tmp_path / "one")
    storage = NfsChunkStorage("chunks")
    monkeypatch.chdir(tmp_path / "two")
    storage.create("a", [b"x"])
    assert (tmp_path / "one" / "chunks" / "a").exists()


def test_empty_folders_go_with_their_last_chunk(storage: NfsChunkStorage, root: Path) -> None:
    storage.create("d/e/a", [b"x"])
    storage.create("d/b", [b"x"])
    storage.delete("d/e/a")
    assert os.listdir(root / "d") == ["b"]
    storage.delete("d/b")
    assert os.listdir(root) == []


def test_a_folder_that_vanishes_before_the_create_is_made_again(root: Path) -> None:
    layer = FileLayer()
    storage = NfsChunkStorage(root, calls=layer)
    vanished: list[Call] = []

    def vanish(call: Call) -> None:
        if call == Call(kind="open", target="a") and len(vanished) < 5:
            (root / "d" / "e").rmdir()
            (root / "d").rmdir()
            vanished.append(call)

    layer.before = vanish
    storage.create("d/e/a", [b"x"])
    assert len(vanished) == 5
    assert (root / "d" / "e" / "a").read_bytes() == b"x"


def test_a_folder_that_always_vanishes_ends_the_create(root: Path) -> None:
    layer = FileLayer()
    storage = NfsChunkStorage(root, calls=layer)
    layer.before = lambda call: (
        (root / "d").rmdir() if call == Call(kind="open", target="a") else None
    )
    with pytest.raises(ChunkUnavailableError, match="again and again") as caught:
        storage.create("d/a", [b"x"])
    assert caught.value.outcome is Outcome.NOT_APPLIED


def test_a_close_waits_for_no_call_and_breaks_none(root: Path) -> None:
    """The root's descriptor outlives ``close`` until the call that uses it has ended."""
    layer = FileLayer()
    storage = NfsChunkStorage(root, calls=layer)
    storage.create("a", [b"abc"])
    assert held_below(root) == 1
    layer.before = lambda call: storage.close() if call == Call(kind="open", target="a") else None
    buffer = bytearray(3)
    assert storage.read_into("a", 0, buffer) == 3
    assert held_below(root) == 0


@pytest.mark.parametrize("second", ["write", "seal"])
def test_a_write_keeps_others_out_of_its_chunk(root: Path, second: str) -> None:
    """Between the look at the end and the write there, no other call may look."""
    layer = FileLayer()
    storage = NfsChunkStorage(root, calls=layer)
    storage.create("d/a", [b"abc"])
    with ThreadPoolExecutor(1) as pool:
        others: list[Future[None]] = []

        def start_another(call: Call) -> None:
            if call == Call(kind="pwritev", target="a") and not others:
                if second == "write":
                    others.append(pool.submit(storage.write, "d/a", 3, [b"XYZ"]))
                else:
                    others.append(pool.submit(storage.seal, "d/a"))
                done, _ = wait(others, timeout=0.1)
                assert not done

        layer.before = start_another
        storage.write("d/a", 3, [b"def"])
        error = others[0].exception()
    assert isinstance(error, ChunkOffsetError) == (second == "write")
    assert (root / "d" / "a").read_bytes() == b"abcdef"


def test_a_write_leaves_others_to_their_chunks(root: Path) -> None:
    layer = FileLayer()
    storage = NfsChunkStorage(root, calls=layer)
    for name in ("d/a", "d/b"):
        storage.create(name, [b"abc"])
    with ThreadPoolExecutor(1) as pool:

        def write_another(call: Call) -> None:
            if call == Call(kind="pwritev", target="a"):
                pool.submit(storage.write, "d/b", 3, [b"XYZ"]).result(timeout=120)

        layer.before = write_another
        storage.write("d/a", 3, [b"def"])
    assert (root / "d" / "b").read_bytes() == b"abcXYZ"


def test_abandoned_listings_leave_no_descriptor(storage: NfsChunkStorage) -> None:
    for name in ("d/e/a", "d/e/b", "f"):
        storage.create(name, [b"x"])
    before = held_uncollected()
    listing = storage.list()
    assert next(listing).name == "d/e/a"
    assert held_uncollected() - before
    del listing
    assert not held_uncollected() - before


def test_locks_do_not_pile_up(storage: NfsChunkStorage) -> None:
    for number in range(20):
        storage.create(f"{number}", [b"x"])
        storage.write(f"{number}", 1, [b"y"])
    assert len(storage._locks) == 0


def test_a_prefix_reads_only_its_own_folder(root: Path) -> None:
    layer = FileLayer()
    storage = NfsChunkStorage(root, calls=layer)
    for name in ("d1/a", "d1/e/b", "d2/a", "d3/a"):
        storage.create(name, [b"x"])
    layer.forget()
    assert [chunk.name for chunk in storage.list("d1/e/")] == ["d1/e/b"]
    assert len(layer.targets("scandir")) == 1
    layer.forget()
    assert [chunk.name for chunk in storage.list("d", "d2/z")] == ["d3/a"]
    assert len(layer.targets("scandir")) <= 3


@pytest.mark.slow
def test_a_storage_that_was_not_closed_holds_no_folder(tmp_path: Path) -> None:
    for number in range(5):
        NfsChunkStorage(tmp_path).create(f"d/{number}", [b"x"])
    gc.collect()
    assert not held_below(tmp_path)
