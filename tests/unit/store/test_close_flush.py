"""What a close brings to long-term storage, by the settings, a call or an interrupt."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import siltstone
from siltstone.container.models.settings import CloseFlush
from siltstone.core.errors import SettingsError


def made(tmp_path: Path, settings: str = "") -> Path:
    file = siltstone.init(tmp_path / "store")
    with file.open("a", encoding="utf-8") as text:
        text.write(settings)
    with siltstone.open(file) as store:
        store.create("a")
        store.close(flush="always")
    return file


def flushed(file: Path) -> int:
    with siltstone.open(file, read_only=True) as store:
        return store.segment("a").info().flushed_length


@pytest.mark.parametrize(("choice", "bytes_flushed"), [("always", 5), ("never", 0), (None, 0)])
def test_a_call_chooses(tmp_path: Path, choice: CloseFlush | None, bytes_flushed: int) -> None:
    file = made(tmp_path)
    store = siltstone.open(file)
    store.segment("a").append(b"bytes")
    store.close(flush=choice)
    assert flushed(file) == bytes_flushed


def test_the_settings_choose_where_a_call_does_not(tmp_path: Path) -> None:
    file = made(tmp_path, "close: {flush: always}\n")
    with siltstone.open(file) as store:
        store.segment("a").append(b"bytes")
    assert flushed(file) == 5


def test_a_choice_that_is_none_is_refused_and_closes_nothing(tmp_path: Path) -> None:
    with siltstone.open(made(tmp_path)) as store:
        with pytest.raises(ValueError, match="auto, always, never, not 'sometimes'"):
            store.close(flush="sometimes")  # type: ignore[arg-type]
        assert not store.closed
        store.segment("a").append(b"bytes")


def test_a_setting_that_is_none_is_refused(tmp_path: Path) -> None:
    file = made(tmp_path)
    with file.open("a", encoding="utf-8") as text:
        text.write("close: {flush: sometimes}\n")
    with pytest.raises(SettingsError, match=r"close\.flush"):
        siltstone.open(file)


def test_an_interrupted_block_begins_no_flush(tmp_path: Path) -> None:
    file = made(tmp_path, "close: {flush: always}\n")

    def interrupted() -> None:
        with siltstone.open(file) as store:
            store.segment("a").append(b"bytes")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert flushed(file) == 0


def test_a_block_that_failed_closes_as_the_settings_say(tmp_path: Path) -> None:
    file = made(tmp_path, "close: {flush: always}\n")

    def failed() -> None:
        with siltstone.open(file) as store:
            store.segment("a").append(b"bytes")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failed()
    assert flushed(file) == 5


def test_a_cancelled_task_begins_no_flush(tmp_path: Path) -> None:
    file = made(tmp_path, "close: {flush: always}\n")

    async def cancelled() -> None:
        async with await siltstone.open_async(file) as store:
            await store.segment("a").append(b"bytes")
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    assert flushed(file) == 0
