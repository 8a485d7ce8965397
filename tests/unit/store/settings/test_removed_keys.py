"""Keys that became constants: accepted and ignored, with a warning that names the real value."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

from siltstone.container.compact.optimiser import (
    RELOCATION_CHUNK_BYTES_MAX,
    RELOCATION_LIVE_BYTES_MAX,
)
from siltstone.container.models.settings import Tuning
from siltstone.core.errors import SettingsError
from siltstone.core.storage.circuit_breaker import CircuitLimits
from siltstone.store.settings.effective import EffectiveSettings, load_settings
from siltstone.store.settings.removed_keys import REMOVED_KEYS
from siltstone.store.settings.settings_views import settings_errors, shown_settings
from siltstone.store.settings.units import format_size, format_time

LEAST = """\
long_term_storage: {binding: nfs, nfs: {path: ./chunks}}
tier1: {log: file, file: {path: ./tier1}}
"""
ROOT = Path(__file__).resolve().parents[4]
TUNING = Tuning()


def load(folder: Path, text: str) -> EffectiveSettings:
    (folder / "siltstone.yaml").write_text(LEAST + text, encoding="utf-8")
    return load_settings(folder, {})


@pytest.mark.parametrize(("key", "value"), REMOVED_KEYS.items(), ids=map(".".join, REMOVED_KEYS))
def test_a_removed_key_is_ignored_with_a_warning(
    tmp_path: Path, key: tuple[str, str], value: str
) -> None:
    """Whatever its value is, also one that was refused before."""
    plain = load(tmp_path, "")
    with pytest.warns(FutureWarning) as caught:
        found = load(tmp_path, f"{key[0]}: {{{key[1]}: 0}}\n")
    file = tmp_path / "siltstone.yaml"
    told = f"{file} line 3: {'.'.join(key)}: no longer a setting; {value} holds, and the value "
    assert [str(one.message) for one in caught] == [told + "here is ignored"]
    assert (found.container, found.index_folder) == (plain.container, plain.index_folder)


def test_the_values_in_the_warnings_are_those_that_hold() -> None:
    size, time = format_size, format_time
    assert {".".join(key): value for key, value in REMOVED_KEYS.items()} == {
        "deadlines.storage_rate": size(TUNING.storage_rate_min),
        "index.unwritten": size(TUNING.index_write_bytes),
        "segments.idle_max": str(TUNING.segments_idle_max),
        "flush.table_bytes": size(TUNING.table_flush_bytes),
        "checkpoint.age": time(TUNING.checkpoint_age_s),
        "garbage.attempts": str(TUNING.garbage_attempts),
        "garbage.interval": time(TUNING.garbage_interval_s),
        "garbage.sweep_requests": str(TUNING.sweep_requests_hour),
        "optimiser.interval": time(TUNING.optimiser_interval_s),
        "optimiser.bytes": size(TUNING.optimiser_bytes),
        "optimiser.requests": str(TUNING.optimiser_requests),
        "optimiser.small": size(TUNING.optimiser_small_bytes),
        "optimiser.chunks": str(TUNING.optimiser_chunks_min),
        "relocation.chunk_min": size(TUNING.relocation_chunk_bytes_min),
        "relocation.chunk_max": size(RELOCATION_CHUNK_BYTES_MAX),
        "relocation.percent": str(TUNING.relocation_percent),
        "relocation.live": size(RELOCATION_LIVE_BYTES_MAX),
        "health.slow_call": time(TUNING.slow_call_s),
        "health.failures": str(CircuitLimits().failures_max),
        "health.probe": time(CircuitLimits().probe_s),
        "health.late": time(TUNING.late_s),
        "health.late_max": time(TUNING.late_s_max),
        "health.throttle": time(TUNING.throttle_s_max),
        "space.interval": time(TUNING.space_interval_s),
    }


def test_the_values_are_documented() -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    part = page.partition("## Removed keys\n")[2].partition("\n## ")[0]
    documented = {}
    for section, keys in re.findall(r"(?m)^- `(\w+)`: (.*)$", part):
        for key, value in re.findall(r"`(\w+)` (\w+)", keys):
            documented[section, key] = value
    assert documented == REMOVED_KEYS


def test_each_removed_key_is_warned_of_once(tmp_path: Path) -> None:
    """Also when the file is read again, as a verb and the tasks of a job do."""
    text = "health: {late: 2min, probe: 1s}\ngarbage: {interval: 1s, delay: 0s}\n"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        assert load(tmp_path, text).container.garbage_delay_s == 0
        load_settings(tmp_path, {})
        assert settings_errors(tmp_path) == []
        shown = {one.key for one in shown_settings(tmp_path)}
    named = [re.search(r"line \d+: ([a-z_.]+):", str(one.message)) for one in caught]
    assert [one and one[1] for one in named] == ["garbage.interval", "health.probe", "health.late"]
    assert "garbage.delay" in shown
    assert not shown & {".".join(key) for key in REMOVED_KEYS}


@pytest.mark.parametrize("key", ["health.lat", "garbage.intervall"])
def test_an_unknown_key_next_to_a_removed_one_is_refused(tmp_path: Path, key: str) -> None:
    section, _, name = key.partition(".")
    right = "late" if section == "health" else "interval"
    with (
        pytest.warns(FutureWarning, match=f"{section}.{right}: no longer"),
        pytest.raises(SettingsError, match=f"line 3: {key}: unknown key"),
    ):
        load(tmp_path, f"{section}: {{{right}: 1s, {name}: 1s}}\n")


def test_a_section_of_removed_keys_must_still_hold_keys(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="line 3: health: must hold keys and values"):
        load(tmp_path, "health: 3\n")
    load(tmp_path, "health: {}\n")
