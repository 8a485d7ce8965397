"""Calls of tables: what the call itself accepts, refuses, and reads on the caller's thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone import ClosedError, ReadOnlyError, TableNotFoundError

THREADS = 4
ROUNDS = 60


async def test_keys_and_values_are_taken_by_the_call(tmp_path: Path) -> None:
    async with await siltstone.open_async(siltstone.init(tmp_path)) as store:
        table = await store.create_table("t")
        key, value = bytearray(b"key"), bytearray(b"value")
        made = [table.put(key, value), table.update({b"other": value})]
        key[:] = value[:3] = b"xxx"
        await asyncio.gather(*made)
        assert [(k, v.value) async for k, v in table.scan()] == [
            (b"key", b"value"),
            (b"other", b"value"),
        ]
        gone = table.remove(memoryview(b"key"))
        assert await gone > await made[0]
        assert await table.get(b"key") is None


async def test_what_is_no_key_or_value_is_refused_by_the_call(tmp_path: Path) -> None:
    async with await siltstone.open_async(siltstone.init(tmp_path)) as store:
        table: Any = await store.create_table("t")
        before = await table.version()
        wrong: list[tuple[type[Exception], Callable[[], object]]] = [
            (TypeError, lambda: table.put("k", b"v")),
            (TypeError, lambda: table.put(b"k", "v")),
            (TypeError, lambda: table.put(b"k", None)),
            (ValueError, lambda: table.put(bytes(65_536), b"v")),
            (ValueError, lambda: table.remove(bytes(65_536))),
            (TypeError, lambda: table.update({b"a": b"1", b"k": 7})),
            (ValueError, lambda: table.update({b"a": b"1", bytes(65_536): None})),
            (TypeError, lambda: table.update({b"k": b"v"}, expected={"k": None})),
            (TypeError, lambda: table.update({b"k": b"v"}, expected={b"k": "1"})),
            (ValueError, lambda: table.update({})),
        ]
        for error, call in wrong:
            with pytest.raises(error):
                call()
        assert await table.version() == before
        assert await table.put(bytes(65_535), b"") > before


def test_a_reader_refuses_every_change(tmp_path: Path) -> None:
    file = siltstone.init(tmp_path)
    with siltstone.open(file) as store:
        table = store.create_table("t")
        version = table.put(b"k", b"v")
        with siltstone.open(file, read_only=True) as reader:
            seen = reader.table("t")
            calls: list[Callable[[], object]] = [
                lambda: seen.put(b"k", b"w"),
                lambda: seen.remove(b"k"),
                lambda: seen.update({b"k": b"w"}, expected={b"k": version}),
            ]
            for call in calls:
                with pytest.raises(ReadOnlyError):
                    call()
            assert seen.get(b"k") == siltstone.TableValue(value=b"v", version=version)


def test_a_get_needs_no_loop(tmp_path: Path) -> None:
    with siltstone.open(siltstone.init(tmp_path)) as store:
        table = store.create_table("t")
        version = table.put(b"k", b"v")
        held, going = threading.Event(), threading.Event()

        async def hold() -> None:
            going.set()
            held.wait(60)

        holding = store._loop.submit(hold())
        going.wait(60)
        try:
            assert table.get(b"k") == siltstone.TableValue(value=b"v", version=version)
            assert table.get(b"none") is None
            with pytest.raises(TableNotFoundError):
                store.table("no").get(b"k")
            assert not holding.done()
        finally:
            held.set()
        holding.result(60)


@pytest.mark.slow
def test_every_thread_gets_what_it_put_and_nothing_older_than_it_saw(tmp_path: Path) -> None:
    failures: list[BaseException] = []
    with siltstone.open(siltstone.init(tmp_path)) as store:
        table = store.create_table("t")

        def work(mine: bytes) -> None:
            newest = 0
            try:
                for number in range(ROUNDS):
                    version = table.put(mine, b"%d" % number)
                    assert table.get(mine) == siltstone.TableValue(version, b"%d" % number)
                    table.put(b"shared", mine)
                    found = table.get(b"shared")
                    assert found is not None
                    assert found.version >= max(newest, version)
                    newest = found.version
                    if number % 3 == 0:
                        table.remove(mine)
                        assert table.get(mine) is None
            except BaseException as error:
                failures.append(error)
                raise

        threads = [
            threading.Thread(target=work, args=(b"thread %d" % number,))
            for number in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures


def get_to_the_end(
    table: siltstone.Table, begun: threading.Barrier, ends: list[BaseException]
) -> None:
    try:
        table.get(b"k")
        begun.wait(60)
        while True:
            assert table.get(b"k") is not None
    except Exception as error:  # noqa: BLE001 - the starting thread looks at it
        ends.append(error)


@pytest.mark.slow
def test_gets_that_a_close_overtakes_say_that_the_store_was_closed(tmp_path: Path) -> None:
    file = siltstone.init(tmp_path)
    for _ in range(5):
        ends: list[BaseException] = []
        begun = threading.Barrier(THREADS + 1)
        store = siltstone.open(file)
        table = store.create_table("t", exist_ok=True)
        table.put(b"k", b"v")
        threads = [
            threading.Thread(target=get_to_the_end, args=(table, begun, ends))
            for _ in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        begun.wait(60)
        store.close()
        for thread in threads:
            thread.join()
        assert [type(error) for error in ends] == [ClosedError] * THREADS
        with pytest.raises(ClosedError):
            table.get(b"k")
        with pytest.raises(ClosedError):
            table.put(b"k", b"v")


@pytest.mark.slow
def test_a_reader_gets_what_was_put_since(tmp_path: Path) -> None:
    file = siltstone.init(tmp_path)
    with siltstone.open(file) as store, siltstone.open(file, read_only=True) as reader:
        table = store.create_table("t")
        seen = reader.table("t")
        newest = 0
        for number in range(5):
            version = table.put(b"k", b"%d" % number)
            end = time.monotonic() + 60
            while newest < version:
                try:
                    found = seen.get(b"k")
                except TableNotFoundError:
                    assert not newest
                    continue
                assert time.monotonic() < end
                if found is not None:
                    assert found.version >= newest
                    newest = found.version
            assert seen.get(b"k") == siltstone.TableValue(version, b"%d" % number)
