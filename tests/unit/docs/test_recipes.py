"""The recipes of docs/operations.md: each one is run, command by command, as on the page."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import siltstone
from siltstone.cli.main import run
from siltstone.core.constants import Buffer
from siltstone.core.environment import SystemEnvironment
from siltstone.core.posix import SystemFileCalls

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "operations.md").read_text(encoding="utf-8")
RECIPES = {
    title: [line.split()[1:] for line in commands.splitlines()]
    for title, commands in re.findall(
        r"(?ms)^### ([^\n]+)\n(?:(?!^#).)*?^```sh\n(.*?)```", PAGE.partition("## Recipes")[2]
    )
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A closed store with flushed and unflushed bytes."""
    folder = tmp_path / "store"
    siltstone.init(folder)
    with siltstone.open(folder) as store:
        segment = store.create("a")
        segment.append(b"flushed")
        store.flush()
        segment.append(b", and not")
    return folder


@pytest.fixture
def follow(capfd: pytest.CaptureFixture[str]) -> Callable[..., list[tuple[int, str]]]:
    """Run the commands of a recipe, some after a step; return exit code and output of each."""

    def all_of(
        title: str, place: Path, before: dict[int, Callable[[], object]] | None = None
    ) -> list[tuple[int, str]]:
        ran = []
        for index, command in enumerate(RECIPES[title]):
            (before or {}).get(index, lambda: None)()
            code = run(["--store", str(place), *command])
            captured = capfd.readouterr()
            ran.append((code, captured.out + captured.err))
        return ran

    return all_of


Follow = Callable[..., list[tuple[int, str]]]


def content(place: Path) -> bytes:
    with siltstone.open(place, read_only=True) as store:
        return store.segment("a").read(0, 100)


@pytest.mark.slow
def test_a_lost_disk(place: Path, follow: Follow) -> None:
    shutil.rmtree(place / "tier1")
    look, done, check = follow("The disk of tier 1 is lost", place)
    assert look[0] == 6
    assert "segment a: bytes 0 to 7" in look[1]
    assert (done[0], check[0]) == (0, 0)
    assert content(place) == b"flushed"


@pytest.mark.slow
def test_an_older_copy(place: Path, follow: Follow) -> None:
    shutil.copytree(place / "tier1", place / "copy")
    with siltstone.open(place) as store:
        store.create("b")
        store.segment("a").append(b", later")
        store.flush()
        store.segment("a").append(b", and lost")
    shutil.rmtree(place / "tier1")
    (place / "copy").rename(place / "tier1")
    look, done, check = follow("The log was restored from an older copy", place)
    assert (look[0], done[0], check[0]) == (0, 0, 0)
    assert "c0-aside-1" in done[1]
    assert (place / "tier1" / "c0-aside-1" / "marker").exists()
    assert content(place) == b"flushed, and not, later"


@pytest.mark.slow
def test_a_damaged_checkpoint(place: Path, follow: Follow) -> None:
    newest = max((place / "chunks" / "system" / "c0").glob("e*"))
    damaged = newest / f"journal-{2:020d}"
    damaged.chmod(0o600)
    damaged.write_bytes(damaged.read_bytes()[:-3])
    before, flushed, after = follow("A journal file or an index file is damaged", place)
    assert (before[0], flushed[0], after[0]) == (0, 0, 0)
    assert f"{damaged.name}" in before[1]
    assert "warning" in before[1]
    assert "warning" not in after[1]


@pytest.mark.slow
def test_a_moved_store(place: Path, follow: Follow) -> None:
    moved = place.with_name("elsewhere")
    place.rename(moved)
    shutil.rmtree(moved / "index")
    assert [code for code, _ in follow("The store has moved", moved)] == [0, 0]
    assert content(moved) == b"flushed, and not"


def test_two_owners(place: Path, follow: Follow) -> None:
    with siltstone.open(place) as store:
        refused, taken = follow("Two owners", place)
        assert refused[0] == 5
        assert "pid=" in refused[1]
        assert taken[0] == 0
        with pytest.raises(siltstone.FencedError):
            store.segment("a").append(b"x")


def _run(place: Path, *command: str) -> int:
    return run(["--store", str(place), *command])


@pytest.mark.slow
def test_a_full_disk_of_tier_1(place: Path, follow: Follow) -> None:
    def no_room(self: SystemFileCalls, fd: int, offset: int, length: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.MonkeyPatch.context() as full:
        full.setattr(SystemFileCalls, "posix_fallocate", no_room)
        assert _run(place, "seal", "a") == 1
        assert content(place) == b"flushed, and not"
    assert [code for code, _ in follow("The disk of tier 1 is full", place)] == [0, 0, 0]
    with siltstone.open(place, read_only=True) as store:
        assert store.segment("a").info().flushed_length == 16


@pytest.mark.slow
def test_full_long_term_storage(place: Path, follow: Follow) -> None:
    real = SystemFileCalls.pwritev

    def no_room(self: SystemFileCalls, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        if "/chunks/data/" in os.readlink(f"/proc/self/fd/{fd}"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(self, fd, buffers, offset)

    with pytest.MonkeyPatch.context() as full:
        full.setattr(SystemFileCalls, "pwritev", no_room)
        assert _run(place, "flush") == 1
        assert content(place) == b"flushed, and not"
    assert [code for code, _ in follow("Long-term storage is full", place)] == [0, 0, 0]
    with siltstone.open(place, read_only=True) as store:
        assert store.segment("a").info().flushed_length == 16


@pytest.mark.slow
def test_storage_that_is_not_mounted(place: Path, follow: Follow) -> None:
    chunks = place / "chunks"
    chunks.rename(place / "elsewhere")
    chunks.mkdir()
    assert (_run(place, "flush"), _run(place, "doctor")) == (2, 2)
    assert not list(chunks.iterdir())
    chunks.rmdir()
    (place / "elsewhere").rename(chunks)
    assert [code for code, _ in follow("Long-term storage is not mounted", place)] == [0, 0]
    assert content(place) == b"flushed, and not"


@pytest.mark.slow
def test_a_damaged_chunk(place: Path, follow: Follow) -> None:
    with siltstone.open(place, read_only=True) as store:
        (chunk,) = store.segment("a").chunks()
    file = place / "chunks" / chunk.chunk
    file.chmod(0o600)
    whole = file.read_bytes()
    file.write_bytes(bytes(len(whole)))
    told, shown, mended = follow(
        "A chunk is damaged or gone", place, {2: lambda: file.write_bytes(whole)}
    )
    assert (told[0], chunk.chunk in told[1]) == (6, True)
    assert (shown[0], "damaged" in shown[1]) == (6, True)
    assert mended[0] == 0
    assert content(place) == b"flushed, and not"


@pytest.mark.slow
def test_a_wrong_clock(place: Path, follow: Follow) -> None:
    with siltstone.open(place) as store:
        store.set_retention("a", age_max=3600.0)
        store.flush()
    with pytest.MonkeyPatch.context() as ahead:
        real = SystemEnvironment.time
        ahead.setattr(SystemEnvironment, "time", lambda self: real(self) + 86400.0)
        doctor, shown, planned, removed = follow("A clock was wrong", place)
    assert [code for code, _ in (doctor, shown, planned, removed)] == [0, 0, 0, 0]
    assert "warning  clock" in doctor[1]
    assert "1h" in shown[1]
    assert "16 bytes would go" in planned[1]
    with siltstone.open(place) as store:
        assert not list(store.retention())
    assert content(place) == b"flushed, and not"


def test_every_recipe_is_tested() -> None:
    assert set(RECIPES) == {
        "The disk of tier 1 is lost",
        "The disk of tier 1 is full",
        "Long-term storage is full",
        "Long-term storage is not mounted",
        "A chunk is damaged or gone",
        "A clock was wrong",
        "The log was restored from an older copy",
        "A journal file or an index file is damaged",
        "The store has moved",
        "Two owners",
    }
