"""Reading in several steps while the segment is deleted and another one gets its name.

What must hold: all bytes that a reader gets are of one segment, and it hears of the end.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

import siltstone
from siltstone import Segment, SegmentInfo, SegmentNotFoundError, Store
from siltstone.cli.main import run
from siltstone.events import encode_many, read_events
from siltstone.migration.files.export_files import export_files, plan_export

OLD, NEW = b"0123456789" * 3, b"abcdefghij" * 3
PIECE = 10
MADE_AGAIN = "deleted and made again while it was read"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    # Otherwise readers show the old state for this long.
    monkeypatch.setattr("siltstone.container.reader.read_container.POLL_S", 0.0)
    siltstone.init(tmp_path / "store")
    with siltstone.open(tmp_path / "store") as store:
        store.create("a").append(OLD)
        yield store


@pytest.fixture(params=["owner", "reader"])
def shown(request: pytest.FixtureRequest, store: Store, tmp_path: Path) -> Iterator[Store]:
    """The same store, seen by its owner and by a reader."""
    if request.param == "owner":
        yield store
        return
    with siltstone.open(tmp_path / "store", read_only=True) as reader:
        yield reader


def make_again(store: Store) -> None:
    store.segment("a").delete()
    store.create("a").append(NEW)


@pytest.fixture
def made_again_after_a_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The segment is made again after the first read."""
    acts: list[Callable[[Store], None]] = [make_again]
    read, read_into = Segment.read, Segment.read_into

    def read_then(segment: Segment, offset: int, length: int) -> bytes:
        data = read(segment, offset, length)
        while acts:
            acts.pop()(store)
        return data

    def read_into_then(segment: Segment, offset: int, buffer: memoryview) -> int:
        count = read_into(segment, offset, buffer)
        while acts:
            acts.pop()(store)
        return count

    monkeypatch.setattr(Segment, "read", read_then)
    monkeypatch.setattr(Segment, "read_into", read_into_then)


@pytest.mark.parametrize("step", [PIECE, len(OLD)])
def test_a_follower_continues_with_no_other_segment(
    store: Store, shown: Store, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in the middle, nor where it waits at the end."""
    monkeypatch.setattr("siltstone.store.handles.async_segment.FOLLOW_BYTES", step)
    following = shown.segment("a").follow()
    assert next(following) == OLD[:step]
    make_again(store)
    store.segment("a").append(NEW)
    with pytest.raises(siltstone.SegmentNotFoundError, match=MADE_AGAIN):
        next(following)


@pytest.mark.parametrize("verb", [("cat", "a"), ("tail", "a"), ("tail", "a", "--bytes", "30")])
@pytest.mark.usefixtures("made_again_after_a_read")
def test_a_verb_writes_bytes_of_one_segment(
    verb: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("siltstone.cli.read_commands.PIECE_BYTES", PIECE)
    assert run(["--store", str(tmp_path / "store"), *verb]) == 3
    out, err = capfd.readouterr()
    assert OLD.startswith(out.encode())
    assert MADE_AGAIN in err


@pytest.mark.usefixtures("made_again_after_a_read")
def test_an_exported_file_has_the_bytes_of_one_segment(
    shown: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("siltstone.migration.files.export_files.READ_BYTES", PIECE)
    target = tmp_path / "out"
    planned = plan_export(shown, ["a"], target)
    with pytest.raises(siltstone.SegmentNotFoundError, match=MADE_AGAIN):
        list(export_files(shown, planned))
    assert not target.exists()


def test_events_are_those_of_one_segment(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = encode_many([b"old"] * 3), encode_many([b"new"] * 3)
    monkeypatch.setattr("siltstone.events.READ_BYTES", len(old) // 3)
    store.create("b").append(old)
    reading = read_events(store.segment("b"))
    assert next(reading).payload == b"old"
    store.segment("b").delete()
    store.create("b").append(new)
    with pytest.raises(siltstone.SegmentNotFoundError, match=MADE_AGAIN):
        next(reading)


@pytest.fixture
def small_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files read one piece at a time."""
    monkeypatch.setattr("siltstone.store.blocking.segment.READ_BUFFER_BYTES", PIECE)


@pytest.mark.usefixtures("small_buffers")
@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_file_continues_with_no_other_segment(store: Store, shown: Store, count: int) -> None:
    """Neither at its beginning, nor in the middle, nor at its end."""
    store.flush()
    with shown.segment("a").open() as file:
        for number in range(count):
            assert file.read(PIECE) == OLD[number * PIECE : (number + 1) * PIECE]
        make_again(store)
        store.segment("a").append(NEW)
        given: list[bytes] = []
        with pytest.raises(SegmentNotFoundError, match=MADE_AGAIN):
            given.extend(iter(partial(file.read, PIECE), b""))
        # A reader may not know it yet, and returns right bytes of the state that it shows.
        assert b"".join(given) == OLD[count * PIECE : (count + len(given)) * PIECE]
        assert shown is not store or not given
        with pytest.raises(SegmentNotFoundError, match=MADE_AGAIN):
            file.seek(0, os.SEEK_END)


@pytest.mark.usefixtures("small_buffers", "made_again_after_a_read")
def test_a_file_gives_no_byte_that_may_be_of_another_segment(store: Store) -> None:
    with store.segment("a").open() as file, pytest.raises(SegmentNotFoundError, match=MADE_AGAIN):
        file.read(PIECE)


@pytest.mark.usefixtures("small_buffers")
def test_a_file_continues_while_its_segment_and_others_change(store: Store, shown: Store) -> None:
    with shown.segment("a").open() as file:
        found = file.read(PIECE)
        store.create("b").append(NEW)
        store.flush()
        found += file.read(PIECE)
        store.segment("a").append(NEW)
        store.segment("b").delete()
        found += file.read(PIECE)
        store.flush()
        store.segment("a").truncate(PIECE)
        assert found + file.read() == OLD + NEW
        assert file.seek(0, os.SEEK_END) == len(OLD + NEW)


def test_a_file_asks_for_its_segment_again_only_when_something_changed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.flush()
    asked: list[str] = []
    info = Segment.info

    def counted(segment: Segment) -> SegmentInfo:
        asked.append(segment.name)
        return info(segment)

    monkeypatch.setattr(Segment, "info", counted)
    monkeypatch.setattr("siltstone.store.blocking.segment.READ_BUFFER_BYTES", 1)
    with store.segment("a").open() as file:
        assert file.read() == OLD
    assert asked == ["a"]
