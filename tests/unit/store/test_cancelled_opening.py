"""An open that is given up holds nothing: the next one finds the store free at once."""

from __future__ import annotations

import asyncio
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import siltstone
import siltstone.store.store
from siltstone.container.container import Container
from siltstone.metadata.index import Index
from siltstone.store.opening import open_async_store
from siltstone.store.store_assembly import Assembly

HELD_S = 0.3


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Make openings of an index slow; the event says that the first one has begun."""
    begun, open_index = threading.Event(), Index.open
    held = threading.Event()
    opened = []  # so that none is closed only because nothing refers to it any more

    def slowly(*args: Any, **kwargs: Any) -> Index:
        is_first = not begun.is_set()
        begun.set()
        if is_first:
            held.wait(HELD_S)
        index = open_index(*args, **kwargs)
        opened.append(index)
        if is_first:
            held.wait(HELD_S)
        return index

    monkeypatch.setattr(Index, "open", slowly)
    return begun


@pytest.mark.slow
@pytest.mark.parametrize("is_restored", [False, True])
def test_a_store_is_free_after_an_opening_that_was_cancelled(
    tmp_path: Path, begun: threading.Event, *, is_restored: bool
) -> None:
    file = siltstone.init(tmp_path / "store")
    with siltstone.open(file) as store:
        store.create("a").append(b"kept")
        store.flush()
    if is_restored:
        shutil.rmtree(tmp_path / "store" / "index")
    begun.clear()

    async def play() -> None:
        opening = asyncio.create_task(siltstone.open_async(file))
        await asyncio.to_thread(begun.wait)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        async with await siltstone.open_async(file) as store:
            assert await store.segment("a").read(0, 10) == b"kept"

    asyncio.run(play())


class Alarm(BaseException):
    """The exception that a signal raises."""


@pytest.fixture
def alarm() -> Iterator[None]:
    def ring(number: int, frame: object) -> None:
        raise Alarm

    before = signal.signal(signal.SIGUSR1, ring)
    yield
    signal.signal(signal.SIGUSR1, before)


def ring_main_thread() -> None:
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)


def loops() -> list[str]:
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name == "siltstone-loop"]


async def test_a_store_is_free_after_an_opening_that_was_cancelled_at_its_last_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = siltstone.init(tmp_path / "store")
    reached, held = threading.Event(), threading.Event()

    def slowly(assembly: Assembly) -> None:
        reached.set()
        held.wait(HELD_S)

    with monkeypatch.context() as patched:
        patched.setattr(Assembly, "expose", slowly)
        opening = asyncio.create_task(siltstone.open_async(file))
        await asyncio.to_thread(reached.wait)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
    async with await siltstone.open_async(file):
        pass


@pytest.mark.slow
async def test_a_store_is_free_after_an_opening_that_was_cancelled_as_its_containers_were_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = siltstone.init(tmp_path / "store", containers=2)
    open_owner, opened = Assembly.open_owner, []

    async def cancelling(assembly: Assembly, index: int, *, takeover: bool) -> Container:
        opened.append(await open_owner(assembly, index, takeover=takeover))
        if len(opened) == 2:
            opening.cancel()
        return opened[-1]

    with monkeypatch.context() as patched:
        patched.setattr(Assembly, "open_owner", cancelling)
        opening = asyncio.create_task(siltstone.open_async(file))
        with pytest.raises(asyncio.CancelledError):
            await opening
    async with await siltstone.open_async(file):
        pass


@pytest.mark.usefixtures("alarm")
def test_a_store_is_free_that_was_open_just_when_its_caller_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = siltstone.init(tmp_path / "store")

    async def interrupting(*args: Any, **kwargs: Any) -> siltstone.AsyncStore:
        store = await open_async_store(*args, **kwargs)
        ring_main_thread()
        return store

    with monkeypatch.context() as patched:
        patched.setattr(siltstone.store.store, "open_async_store", interrupting)
        with pytest.raises(Alarm):
            siltstone.open(file)
    assert loops() == []
    siltstone.open(file).close()


def test_an_interrupted_start_of_the_loop_leaves_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = siltstone.init(tmp_path / "store")
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        if thread.name == "siltstone-loop":
            raise Alarm

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(Alarm):
            siltstone.open(file)
    assert loops() == []
