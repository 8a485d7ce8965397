"""The process of the command: how signals end it before it has begun and after it has ended.

It imports next to nothing. What the command needs takes most of a second to import, and an
interrupt meanwhile would be a traceback.
"""

from __future__ import annotations

import gc
import os
import signal
from contextlib import suppress
from types import FrameType
from typing import Final, NoReturn

from siltstone.cli.interrupts import end_text

SIGNALS: Final = {signal.SIGINT: ("interrupted", 130), signal.SIGTERM: ("terminated", 143)}
"""What is said of each signal that ends the command, and its code."""

UNCOLLECTED: Final = 50_000
"""New objects before the garbage collector looks at them. Nearly all that a verb makes at first are
its modules, which stay; looking at them again and again takes a tenth of a short verb."""


def main() -> NoReturn:
    """Run the command of this process."""
    end_at_once()
    gc.set_threshold(UNCOLLECTED, *gc.get_threshold()[1:])
    from siltstone.cli.main import main as command

    command()


def end_at_once(code: int | None = None) -> None:
    """Let signals end the process where it stands, since there is nothing to put in order.

    Args:
        code: what the command ended with; ``None`` while it has not begun, so that it is told.
    """

    def end(number: int, frame: FrameType | None) -> None:
        said, own_code = SIGNALS[signal.Signals(number)]
        if code is None:
            with suppress(OSError):
                os.write(2, f"{end_text(said)}\n".encode())
        os._exit(own_code if code is None else code)

    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as of a job in the background
            signal.signal(number, end)
