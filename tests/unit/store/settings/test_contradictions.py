"""Settings that are possible alone but not together: refused with file, line, key and reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from siltstone.container.models.settings import ContainerSettings
from siltstone.core.errors import SettingsError
from siltstone.core.hooks import load_chunk_storage
from siltstone.store.settings.effective import load_settings

PLACES = "long_term_storage: {binding: nfs, nfs: {path: ./chunks}}\ntier1: {log: file}\n"


def load(folder: Path, text: str) -> ContainerSettings:
    (folder / "siltstone.yaml").write_text(text, encoding="utf-8")
    return load_settings(folder, {}).container


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "flush: {bytes: 1GiB}",
            "flush.bytes: is 1GiB and must not be above back_pressure.bytes, 256MiB",
        ),
        (
            "back_pressure: {bytes: 4MiB}\nflush: {bytes: 5MiB}",
            "line 4: flush.bytes: is 5MiB and must not be above back_pressure.bytes, 4MiB",
        ),
        (
            "flush: {pack_bytes: 1GiB}",
            "flush.pack_bytes: is 1GiB and must not be above segments.chunk_size, 128MiB",
        ),
        ("index: {path: ./chunks}", "index.path: is the folder of long_term_storage.nfs.path"),
        (
            "index: {path: ./chunks/index}",
            "index.path: lies in the folder of long_term_storage.nfs.path",
        ),
    ],
)
def test_contradictions(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(reason)) as caught:
        load(tmp_path, PLACES + text)
    assert str(tmp_path / "siltstone.yaml") in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "flush: {bytes: 256MiB}",
        "back_pressure: {bytes: 4MiB}",
        "segments: {chunk_size: 1MiB}",
    ],
)
def test_what_agrees_is_taken(tmp_path: Path, text: str) -> None:
    load(tmp_path, PLACES + text)


def test_constants_give_way_to_what_is_written(tmp_path: Path) -> None:
    text = "back_pressure: {table_bytes: 1MiB}\ndeadlines: {append: 500ms, storage: 1s}\n"
    found = load(tmp_path, PLACES + text)
    assert found.table_flush_bytes == 2**20
    assert found.throttle_s_max == 0.25
    assert found.slow_call_s == 0.5


def test_the_log_needs_a_folder_of_its_own(tmp_path: Path) -> None:
    """Also when a link leads to another folder in use."""
    (tmp_path / "chunks").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "chunks")
    text = PLACES.replace("{log: file}", "{log: file, file: {path: ./link}}")
    with pytest.raises(SettingsError, match=re.escape("tier1.file.path: is the folder of")):
        load(tmp_path, text)


def test_a_profile_of_the_memory_service_that_is_none() -> None:
    with pytest.raises(SettingsError, match="concat_part_bytes_min is 9 and must not be above"):
        load_chunk_storage("memory", {"concat_part_bytes_min": 9, "concat_part_bytes_max": 8})
