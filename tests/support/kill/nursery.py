"""Children in milliseconds: one process imports everything once, and forks whenever asked.

It runs no thread before a fork, so a child begins as a fresh interpreter would. Run as a module it
serves requests on its standard input, a socket; ``Nursery`` is the other end.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from importlib import import_module
from types import TracebackType
from typing import Any, Self

REQUEST_BYTES_MAX = 65_536
WAIT_S = 120.0
"""For a signal to have its effect: a thread in a sync ends or stops only after it."""
_PR_SET_PDEATHSIG = 1


class Process:
    """A child as its parent sees it."""

    def __init__(self, pid: int, pipe: int) -> None:
        self.pid = pid
        self._pipe = pipe
        self._rest = b""
        try:
            self._handle = os.pidfd_open(pid)
        except ProcessLookupError:
            self._handle = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        os.close(self._pipe)
        if self._handle >= 0:
            os.close(self._handle)

    def reports(self, seconds: float = 0.0) -> list[list[Any]]:
        """Whole lines that the child wrote, waiting for the first at most ``seconds``."""
        while select.select([self._pipe], [], [], seconds)[0]:
            piece = os.read(self._pipe, 1 << 20)
            self._rest += piece
            seconds = 0.0
            if not piece:
                break
        *lines, self._rest = self._rest.split(b"\n")
        return [json.loads(line) for line in lines]

    def until(self, kind: str, seconds: float) -> list[list[Any]]:
        """Reports up to the first of a kind, and those that came with it."""
        end = time.monotonic() + seconds
        found: list[list[Any]] = []
        while not any(report[0] == kind for report in found):
            left = end - time.monotonic()
            assert left > 0, f"no report of kind {kind!r} in {seconds} s: {found[-5:]}"
            gone = self.is_gone(0)  # before the last look, or what it wrote at its end is missed
            found += self.reports(min(left, 0.2))
            assert not gone or any(report[0] == kind for report in found), found[-5:]
        return found

    def is_gone(self, seconds: float) -> bool:
        """Whether the process ended, and freed its locks, within ``seconds``."""
        return self._handle < 0 or bool(select.select([self._handle], [], [], seconds)[0])

    def kill(self) -> None:
        """Kill -9, and wait until it is gone."""
        self._signal(signal.SIGKILL)
        assert self.is_gone(WAIT_S), "a killed process stays"

    def stop(self) -> None:
        """Stop it between two instructions, and wait until every thread is stopped."""
        self._signal(signal.SIGSTOP)
        end = time.monotonic() + WAIT_S
        while not self._is_stopped():
            assert time.monotonic() < end, "a stopped process continues"
            time.sleep(0.001)

    def resume(self) -> None:
        """Let a stopped process continue."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        if self._handle >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)

    def _is_stopped(self) -> bool:
        try:
            threads = os.listdir(f"/proc/{self.pid}/task")
            states = set()
            for thread in threads:
                with open(f"/proc/{self.pid}/task/{thread}/stat", encoding="ascii") as file:
                    states.add(file.read().rpartition(")")[2].split()[0])
        except (FileNotFoundError, ProcessLookupError):
            return self.is_gone(0)
        return states <= {"T", "Z", "X"}


class Nursery:
    """Starts children; whatever lives is killed at the end.

    Args:
        module: has the function ``main(request, pipe)``, which a child runs.
    """

    def __init__(self, module: str = "tests.support.kill.child") -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # In a session of its own: when a shell in whose process group the tests run ends, the
        # kernel resumes the stopped processes of that group.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.kill.nursery", module],
            stdin=theirs.fileno(),
            start_new_session=True,
        )
        theirs.close()

    def start(self, request: bytes) -> Process:
        """Let a new child do what ``request`` says."""
        mine, theirs = os.pipe()
        socket.send_fds(self._socket, [request], [theirs])
        os.close(theirs)
        answer = self._socket.recv(64)
        assert answer, "the nursery is gone"
        return Process(int(answer), mine)

    def close(self) -> None:
        """End all children and the nursery."""
        self._socket.close()
        self._process.wait(120)


def serve(requests: socket.socket, module: str) -> None:
    """Fork a child for every request until the other end closes."""
    child = import_module(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        request, pipes, _, _ = socket.recv_fds(requests, REQUEST_BYTES_MAX, 1)
        if not request:
            return
        pid = os.fork()
        if not pid:
            # No child may outlive the nursery, and a stopped one would for ever.
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            requests.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            child.main(request, pipes[0])
            os._exit(0)
        os.close(pipes[0])
        requests.send(str(pid).encode())


if __name__ == "__main__":
    serve(socket.socket(fileno=sys.stdin.fileno()), sys.argv[1])
