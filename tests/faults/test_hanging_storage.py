"""Long-term storage that does not answer holds up neither a close nor an opening nor a verb.

What is injected: file calls below the folder of chunks that do not return, all of them or writes
alone, until the test lets them. What must hold: each call ends, with a typed error that names the
storage; what was acknowledged is there for the next owner; and a write that ends after its owner
harms nothing.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import siltstone
from siltstone.cli.main import run
from siltstone.core.errors import ChunkUnavailableError
from tests.support.faults.hanging_folder import HangingFolder, made_store

WAIT_S = 300


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for threads that will not end: no test needs to see that."""
    for module in ("environment", "pool_threads", "storage.async_storage", "storage.deadline"):
        monkeypatch.setattr(f"siltstone.core.{module}.END_S", 0.1)


def test_a_close_ends_and_says_what_is_not_flushed(tmp_path: Path) -> None:
    place = made_store(tmp_path / "store")
    with HangingFolder().only_writes() as folder:
        store = siltstone.open(place)
        segment = store.segment("a")
        segment.append(b"two")
        folder.hangs.set()
        with pytest.raises(ChunkUnavailableError, match="no answer before the deadline"):
            segment.flush()
        assert segment.append(b"three") == 6
        with pytest.raises(ChunkUnavailableError, match="safe in tier 1") as caught:
            store.close()
        assert store.closed
        for fact in ("unflushed_bytes=8", "segments=a", f"storage=file://{place}/chunks/"):
            assert fact in str(caught.value)
        folder.hangs.clear()

        # A newer owner continues elsewhere, and only then does the storage take the older write.
        with siltstone.open(place) as newer:
            newer.flush()
            newer.segment("a").append(b"four")
            folder.answer()
            assert newer.segment("a").read(0, 100) == b"onetwothreefour"
            newer.flush()
            orphans = {found.name for found in newer.sweep() if found.name.startswith("data/")}
    assert folder.count
    with siltstone.open(place) as again:
        assert again.segment("a").read(0, 100) == b"onetwothreefour"
        assert [one for one in again.check() if one.severity == "damage"] == []
    # No row names what the older owner wrote too late, and it is removed as garbage.
    assert orphans


def test_an_error_of_the_block_is_not_hidden_by_that_of_its_close(tmp_path: Path) -> None:
    place = made_store(tmp_path / "store")
    with HangingFolder().only_writes() as folder:

        def failing() -> None:
            with siltstone.open(place) as store:
                store.segment("a").append(b"two")
                folder.hangs.set()
                store.flush()

        with pytest.raises(ChunkUnavailableError, match="no answer before") as caught:
            failing()
        assert any("safe in tier 1" in note for note in caught.value.__notes__)


def test_an_asyncio_program_continues_while_its_store_is_closed(tmp_path: Path) -> None:
    place = made_store(tmp_path / "store")

    async def program(folder: HangingFolder) -> int:
        store = await siltstone.open_async(place)
        await store.segment("a").append(b"two")
        folder.hangs.set()
        with pytest.raises(ChunkUnavailableError):
            await store.flush()
        closing, turns = asyncio.ensure_future(store.close()), 0
        while not closing.done():
            await asyncio.sleep(0.01)
            turns += 1
        with pytest.raises(ChunkUnavailableError, match="safe in tier 1"):
            await closing
        return turns

    with HangingFolder().only_writes() as folder:
        # Two seconds of its close would be 200 turns of a machine that is alone.
        assert asyncio.run(program(folder)) > 5


PROGRAM = """
import sys
import siltstone
from tests.support.faults.hanging_folder import HangingFolder

place, how = sys.argv[1:]
folder = HangingFolder()
hanging = folder.only_writes()
hanging.__enter__()
folder.answer = lambda: None  # not even at the end
if how == "verb":
    folder.hangs.set()
    folder.on_hang = lambda: print("hangs", flush=True)
    from siltstone.cli.main import main
    sys.argv = ["siltstone", "--store", place, "flush"]
    main()
store = siltstone.open(place)
store.segment("a").append(b"two")
folder.hangs.set()
try:
    store.flush()
except siltstone.SiltstoneError as error:
    print(type(error).__name__, flush=True)
"""


def test_a_program_ends_that_does_not_close(tmp_path: Path) -> None:
    place = made_store(tmp_path / "store")
    line = [sys.executable, "-c", PROGRAM, str(place), "end"]
    ran = subprocess.run(line, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert (ran.returncode, ran.stdout) == (0, "ChunkUnavailableError\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_verb(tmp_path: Path, number: signal.Signals, code: int) -> None:
    place = made_store(tmp_path / "store")
    with siltstone.open(place) as store:
        store.segment("a").append(b"two")
    line = [sys.executable, "-c", PROGRAM, str(place), "verb"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline() == b"hangs\n"
        running.send_signal(number)
        assert running.wait(WAIT_S) == code
        assert b"Traceback" not in running.stderr.read()


@pytest.mark.parametrize("read_only", [False, True])
def test_an_opening_ends_and_names_the_storage(tmp_path: Path, *, read_only: bool) -> None:
    place = made_store(tmp_path / "store")
    with HangingFolder().everything() as folder:
        folder.hangs.set()
        with pytest.raises(ChunkUnavailableError, match=f"storage=file://{place}/chunks/"):
            siltstone.open(place, read_only=read_only)
    with siltstone.open(place) as store:
        assert store.segment("a").read(0, 10) == b"one"


VERBS: tuple[tuple[int, tuple[str, ...]], ...] = (
    (8, ("health",)),
    (8, ("containers",)),
    (1, ("doctor",)),
    (1, ("stat", "a")),
    (1, ("cat", "a")),
    (1, ("ls",)),
    (1, ("append", "a", "{file}")),
    (1, ("flush",)),
    (1, ("check",)),
    (1, ("chunks", "a")),
    (1, ("journal", "show")),
    (1, ("log", "show")),
    (1, ("recover",)),
    (1, ("salvage",)),
    (1, ("gc", "status")),
    (1, ("export", "a", "{out}")),
    (1, ("import", "b", "{file}")),
    (1, ("backup", "create", "{out}")),
    (1, ("migrate", "verify", "{out}")),
)


@pytest.mark.parametrize(("code", "verb"), VERBS, ids=lambda value: str(value))
def test_a_verb_ends_and_names_the_storage(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    code: int,
    verb: tuple[str, ...],
) -> None:
    place = made_store(tmp_path / "store", deadline="200ms")
    (tmp_path / "file").write_bytes(b"bytes")
    words = [word.format(file=tmp_path / "file", out=tmp_path / "out") for word in verb]
    with HangingFolder().everything() as folder:
        folder.hangs.set()
        found = run(["--store", str(place), *words])
        out, err = capfd.readouterr()
        assert (found, "Traceback" in err) == (code, False), err
        assert f"storage=file://{place}/chunks/" in out + err
