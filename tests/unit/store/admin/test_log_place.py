"""A tier 1 that is not where the settings say: what is reported, and what is not done."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import siltstone
from siltstone.container.models.recovery_report import RecoveryState
from siltstone.store.admin.recovery import recover_store


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A store with bytes that only tier 1 has."""
    made = tmp_path / "store"
    siltstone.init(made)
    with siltstone.open(made) as store:
        store.create("a").append(b"only in tier 1")
    return made


def _misspelt(place: Path) -> int:
    """Misspell the folder of tier 1 in the settings; return the number of its line."""
    file = place / "siltstone.yaml"
    lines = file.read_text().splitlines()
    number = next(n for n, line in enumerate(lines) if re.fullmatch(r"\s+path: \./tier1", line))
    lines[number] = lines[number].replace("tier1", "teir1")
    file.write_text("\n".join(lines) + "\n")
    return number + 1


@pytest.mark.slow
@pytest.mark.parametrize("read_only", [True, False])
def test_a_folder_that_is_missing_is_named_with_its_settings(place: Path, read_only: bool) -> None:
    line = _misspelt(place)
    with pytest.raises(siltstone.LogLostError) as caught:
        siltstone.open(place, read_only=read_only)
    told = str(caught.value)
    assert told.startswith(f"there is no folder {place / 'teir1' / 'c0'}, where the settings say")
    assert f"settings={place / 'siltstone.yaml'}:{line}" in told
    assert "mend the setting" in told
    assert not (place / "teir1").exists()


@pytest.mark.slow
def test_a_recovery_says_first_that_the_folder_is_missing(place: Path) -> None:
    line = _misspelt(place)
    (report,) = recover_store(place)
    assert report.state is RecoveryState.LOST
    assert report.reason.startswith(f"there is no folder {place / 'teir1' / 'c0'}")
    assert f"settings={place / 'siltstone.yaml'}:{line}" in report.reason


def _emptied(place: Path) -> None:
    for file in (place / "tier1" / "c0").iterdir():
        file.unlink()


def _of_another_store(place: Path) -> None:
    other = place.with_name("other")
    siltstone.init(other)
    with siltstone.open(other) as store:
        store.create("b").append(b"else")
    shutil.rmtree(place / "tier1")
    shutil.copytree(other / "tier1", place / "tier1")


def _older(place: Path) -> None:
    shutil.copytree(place / "tier1", place.with_name("older"))
    with siltstone.open(place) as store:
        store.segment("a").append(b"more")
    shutil.rmtree(place / "tier1")
    place.with_name("older").rename(place / "tier1")


def _without_journal(place: Path) -> None:
    shutil.rmtree(place / "chunks" / "system" / "c0")
    shutil.rmtree(place / "chunks" / "data", ignore_errors=True)


@pytest.mark.slow
@pytest.mark.parametrize("change", [_emptied, _of_another_store, _older, _without_journal])
@pytest.mark.parametrize("read_only", [True, False])
def test_every_lost_log_is_named(
    place: Path, change: Callable[[Path], None], read_only: bool
) -> None:
    change(place)
    with pytest.raises(siltstone.LogLostError) as caught:
        siltstone.open(place, read_only=read_only)
    told = str(caught.value)
    assert f"path={place / 'tier1' / 'c0'}" in told
    assert f"settings={place / 'siltstone.yaml'}:" in told
