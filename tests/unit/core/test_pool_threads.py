"""Calls on threads of a pool: their results, their order, how many at a time, and their end."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator

import pytest

from siltstone.core.pool_threads import PoolThreads

WAIT_S = 120


@pytest.fixture
def pool() -> Iterator[PoolThreads]:
    made = PoolThreads("test", 2)
    yield made
    made.close()


class Seen:
    """What a call or its error refers to."""


def test_a_call_gives_its_result_or_its_error(pool: PoolThreads) -> None:
    def wrong() -> int:
        raise KeyError("of the call")

    async def main() -> None:
        assert await pool.run(lambda: 7) == 7
        with pytest.raises(KeyError, match="of the call"):
            await pool.run(wrong)

    asyncio.run(main())


def test_no_more_calls_run_at_a_time_than_there_are_threads(pool: PoolThreads) -> None:
    lock, most, running = threading.Lock(), 0, 0
    both = threading.Barrier(2)

    def call() -> str:
        nonlocal most, running
        with lock:
            running += 1
            most = max(most, running)
        both.wait(WAIT_S)
        with lock:
            running -= 1
        return threading.current_thread().name

    async def main() -> set[str]:
        return set(await asyncio.gather(*(pool.run(call) for _ in range(10))))

    assert len(asyncio.run(main())) == 2
    assert most == 2


def test_calls_one_after_the_other_share_a_thread() -> None:
    pool = PoolThreads("test", 8)

    async def main() -> set[int]:
        return {await pool.run(threading.get_ident) for _ in range(50)}

    # The thread is free again before its caller is told.
    assert len(asyncio.run(main())) == 1
    pool.close()


def test_calls_of_one_thread_are_made_in_their_order() -> None:
    pool, made = PoolThreads("test", 1), list[int]()

    async def main() -> None:
        await asyncio.gather(*(pool.run(lambda n=n: made.append(n)) for n in range(100)))  # type: ignore[misc]

    asyncio.run(main())
    assert made == list(range(100))
    pool.close()


def test_a_cancelled_caller_is_free_and_his_call_is_made() -> None:
    pool, proceed, made = PoolThreads("test", 1), threading.Event(), list[str]()

    async def main() -> None:
        first = pool.run(lambda: proceed.wait(WAIT_S))
        second = pool.run(lambda: made.append("second"))
        for future in (first, second):
            future.cancel()
            with pytest.raises(asyncio.CancelledError):
                await future
        proceed.set()
        await pool.run(lambda: made.append("third"))

    asyncio.run(main())
    assert made == ["second", "third"]
    pool.close()


def test_closing_waits_for_what_was_asked_for_and_takes_no_more() -> None:
    pool, made = PoolThreads("test", 2), list[int]()

    async def main() -> None:
        for number in range(20):
            pool.run(lambda n=number: made.append(n))  # type: ignore[misc]
        await asyncio.to_thread(pool.close)
        pool.close()
        with pytest.raises(RuntimeError, match="ended"):
            pool.run(lambda: None)

    asyncio.run(main())
    assert sorted(made) == list(range(20))


def test_closing_does_not_wait_for_a_call_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("siltstone.core.pool_threads.END_S", 0.01)
    pool, proceed, ended = PoolThreads("test", 1), threading.Event(), threading.Event()

    def call() -> None:
        proceed.wait(WAIT_S)
        ended.set()

    async def main() -> None:
        pool.run(call)
        pool.close()
        assert not ended.is_set()

    asyncio.run(main())
    proceed.set()
    assert ended.wait(WAIT_S)


def test_a_call_outlives_its_loop(pool: PoolThreads) -> None:
    proceed, ended = threading.Event(), threading.Event()

    def call() -> None:
        proceed.wait(WAIT_S)
        ended.set()

    async def main() -> None:
        pool.run(call)

    async def again() -> int:
        return await pool.run(lambda: 7)

    asyncio.run(main())
    proceed.set()
    assert ended.wait(WAIT_S)
    assert [asyncio.run(again()) for _ in range(3)] == [7, 7, 7]


def test_a_thread_that_waits_keeps_nothing_alive(pool: PoolThreads) -> None:
    seen: list[weakref.ref[Seen]] = []

    def held() -> Seen:
        value = Seen()
        seen.append(weakref.ref(value))
        return value

    async def main() -> None:
        await pool.run(held)

    asyncio.run(main())
    until = time.monotonic() + WAIT_S
    while seen[0]() is not None and time.monotonic() < until:
        gc.collect()
    assert seen[0]() is None


PROGRAM = """
import asyncio, time
from siltstone.core.pool_threads import PoolThreads

pool = PoolThreads("test", 1)

def call():
    time.sleep(0.2)
    print("made", flush=True)

async def main():
    {before}
    pool.run(call)

asyncio.run(main())
"""


@pytest.mark.parametrize("before", ["pass", "await pool.run(lambda: None)"])
def test_the_end_of_the_process_waits_for_calls_and_for_nothing_else(before: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(before=before)],
        capture_output=True,
        text=True,
        check=True,
        timeout=WAIT_S,
    )
    assert (done.stdout, done.stderr) == ("made\n", "")


HANGS = """
import asyncio, threading
from siltstone.core import pool_threads

pool_threads.END_S = 0.01
pools = [pool_threads.PoolThreads("test", 1) for _ in range(3)]

async def main():
    for pool in pools:
        pool.run(threading.Event().wait)

asyncio.run(main())
print("over", flush=True)
"""


def test_the_end_of_the_process_waits_for_no_call_that_hangs() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANGS], capture_output=True, text=True, check=True, timeout=WAIT_S
    )
    assert (done.stdout, done.stderr) == ("over\n", "")


def test_a_fork_can_end_without_the_threads(pool: PoolThreads) -> None:
    program = (
        "import asyncio, os, sys\n"
        "from siltstone.core.pool_threads import PoolThreads\n"
        "pool = PoolThreads('test', 1)\n"
        "async def main(): await pool.run(lambda: None)\n"
        "asyncio.run(main())\n"
        "pool._lock.acquire()\n"
        "child = os.fork()\n"
        "if child: pool._lock.release(); sys.exit(os.waitpid(child, 0)[1])\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=WAIT_S)
