"""What others do to a bucket, and what is wrong with this machine, on a real server."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import siltstone
from services.s3_server import S3Server
from siltstone.bindings.s3.chunk_storage import open_bucket
from siltstone.bindings.s3.settings import Transport
from siltstone.core.errors import (
    ChunkAccessDeniedError,
    CorruptDataError,
    LostDataError,
    Outcome,
    SettingsError,
)
from tests.support.services.s3_services import new_bucket, options_of, settings_of

CONTENT = bytes(range(251)) * 4_000
CHANGES: dict[str, tuple[Callable[[Any, str], None], type[Exception]]] = {
    "replaced": (
        lambda raw, key: raw.write(key, bytes(byte ^ 1 for byte in raw.read(key))),
        CorruptDataError,
    ),
    "shortened": (lambda raw, key: raw.write(key, raw.read(key)[:-1]), LostDataError),
    "emptied": (lambda raw, key: raw.write(key, b""), LostDataError),
    "deleted": (lambda raw, key: raw.remove(key), LostDataError),
}


@pytest.mark.usefixtures("s3_plugin")
@pytest.mark.parametrize("transport", Transport)
@pytest.mark.parametrize("change", CHANGES)
def test_an_object_that_was_changed_is_never_read_wrongly(
    versitygw: S3Server, tmp_path: Path, change: str, transport: Transport
) -> None:
    bucket, raw = new_bucket(versitygw)
    options = options_of(versitygw, bucket, transport=str(transport), prefix="stores/one")
    file = siltstone.init(tmp_path / "store", binding="s3", options=options)
    raw.write("stores/one/theirs", b"x")
    act, expected = CHANGES[change]
    with siltstone.open(file) as store:
        for name in ("a", "b"):
            segment = store.create(name)
            segment.append(CONTENT)
            segment.flush()
            segment.append(CONTENT)
            segment.flush()
        first, second = (found.chunk for found in store.segment("a").chunks())
        act(raw, f"stores/one/{second}")
        segment = store.segment("a")
        assert segment.read(0, len(CONTENT)) == CONTENT
        for start in (0, len(CONTENT), 2 * len(CONTENT) - 10):
            with pytest.raises(expected) as caught:
                segment.read(start, 2 * len(CONTENT))
            assert second in str(caught.value)
            assert first not in str(caught.value)
        assert store.segment("b").read(0, 2 * len(CONTENT)) == CONTENT * 2
    assert raw.read("stores/one/theirs") == b"x"


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_wrong_clock_is_told(
    versitygw: S3Server, hours: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket, raw = new_bucket(versitygw)
    storage = open_bucket(settings_of(versitygw, bucket))
    storage.create("before", [b"x"])
    wrong = datetime.now(UTC) + timedelta(hours=hours)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: wrong)
    calls: list[Callable[[], object]] = [
        lambda: storage.create("a", [b"x"]),
        lambda: storage.stat("before"),
        lambda: storage.read_into("before", 0, bytearray(1)),
    ]
    for call in calls:
        with pytest.raises(ChunkAccessDeniedError) as caught:
            call()
        assert caught.value.outcome is Outcome.NOT_APPLIED
    monkeypatch.undo()
    assert raw.read("a") is None
    assert storage.stat("before").length == 1
    storage.close()


def test_another_region_is_named(versitygw: S3Server) -> None:
    bucket, _ = new_bucket(versitygw)
    with pytest.raises((SettingsError, ChunkAccessDeniedError), match="region"):
        open_bucket(settings_of(versitygw, bucket, region="eu-central-1"))
