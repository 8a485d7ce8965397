"""Settings that are each possible and together are not: refused with file, line, key and reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from siltstone.core.errors import SettingsError
from siltstone.core.hooks import load_chunk_storage
from siltstone.store.settings.effective import load_settings

PLACES = "long_term_storage: {binding: nfs, nfs: {path: ./chunks}}\ntier1: {log: file}\n"


def load(folder: Path, text: str) -> None:
    (folder / "siltstone.yaml").write_text(text, encoding="utf-8")
    load_settings(folder, {})


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
            "back_pressure: {table_bytes: 1MiB}",
            "flush.table_bytes: is 4MiB and must not be above back_pressure.table_bytes, 1MiB",
        ),
        (
            "optimiser: {small: 256MiB}",
            "optimiser.small: is 256MiB and must not be above segments.chunk_size, 128MiB",
        ),
        (
            "relocation: {chunk_min: 2GiB}",
            "relocation.chunk_min: is 2GiB and must not be above relocation.chunk_max, 1GiB",
        ),
        (
            "relocation: {live: 2GiB}",
            "relocation.live: is 2GiB and must not be above relocation.chunk_max, 1GiB",
        ),
        (
            "flush: {pack_bytes: 1GiB}",
            "flush.pack_bytes: is 1GiB and must not be above segments.chunk_size, 128MiB",
        ),
        ("health: {late: 10min}", "health.late: is 10min and must be below health.late_max, 10min"),
        (
            "deadlines: {append: 1s}",
            "health.throttle: is 1s and must be below deadlines.append, 1s",
        ),
        (
            "health: {slow_call: 2min}",
            "health.slow_call: is 2min and must be below deadlines.storage, 1min",
        ),
        ("health: {failures: 6}", "health.failures: must be at most 5"),
        ("relocation: {percent: 101}", "relocation.percent: must be at most 100"),
        ("optimiser: {chunks: 1}", "optimiser.chunks: must be at least 2"),
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
        "relocation: {chunk_max: 64MiB}",
        "deadlines: {append: 500ms}\nhealth: {throttle: 0s}",
        "health: {late: 20min, late_max: 21min}",
    ],
)
def test_what_agrees_is_taken(tmp_path: Path, text: str) -> None:
    load(tmp_path, PLACES + text)


def test_the_log_needs_a_folder_of_its_own(tmp_path: Path) -> None:
    """Also when a link leads to another one."""
    (tmp_path / "chunks").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "chunks")
    text = PLACES.replace("{log: file}", "{log: file, file: {path: ./link}}")
    with pytest.raises(SettingsError, match=re.escape("tier1.file.path: is the folder of")):
        load(tmp_path, text)


def test_a_profile_of_the_memory_service_that_is_none() -> None:
    with pytest.raises(SettingsError, match="concat_part_bytes_min is 9 and must not be above"):
        load_chunk_storage("memory", {"concat_part_bytes_min": 9, "concat_part_bytes_max": 8})
