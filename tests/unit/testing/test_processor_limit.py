"""What uses the processor for too long is ended, in a task of an event loop as well."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys

import pytest

from tests.processor_limit import limited, processor_limit


def test_what_does_not_end_is_ended() -> None:
    async def spinning() -> None:
        while True:  # noqa: ASYNC110 - it waits for nothing
            await asyncio.sleep(0)

    async def play() -> None:
        await asyncio.gather(spinning(), return_exceptions=True)

    with pytest.raises(TimeoutError, match=r"0.05 s"), processor_limit(0.05):
        asyncio.run(play())
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def test_a_command_that_does_not_end_is_ended() -> None:
    spins = (sys.executable, "-c", "while True: pass")
    assert subprocess.run(limited(spins, 1), check=False).returncode != 0
    done = subprocess.run(limited(("echo", "a b"), 1), check=True, capture_output=True)
    assert done.stdout == b"a b\n"
