"""A place of this machine that does not answer is reported by its name."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import siltstone
from siltstone.core.errors import LogError, Outcome, StoreError
from siltstone.core.storage.first_look import first_look, first_look_at_log


@pytest.fixture
def silence(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Holds every call that waits for it, while the time limits are tiny."""
    monkeypatch.setattr("siltstone.core.storage.first_look.PLACE_S", 0.01)
    monkeypatch.setattr("siltstone.core.storage.first_look.LOG_S", 0.01)
    return threading.Event()


def test_a_place_that_hangs_is_named(silence: threading.Event) -> None:
    with pytest.raises(StoreError, match="this place does not answer path=/srv/a"):
        first_look("/srv/a", lambda: silence.wait(120))
    with pytest.raises(LogError, match="tier 1 does not answer container=3") as caught:
        first_look_at_log(3, lambda: silence.wait(120))
    assert caught.value.outcome is Outcome.NOT_APPLIED
    silence.set()


def test_what_a_look_finds_or_raises_comes_through() -> None:
    assert first_look("/srv/a", lambda: 7) == 7
    with pytest.raises(FileNotFoundError):
        first_look("/srv/a", lambda: Path("/srv/no/such/place").stat())


def test_an_opening_ends_whose_settings_file_hangs(
    tmp_path: Path, silence: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "siltstone.store.settings.effective.find_settings_file", lambda _: silence.wait(120)
    )
    with pytest.raises(StoreError, match=f"does not answer path={tmp_path}"):
        siltstone.open(tmp_path)
    silence.set()
