"""A whole store with a cache: reads without the service, checks that ask it anyway."""

from __future__ import annotations

from pathlib import Path

import pytest

import siltstone
from siltstone.core.errors import SettingsError

CONTENT = bytes(range(256)) * 4_096
CACHE = "cache:\n  path: ./cache\n  size: 16MiB\n"


def made(folder: Path) -> Path:
    file = siltstone.init(folder / "store")
    with file.open("a", encoding="utf-8") as text:
        text.write(CACHE)
    with siltstone.open(file) as store:
        store.create("a").append(CONTENT)
        store.flush()
    return file


def read(store: siltstone.Store) -> bytes:
    return store.segment("a").read(100_000, 500_000)


def chunks(file: Path) -> list[Path]:
    return [path for path in (file.parent / "chunks" / "data").rglob("*") if path.is_file()]


@pytest.mark.slow
def test_what_was_read_once_is_read_without_the_service(tmp_path: Path) -> None:
    file = made(tmp_path)
    with siltstone.open(file) as store:
        assert read(store) == CONTENT[100_000:600_000]
    for path in chunks(file):
        path.rename(path.with_suffix(".away"))
    with siltstone.open(file) as store:
        assert read(store) == CONTENT[100_000:600_000]
        with pytest.raises(siltstone.LostDataError):
            store.segment("a").read(700_000, 100_000)


def test_a_deep_check_looks_at_what_the_service_holds(tmp_path: Path) -> None:
    file = made(tmp_path)
    with siltstone.open(file) as store:
        assert store.segment("a").read(0, len(CONTENT)) == CONTENT
        assert list(store.check(deep=True)) == []
        (path,) = chunks(file)
        damaged = bytearray(path.read_bytes())
        damaged[500_000] ^= 1
        path.write_bytes(damaged)
        assert store.segment("a").read(0, len(CONTENT)) == CONTENT
        assert list(store.check(deep=True)), "the damage is found"


@pytest.mark.slow
def test_a_damaged_cache_changes_no_byte(tmp_path: Path) -> None:
    file = made(tmp_path)
    with siltstone.open(file) as store:
        assert read(store) == CONTENT[100_000:600_000]
    blocks = file.parent / "cache" / "blocks"
    damaged = bytearray(blocks.read_bytes())
    damaged[5_000::50_000] = bytes(len(damaged[5_000::50_000]))
    blocks.write_bytes(damaged)
    with siltstone.open(file) as store:
        assert read(store) == CONTENT[100_000:600_000]


def test_the_cache_needs_a_folder_of_its_own(tmp_path: Path) -> None:
    file = siltstone.init(tmp_path / "store")
    with file.open("a", encoding="utf-8") as text:
        text.write("cache:\n  path: ./index\n")
    with pytest.raises(SettingsError, match=r"cache\.path"):
        siltstone.open(file)
