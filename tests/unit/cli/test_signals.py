"""How the command ends from outside: pipes, signals, and folders that it may not touch.

What is injected: the reader of a pipe leaves, SIGINT, SIGTERM, permissions. What must hold: the
documented code, no traceback, the store closed so that the next owner needs no takeover.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

import siltstone
from tests.unit.cli.conftest import COMMAND

Process = Callable[..., "subprocess.Popen[bytes]"]

SAID = {
    signal.SIGINT: b"siltstone: interrupted\n",
    signal.SIGTERM: b"siltstone: terminated\n",
}

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")


@pytest.mark.slow
def test_a_closed_pipe_ends_quietly(process: Process, folder: Path) -> None:
    with siltstone.open(folder) as store:
        store.create("a").append(bytes(5_000_000))
    with process("cat", "a") as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.read(10) == bytes(10)
        running.stdout.close()
        assert running.wait(120) == 141
        assert running.stderr.read() == b""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("closed", "arguments", "code", "said"),
    [
        (">&-", ("ls",), 1, b"siltstone: [Errno 9] Bad file descriptor\n"),
        (">&-", ("cat", "a"), 1, b"siltstone: [Errno 9] Bad file descriptor\n"),
        (">&-", ("create", "b"), 0, b""),
        ("<&-", ("append", "a"), 1, b"siltstone: [Errno 9] Bad file descriptor\n"),
        ("2>&-", ("cat", "no"), 3, b""),
        ("2>/dev/full", ("cat", "no"), 3, b""),
        ("2>/dev/full", ("no",), 2, b""),
        ("<&- >&- 2>&-", ("create", "b"), 0, b""),
    ],
)
def test_a_closed_standard_file_is_missed_only_by_what_needs_it(
    folder: Path, closed: str, arguments: tuple[str, ...], code: int, said: bytes
) -> None:
    with siltstone.open(folder) as store:
        store.create("a").append(b"bytes")
    line = ("sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND, "--store", str(folder), *arguments)
    ran = subprocess.run(line, capture_output=True, check=False, timeout=120)
    assert (ran.returncode, ran.stderr) == (code, said)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_an_append_cleanly(
    process: Process, folder: Path, number: signal.Signals, code: int
) -> None:
    with process("append", "a", "--create", stdin=subprocess.PIPE) as running:
        assert running.stdin is not None
        assert running.stderr is not None
        running.stdin.write(b"first piece")
        running.stdin.flush()
        _wait_for_bytes(folder, 11)
        running.send_signal(number)
        assert running.wait(120) == code
        durable = b"; the first 11 bytes are durable, from offset 0 up to 11\n"
        assert running.stderr.read() == SAID[number].rstrip() + durable
    with siltstone.open(folder) as store:
        assert store.segment("a").read(0, 100) == b"first piece"
        assert [one.dropped_tail for one in store.stats()] == [0, 0]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_follower_cleanly(
    process: Process, folder: Path, number: signal.Signals, code: int
) -> None:
    with siltstone.open(folder) as store:
        segment = store.create("a")
        segment.append(b"one\n")
        with process("tail", "-f", "a") as running:
            assert running.stdout is not None
            assert running.stderr is not None
            assert running.stdout.readline() == b"one\n"
            segment.append(b"two\n")
            assert running.stdout.readline() == b"two\n"
            running.send_signal(number)
            error = running.stderr.read()
            assert (running.wait(120), error) == (code, SAID[number])


ON_THE_WAY = """
import signal, sys
from siltstone.cli.main import main
from siltstone.store.blocking import background_loop

place, number = sys.argv[1], signal.Signals[sys.argv[2]]
loop, source = background_loop.BackgroundLoop, background_loop._Source
run, take = loop.run, source.take

def run_interrupted(self, work):
    if work.cr_code.co_name == "take":
        signal.raise_signal(number)
    return run(self, work)

def take_interrupted(self, count):
    return [take(self, count), signal.raise_signal(number)][0]

if place == "as it is handed over":
    loop.run = run_interrupted
else:
    source.take = take_interrupted
sys.argv = ["siltstone", *sys.argv[3:]]
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("place", ["as it is made", "as it is handed over"])
def test_a_signal_on_the_way_to_the_loop_ends_without_a_warning(
    folder: Path, place: str, number: signal.Signals, code: int
) -> None:
    """The coroutine is dropped without being awaited, of which Python warns."""
    line = (sys.executable, "-c", ON_THE_WAY, place, number.name, "--store", str(folder), "ls")
    ran = subprocess.run(line, capture_output=True, check=False, timeout=120)
    assert (ran.returncode, ran.stdout, ran.stderr) == (code, b"", SAID[number])


@pytest.mark.slow
def test_a_follower_ends_when_the_segment_is_sealed(process: Process, folder: Path) -> None:
    with siltstone.open(folder) as store:
        segment = store.create("a")
        segment.append(b"one\n")
        with process("tail", "-f", "a") as running:
            assert running.stdout is not None
            assert running.stdout.readline() == b"one\n"
            segment.seal()
            assert running.wait(120) == 0


AS_NOBODY = """
import os, sys
from siltstone.cli.main import run
folder, locked = sys.argv[1:]
run(["--store", folder, "create", "warm", "--json"])  # everything is imported while it still can be
if os.geteuid() == 0:
    os.seteuid(65534)
os.chmod(os.path.join(folder, locked), 0)
sys.exit(run(["--store", folder, "create", "a"]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("locked", ["chunks", "tier1/c0", "index", "siltstone.yaml", "."])
def test_what_may_not_be_touched_is_told(locked: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = siltstone.init(Path(place) / "store").parent
        if not (folder / locked).exists():
            locked = str(next((folder / "tier1").iterdir()).relative_to(folder))
        if os.geteuid() == 0:
            for path in (Path(place), folder, *folder.rglob("*")):
                os.chown(path, 65534, 65534)
        line = [sys.executable, "-c", AS_NOBODY, str(folder), locked]
        ran = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
        (folder / locked).chmod(0o700)
    assert ran.returncode in (1, 2), ran.stderr
    assert ran.stderr.startswith("siltstone: "), ran.stderr
    assert ran.stderr.count("\n") == 1, ran.stderr


def _wait_for_bytes(folder: Path, length: int) -> None:
    """Return when a reader sees that many bytes: the bytes from the pipe are then durable."""
    with siltstone.open(folder, read_only=True) as reader:
        for _ in range(2_400):
            found = [info.length for info in reader.list("a")]
            if found == [length]:
                return
            signal.sigtimedwait([], 0.05)
    raise AssertionError("the bytes never arrived")


AT_IMPORT = """
import atexit, os, signal, sys
from siltstone.cli.process import main

class Finder:
    def find_spec(name, path=None, target=None):
        if name == wanted:
            signal.raise_signal(number)

number, wanted, ignored = signal.Signals[sys.argv[1]], sys.argv[2], sys.argv[3]
if ignored:
    signal.signal(number, signal.SIG_IGN)
if wanted == "end":
    atexit.register(signal.raise_signal, number)
sys.meta_path.insert(0, Finder)
sys.argv = ["siltstone", *sys.argv[4:]]
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("wanted", ["click", "siltstone.store.store"])
def test_a_signal_while_the_command_is_imported_is_told_as_any_other(
    folder: Path, wanted: str, number: signal.Signals, code: int
) -> None:
    ran = _signalled(number, wanted, "", "--store", str(folder), "ls")
    assert (ran.returncode, ran.stdout, ran.stderr) == (code, b"", SAID[number])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_after_the_end_changes_nothing(number: signal.Signals) -> None:
    ran = _signalled(number, "end", "", "completion", "bash", "--json")
    assert (ran.returncode, ran.stdout.count(b"\n"), ran.stderr) == (0, 1, b"")


def test_an_interrupt_that_the_caller_ignores_is_ignored() -> None:
    ran = _signalled(signal.SIGINT, "click", "ignored", "completion", "bash", "--json")
    assert (ran.returncode, ran.stdout.count(b"\n"), ran.stderr) == (0, 1, b"")


def _signalled(number: signal.Signals, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    line = [sys.executable, "-c", AT_IMPORT, number.name, *arguments]
    return subprocess.run(line, capture_output=True, check=False, timeout=120)
