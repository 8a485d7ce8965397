"""A server that runs: how it starts, ends, dies, and comes back."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from services.free_port import free_port

LEASH = Path(__file__).with_name("leash.py")
READY_S = 60.0
END_S = 20.0
PORTS_TRIED = 5
LINES_SHOWN = 15


class StartError(Exception):
    """A server ended before it was ready, or was not ready in time; with the end of its log."""


class Server(ABC):
    """A process on the loopback, with its data in a folder that is removed when it is closed.

    It ends with this process, however this process ends. Its port stays the same after its start.

    Args:
        name: for people.

    Attributes:
        name: see above.
        folder: of this server alone, with its log in it.
        data: the folder below that a subclass gives to the server.
        port: where it listens; 0 before its first start.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.folder = Path(tempfile.mkdtemp(prefix=f"siltstone-server-{name}-"))
        self.data = self.folder / "data"
        self.data.mkdir()
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> Sequence[str]:
        """The program and its arguments."""

    @abstractmethod
    def environment(self) -> Mapping[str, str]:
        """All environment variables that it gets."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Ask once, without waiting, whether it serves."""

    @property
    def endpoint(self) -> str:
        """Its address, for people."""
        return f"127.0.0.1:{self.port}"

    @property
    def access(self) -> str:
        """What else a person needs to use it."""
        return ""

    @property
    def pid(self) -> int:
        """The process that runs now."""
        assert self._process is not None, f"{self.name} does not run"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it was started and did not end since."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start it, on its old port and with its old data if it ran before; wait until it serves.

        Raises:
            StartError: it did not come up.
        """
        assert not self.is_running, f"{self.name} runs already"
        tries = 1 if self.port else PORTS_TRIED
        for last in range(tries):
            if tries > 1:
                self.port = free_port()
            self._spawn()
            try:
                self._wait_until_ready()
                return self
            except StartError as error:
                self.kill()
                # Another process may have taken the port first.
                if last == tries - 1 or "in use" not in str(error):
                    raise
        raise AssertionError("not reached")

    def stop(self) -> None:
        """Ask it to end, and wait until it ended; kill it if that takes too long."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once, as kill -9 does. Its data stay as they are."""
        self._end(signal.SIGKILL)

    def close(self) -> None:
        """End it and remove all that it made."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self) -> str:
        """The last lines that it wrote, over all its lives, without the frames of Java's errors."""
        try:
            text = (self.folder / "log").read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""
        lines = [line for line in text.splitlines() if not line.startswith("\tat ")]
        return "\n".join(lines[-LINES_SHOWN:])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _spawn(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", LEASH, str(os.getpid()), self.folder, *self.command()],
                cwd=self.folder,
                env=dict(self.environment()),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _wait_until_ready(self) -> None:
        until = time.monotonic() + READY_S
        while time.monotonic() < until:
            if not self.is_running:
                raise StartError(f"{self.name} ended at once\n{self.log()}")
            if self.is_ready():
                return
            time.sleep(0.02)
        raise StartError(f"{self.name} was not ready within {READY_S:g} s\n{self.log()}")

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(END_S)
