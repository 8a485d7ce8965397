"""One file of a store is gone, empty, cut or full of rubbish, and the local index with it.

Injected: each file of metadata on long-term storage and of tier 1 in turn, in each of these ways.
Earlier owners wrote several checkpoints, and the last one died. What must hold: no such file
decides alone. The store opens with all that was acknowledged, or `recover` lets it do so, and the
doctor fails exactly where an owner's open does. Only a lost log file loses what it alone holds.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import siltstone
from siltstone.store.admin.doctor import Doctor
from siltstone.store.admin.inspection import open_inspection
from tests.support.faults.shown_rows import Shown, shown_by

OWNERS = 3
HARMS: dict[str, Callable[[bytes], bytes | None]] = {
    "gone": lambda data: None,
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "rubbish": lambda data: bytes(byte ^ 0x5A for byte in data[:4096]) + data[4096:],
}
MENDED = "chunks/system/store", "tier1/c0/marker"
"""A store does not open without these, but no data is lost with them."""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Shown]:
    """The files of a store as its last owner left them when it died, and what it showed."""
    folder, copy = (tmp_path_factory.mktemp("one") / name for name in ("store", "image"))
    settings = siltstone.init(folder)
    written = settings.read_text(encoding="utf-8")
    small = written.replace("path: ./tier1", "path: ./tier1\n    file_bytes: 64KiB")
    settings.write_text(small, encoding="utf-8")
    for owner in range(OWNERS):
        with siltstone.open(folder) as store:
            segment = store.create("a", exist_ok=True)
            table = store.create_table("t", exist_ok=True)
            for number in range(20):
                segment.append(b"%d %d;" % (owner, number))
                table.put(b"%d %d" % (owner, number), b"value")
            store.flush()
            store.checkpoint()
            segment.append(b"only in tier 1 of %d;" % owner)
            seen = shown_by(store)
            if owner == OWNERS - 1:
                shutil.copytree(folder, copy)
    shutil.rmtree(copy / "index")
    return copy, seen


def files(image: Path, *patterns: str) -> list[str]:
    found = (path for pattern in patterns for path in image.glob(pattern) if path.is_file())
    return sorted(str(path.relative_to(image)) for path in found)


def harmed(image: Path, folder: Path, names: list[str]) -> Iterator[str]:
    """Harm each file in each way, in a fresh copy each time."""
    for name in names:
        for how, harm in HARMS.items():
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(image, folder)
            path = folder / name
            data = harm(path.read_bytes())
            path.chmod(0o644)
            path.unlink() if data is None else path.write_bytes(data)
            yield f"{name} {how}"


def doctor_fails(folder: Path) -> bool:
    """Whether it fails, for the containers and their logs: the service is another matter."""
    with open_inspection(folder) as inspection:
        return any(p.outcome == "failed" for p in Doctor(inspection, creates_nothing=True).rest())


def opened(folder: Path) -> Shown:
    with siltstone.open(folder) as store:
        return shown_by(store)


def test_no_single_file_of_the_system_decides(image: tuple[Path, Shown], tmp_path: Path) -> None:
    place, whole = image
    names = files(place, "chunks/system/c0/**/*", "tier1/c0/lock")
    assert len({name.rpartition("/")[2].partition("-")[0] for name in names}) == 5
    for told in harmed(place, tmp_path / "store", names):
        assert opened(tmp_path / "store") == whole, told


@pytest.mark.parametrize("name", MENDED)
def test_what_a_store_does_not_open_without_is_made_again(
    image: tuple[Path, Shown], tmp_path: Path, name: str
) -> None:
    place, whole = image
    folder = tmp_path / "store"
    for told in harmed(place, folder, [name]):
        if told != "tier1/c0/marker cut":  # The slot that is left says enough.
            with pytest.raises((siltstone.CorruptDataError, siltstone.StoreNotFoundError)):
                siltstone.open(folder)
        (report,) = siltstone.recover(folder, accept_loss=True)
        assert not report.segments, told
        assert report.lost_version is None, told
        assert opened(folder) == whole, told
        (report,) = siltstone.recover(folder)
        assert (report.state, report.store) == ("healthy", ""), told


def test_a_file_of_the_log_takes_along_what_nothing_else_holds(
    image: tuple[Path, Shown], tmp_path: Path
) -> None:
    place, whole = image
    folder = tmp_path / "store"
    (_, acknowledged) = whole.segments["a"]
    assert acknowledged is not None
    flushed = acknowledged[: acknowledged.rindex(b"only")]
    for told in harmed(place, folder, files(place, "tier1/c0/*.log")):
        try:
            seen = opened(folder)
        except (siltstone.CorruptDataError, siltstone.LogLostError):
            siltstone.recover(folder, accept_loss=True)
            seen = opened(folder)
            assert seen.segments["a"][1] in (flushed, acknowledged), told
        else:
            assert seen == whole, told
        assert seen.tables == whole.tables, told


def test_the_doctor_fails_where_an_open_does(image: tuple[Path, Shown], tmp_path: Path) -> None:
    place, _ = image
    names = files(place, "tier1/c0/*", "chunks/system/c0/*/journal-*")
    for told in harmed(place, tmp_path / "store", names):
        fails = doctor_fails(tmp_path / "store")
        try:
            opened(tmp_path / "store")
        except siltstone.SiltstoneError:
            assert fails, told
        else:
            assert not fails, told
