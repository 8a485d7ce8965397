"""A whole create takes place wholly or not at all, whatever fails, dies or loses power at any call.

The model: at each file call in turn the call fails, with or without its effect, or the process dies
or the power is cut before it. What must hold: the name leads to all bytes or to nothing, what was
told is true, the name can be made again, and what is left over is never listed and can be swept.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
from siltstone.core.drafts import DRAFTS
from siltstone.core.errors import (
    CapabilityError,
    ChunkError,
    ChunkExistsError,
    ChunkNameError,
    ChunkStorageFullError,
    ChunkUnavailableError,
    ClosedError,
    Outcome,
)
from siltstone.core.posix import FileCalls
from siltstone.testing.chunk_checks.processes import in_child
from siltstone.testing.faults.file_layer import Call, FileLayer, FullDisk
from siltstone.testing.faults.power_cut import PowerCut

NAME = "d/e/a"
CONTENT = b"a" * 700 + b"b" * 700
"""Several sectors, so that a power cut can tear it."""
UNSEEN = frozenset({"close", "unlink", "fsync", "fstat"})
"""Calls that may be after the link."""


def make(storage: NfsChunkStorage) -> None:
    storage.create_whole(NAME, [CONTENT[:1_000], CONTENT[1_000:]])


def stored(root: Path) -> dict[str, bytes]:
    storage = NfsChunkStorage(root)
    found = {}
    for chunk in storage.list():
        buffer = bytearray(chunk.length)
        storage.read_into(chunk.name, 0, buffer)
        found[chunk.name] = bytes(buffer)
    storage.close()
    return found


def drafts(root: Path) -> list[str]:
    folder = root / DRAFTS
    return os.listdir(folder) if folder.is_dir() else []


def check_whole(root: Path, told: Outcome | None) -> None:
    """All bytes or no name; ``told`` is true; the name is not burnt; leftovers are swept.

    Args:
        root: of the storage.
        told: what the caller learnt; ``None`` that it is done.
    """
    found = stored(root)
    assert found in ({}, {NAME: CONTENT})
    if told is None:
        assert found == {NAME: CONTENT}
    if told is Outcome.NOT_APPLIED:
        assert found == {}
    storage = NfsChunkStorage(root)
    if found:
        with pytest.raises(ChunkExistsError):
            make(storage)
    else:
        make(storage)
    storage.sweep_leftovers("d/", 0.0)
    storage.close()
    assert drafts(root) == []
    assert stored(root) == {NAME: CONTENT}


def count_of_calls(root: Path) -> int:
    layer = FileLayer()
    make(NfsChunkStorage(root, calls=layer))
    return len(layer.calls)


def tried(root: Path, calls: FileCalls) -> Outcome | None:
    """Make the chunk; return what its caller learnt of a failure."""
    try:
        make(NfsChunkStorage(root, calls=calls))
    except ChunkError as error:
        return error.outcome
    return None


def at_call(number: int, act: Callable[[], None], inner: FileCalls | None = None) -> FileLayer:
    """A layer that acts ahead of one call, 1 being the first."""
    layer = FileLayer(inner)

    def before(call: Call) -> None:
        if len(layer.calls) == number:
            act()

    layer.before = before
    return layer


def at_link(act: Callable[[], None]) -> FileLayer:
    """A layer that acts ahead of the first link."""
    layer = FileLayer()

    def before(call: Call) -> None:
        if call.kind == "link":
            layer.before = lambda call: None
            act()

    layer.before = before
    return layer


@pytest.mark.parametrize("keep", [0.0, 0.5, 1.0])
def test_the_power_may_be_cut_at_every_call(tmp_path: Path, keep: float) -> None:
    count = count_of_calls(tmp_path / "clean")
    assert count > 20
    for number in range(1, count + 2):
        place = tmp_path / f"{number}"
        place.mkdir()
        disk = PowerCut(place)
        root = place / "chunks"
        told = tried(
            root,
            at_call(number, lambda: disk.cut(keep=keep, seed=number), disk),  # noqa: B023
        )
        if number > count:
            disk.cut(keep=keep, seed=number)
        disk.release()
        check_whole(root, told)


def test_an_acknowledged_chunk_survives_a_power_cut_with_its_folders(tmp_path: Path) -> None:
    disk = PowerCut(tmp_path)
    make(NfsChunkStorage(tmp_path / "far" / "below", calls=disk))
    disk.cut()
    assert stored(tmp_path / "far" / "below") == {NAME: CONTENT}


def test_the_process_may_be_killed_at_every_call(tmp_path: Path) -> None:
    count = count_of_calls(tmp_path / "clean")
    for number in range(1, count + 1):
        root = tmp_path / f"{number}"
        layer = at_call(number, lambda: os.kill(os.getpid(), signal.SIGKILL))
        assert in_child(lambda: make(NfsChunkStorage(root, calls=layer))) == -signal.SIGKILL  # noqa: B023
        check_whole(root, Outcome.UNKNOWN)


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EACCES, errno.ETIMEDOUT])
@pytest.mark.parametrize("applied", [False, True], ids=["not applied", "applied"])
def test_every_call_may_fail(tmp_path: Path, number: int, *, applied: bool) -> None:
    make(NfsChunkStorage(tmp_path / "clean", calls=(clean := FileLayer())))
    seen: dict[str, int] = {}
    for index, call in enumerate(clean.calls):
        seen[call.kind] = seen.get(call.kind, 0) + 1
        root = tmp_path / f"{index}"
        layer = FileLayer()
        layer.fail_call(call.kind, seen[call.kind], number, applied=applied)
        told = tried(root, layer)
        is_unseen = call.kind in UNSEEN or (call.kind == "link" and applied)
        assert told is not None or is_unseen or call.kind in ("open", "mkdir"), call
        check_whole(root, told)


def test_bytes_are_durable_before_the_name_and_the_name_before_the_answer(tmp_path: Path) -> None:
    layer = FileLayer()
    storage = NfsChunkStorage(tmp_path / "chunks", calls=layer)
    make(storage)
    layer.forget()
    storage.create_whole("f/g/b", [CONTENT])
    kinds = ("pwritev", "fdatasync", "link", "fsync", "unlink")
    assert [call.kind for call in layer.calls if call.kind in kinds] == [
        "pwritev", "fdatasync", "link", "fsync", "fsync", "fsync", "unlink",
    ]  # fmt: skip
    assert layer.targets("fsync") == ["g", "f", "chunks"]


@pytest.mark.parametrize("number", [errno.EEXIST, errno.EIO, errno.ETIMEDOUT, errno.ESTALE])
def test_a_link_whose_answer_is_lost_is_recognised(tmp_path: Path, number: int) -> None:
    layer = FileLayer()
    layer.fail_call("link", 1, number, applied=True)
    assert tried(tmp_path, layer) is None
    assert stored(tmp_path) == {NAME: CONTENT}
    # It is durable, too: the folders are synced after that.
    kinds = [call.kind for call in layer.calls]
    assert kinds[kinds.index("link") :].count("fsync") == 3


def test_a_link_that_may_have_taken_place_and_cannot_be_looked_for_is_unknown(
    tmp_path: Path,
) -> None:
    def taken() -> None:
        layer.before = silent
        raise FileExistsError(errno.EEXIST, "exists")

    def silent(call: Call) -> None:
        if call.kind != "close":
            raise OSError(errno.EIO, "silent")

    layer = at_link(taken)
    with pytest.raises(ChunkUnavailableError) as caught:
        make(NfsChunkStorage(tmp_path, calls=layer))
    assert caught.value.outcome is Outcome.UNKNOWN
    check_whole(tmp_path, Outcome.UNKNOWN)


def test_the_same_bytes_of_another_caller_are_not_taken_for_our_own(tmp_path: Path) -> None:
    make(NfsChunkStorage(tmp_path))
    with pytest.raises(ChunkExistsError) as caught:
        make(NfsChunkStorage(tmp_path))
    assert caught.value.outcome is Outcome.NOT_APPLIED
    assert drafts(tmp_path) == []


@pytest.mark.parametrize(
    "number", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV]
)
def test_a_file_system_without_links_says_so(tmp_path: Path, number: int) -> None:
    layer = FileLayer()
    layer.fail_call("link", 1, number)
    with pytest.raises(CapabilityError, match="no hard links") as caught:
        make(NfsChunkStorage(tmp_path, calls=layer))
    assert str(tmp_path) in str(caught.value)
    assert errno.errorcode[number] in str(caught.value)
    assert drafts(tmp_path) == []
    assert stored(tmp_path) == {}


def test_what_does_not_fit_leaves_nothing(tmp_path: Path) -> None:
    storage = NfsChunkStorage(tmp_path, calls=FullDisk(room=1_000))
    with pytest.raises(ChunkStorageFullError) as caught:
        make(storage)
    assert caught.value.outcome is Outcome.NOT_APPLIED
    assert drafts(tmp_path) == []
    check_whole(tmp_path, Outcome.NOT_APPLIED)


def test_a_folder_that_is_removed_under_it_is_made_again(tmp_path: Path) -> None:
    layer = at_link(lambda: os.rmdir(tmp_path / "d" / "e"))
    assert tried(tmp_path, layer) is None
    assert len(layer.targets("link")) == 2
    assert stored(tmp_path) == {NAME: CONTENT}


def test_a_folder_of_drafts_that_a_sweep_removes_is_made_again(tmp_path: Path) -> None:
    other = NfsChunkStorage(tmp_path)
    make(other)
    other.delete(NAME)
    layer = FileLayer()

    def before(call: Call) -> None:
        if call.kind == "open" and "-d%2F" in call.target:
            layer.before = lambda call: None
            assert other.sweep_leftovers("", 0.0) == 0
            assert not (tmp_path / DRAFTS).exists()

    layer.before = before
    assert tried(tmp_path, layer) is None
    assert stored(tmp_path) == {NAME: CONTENT}
    other.sweep_leftovers("", 0.0)
    assert not (tmp_path / DRAFTS).exists()


def test_a_draft_that_is_swept_on_its_way_makes_no_chunk(tmp_path: Path) -> None:
    other = NfsChunkStorage(tmp_path)

    def sweep() -> None:
        assert other.sweep_leftovers("d/", 0.0) == 1

    with pytest.raises(ChunkUnavailableError, match="swept") as caught:
        make(NfsChunkStorage(tmp_path, calls=at_link(sweep)))
    assert caught.value.outcome is Outcome.NOT_APPLIED
    check_whole(tmp_path, Outcome.NOT_APPLIED)


def test_a_sweep_removes_old_drafts_of_these_names_and_nothing_else(tmp_path: Path) -> None:
    storage = NfsChunkStorage(tmp_path)
    make(storage)
    folder = tmp_path / DRAFTS
    kept = ["readme", f"{'0' * 16}-e%2Fa", f"{'1' * 16}-d"]
    for name in [*kept, f"{'2' * 16}-d%2Fa", f"{'3' * 16}-d%2Fb"]:
        (folder / name).touch()
    os.utime(folder / f"{'2' * 16}-d%2Fa", (1, 1))
    assert storage.sweep_leftovers("d/", 3600.0) == 1
    assert storage.sweep_leftovers("d/", 0.0) == 1
    assert sorted(drafts(tmp_path)) == sorted(kept)
    assert storage.sweep_leftovers("", 0.0) == 2
    assert drafts(tmp_path) == ["readme"]
    assert [found.name for found in storage.list()] == [NAME]
    assert storage.used_space() == len(CONTENT)


def test_a_sweep_of_what_was_never_made_finds_nothing(tmp_path: Path) -> None:
    storage = NfsChunkStorage(tmp_path / "missing")
    assert storage.sweep_leftovers("", 0.0) == 0
    storage.close()
    with pytest.raises(ClosedError):
        storage.sweep_leftovers("", 0.0)


def test_a_sweep_that_fails_says_so(tmp_path: Path) -> None:
    layer = FileLayer()
    storage = NfsChunkStorage(tmp_path, calls=layer)
    make(storage)
    layer.fail_call("scandir")
    with pytest.raises(ChunkUnavailableError):
        storage.sweep_leftovers("d/", 0.0)


@pytest.mark.parametrize("name", [DRAFTS, f"{DRAFTS}/a"])
def test_the_name_of_the_drafts_is_reserved(tmp_path: Path, name: str) -> None:
    storage = NfsChunkStorage(tmp_path)
    calls: Sequence[Callable[[], object]] = (
        lambda: storage.create(name, [b"x"]),
        lambda: storage.create_whole(name, [b"x"]),
        lambda: storage.stat(name),
        lambda: storage.read_into(name, 0, bytearray(1)),
        lambda: storage.delete(name),
    )
    for call in calls:
        with pytest.raises(ChunkNameError):
            call()
    near = [f"{DRAFTS}-x", f"d/{DRAFTS}/a"]
    for other in near:
        storage.create(other, [b"x"])
    assert [found.name for found in storage.list()] == near


def test_a_file_in_place_of_the_drafts_is_named(tmp_path: Path) -> None:
    (tmp_path / DRAFTS).write_bytes(b"x")
    with pytest.raises(ChunkUnavailableError, match=DRAFTS) as caught:
        make(NfsChunkStorage(tmp_path))
    assert caught.value.outcome is Outcome.NOT_APPLIED
