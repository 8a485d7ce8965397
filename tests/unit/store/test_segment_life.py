"""Reading in several steps, while the segment is deleted and its name is that of another one.

What must hold: all bytes that a reader is given are of one segment, and it hears of the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import siltstone
from siltstone import Segment, Store
from siltstone.cli.main import run
from siltstone.events import encode_many, read_events
from siltstone.migration.files.export_files import export_files, plan_export

OLD, NEW = b"0123456789" * 3, b"abcdefghij" * 3
PIECE = 10
ANEW = "deleted and made anew while it was read"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    # Else readers show what was, for so long.
    monkeypatch.setattr("siltstone.container.reader.POLL_S", 0.0)
    siltstone.init(tmp_path / "store")
    with siltstone.open(tmp_path / "store") as store:
        store.create("a").append(OLD)
        yield store


@pytest.fixture(params=["owner", "reader"])
def shown(request: pytest.FixtureRequest, store: Store, tmp_path: Path) -> Iterator[Store]:
    """The same store, as its owner and as a reader has it."""
    if request.param == "owner":
        yield store
        return
    with siltstone.open(tmp_path / "store", read_only=True) as reader:
        yield reader


def make_anew(store: Store) -> None:
    store.segment("a").delete()
    store.create("a").append(NEW)


@pytest.fixture
def anew_behind_a_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The segment is made anew behind the first read."""
    acts: list[Callable[[Store], None]] = [make_anew]
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
def test_a_follower_goes_on_with_no_other_segment(
    store: Store, shown: Store, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in the middle nor where it waits at the end."""
    monkeypatch.setattr("siltstone.store.async_segment.FOLLOW_BYTES", step)
    following = shown.segment("a").follow()
    assert next(following) == OLD[:step]
    make_anew(store)
    store.segment("a").append(NEW)
    with pytest.raises(siltstone.SegmentNotFoundError, match=ANEW):
        next(following)


@pytest.mark.parametrize("verb", [("cat", "a"), ("tail", "a"), ("tail", "a", "--bytes", "30")])
@pytest.mark.usefixtures("anew_behind_a_read")
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
    assert ANEW in err


@pytest.mark.usefixtures("anew_behind_a_read")
def test_an_exported_file_has_the_bytes_of_one_segment(
    shown: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("siltstone.migration.files.export_files.READ_BYTES", PIECE)
    target = tmp_path / "out"
    planned = plan_export(shown, ["a"], target)
    with pytest.raises(siltstone.SegmentNotFoundError, match=ANEW):
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
    with pytest.raises(siltstone.SegmentNotFoundError, match=ANEW):
        next(reading)
