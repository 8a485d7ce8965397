"""How test servers start, die, come back, and end with the process that started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.server import StartError
from tests.unit.services.answering import AnsweringServer

ROOT = Path(__file__).parents[3]


@pytest.fixture
def server() -> Iterator[AnsweringServer]:
    with AnsweringServer() as made:
        yield made.start()


def test_a_server_listens_on_the_loopback_when_it_has_started(server: AnsweringServer) -> None:
    assert server.read() == b""
    assert server.is_running


@pytest.mark.slow
def test_a_killed_server_comes_back_on_its_port_with_its_data(server: AnsweringServer) -> None:
    server.write(b"one")
    port, pid = server.port, server.pid
    server.kill()
    assert not server.is_running
    server.start()
    server.write(b"two")
    assert (server.read(), server.port) == (b"onetwo", port)
    assert server.pid != pid


def test_the_process_is_the_program_itself(server: AnsweringServer) -> None:
    line = Path(f"/proc/{server.pid}/cmdline").read_bytes()
    assert b"answering_program.py" in line
    assert b"leash" not in line


@pytest.mark.slow
def test_a_stopped_server_can_be_started_again(server: AnsweringServer) -> None:
    server.stop()
    assert not server.is_running
    assert server.start().read() == b""


def test_closing_removes_the_folder(server: AnsweringServer) -> None:
    folder, pid = server.folder, server.pid
    server.close()
    assert not folder.exists()
    assert not Path(f"/proc/{pid}").exists()


def test_a_server_that_ends_at_once_shows_its_log() -> None:
    with AnsweringServer("--fail") as server:
        with pytest.raises(StartError, match="this is why"):
            server.start()
        assert not server.is_running


@pytest.mark.slow
def test_two_servers_do_not_meet(server: AnsweringServer) -> None:
    with AnsweringServer() as other:
        other.start().write(b"x")
        assert server.read() == b""


OWNER = textwrap.dedent("""
    import sys, time
    from tests.unit.services.answering import AnsweringServer
    server = AnsweringServer().start()
    first = server.pid
    if "again" in sys.argv:
        server.kill()
        server.start()
    if "down" in sys.argv:
        server.kill()
    print(server.folder, first if "down" in sys.argv else server.pid, flush=True)
    time.sleep(60)
""")


@pytest.mark.slow
@pytest.mark.parametrize("story", ["", "again", "down"])
def test_nothing_stays_when_the_owner_is_killed(story: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, story], cwd=ROOT, env=environment, stdout=subprocess.PIPE
    ) as owner:
        assert owner.stdout is not None
        folder, pid = owner.stdout.readline().decode().split()
        assert Path(folder).is_dir()
        owner.send_signal(signal.SIGKILL)
    # The watcher needs a moment; this wait ends in any case, or the time of the test is over.
    while Path(folder).exists() or _runs(int(pid)):
        os.sched_yield()


def _runs(pid: int) -> bool:
    try:
        return b"answering" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
