"""A process that uses the processor for too long is ended."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.support.processor_limit import limited, processor_limit


def test_what_does_not_end_is_ended() -> None:
    def spin() -> None:
        while True:
            pass

    with pytest.raises(TimeoutError, match=r"0.05 s"), processor_limit(0.05):
        spin()
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


@pytest.mark.slow
def test_a_command_that_does_not_end_is_ended() -> None:
    spins = (sys.executable, "-c", "while True: pass")
    assert subprocess.run(limited(spins, 1), check=False).returncode != 0
    done = subprocess.run(limited(("echo", "a b"), 1), check=True, capture_output=True)
    assert done.stdout == b"a b\n"
