"""Opening, closing, forking and importing."""

from __future__ import annotations

import ast
import asyncio
import copy
import os
import pickle
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from unittest.mock import create_autospec

import pytest

import siltstone
from siltstone.container.container import Container
from siltstone.container.reader.read_container import ReadContainer
from siltstone.store.blocking.background_loop import BackgroundLoop
from siltstone.store.handles.stand_ins import read_only_container

ROOT = Path(__file__).resolve().parents[4]


def test_what_is_public_is_there() -> None:
    for public in siltstone.__all__:
        assert getattr(siltstone, public) is not None
    assert set(siltstone.__all__) <= set(dir(siltstone))
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        _ = siltstone.nope


def test_every_name_for_type_checkers_is_public_and_the_other_way_round() -> None:
    tree = ast.parse((ROOT / "siltstone" / "__init__.py").read_text(encoding="utf-8"))
    (checking,) = (node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in checking.body if isinstance(node, ast.ImportFrom)]
    checked = {alias.asname for node in imports for alias in node.names}
    assert checked | {"__version__"} == set(siltstone.__all__)


def test_importing_is_light() -> None:
    code = "import sys, siltstone; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = set(run.stdout.split())
    heavy = {"rocksdict", "pydantic", "click", "rich", "yaml", "crc32c", "asyncio", "uvloop"}
    assert loaded & heavy == set()


def test_the_verbs_that_write_are_those_that_readers_lack() -> None:
    def public(kind: type) -> set[str]:
        return {name for name in (*dir(kind), *kind.__annotations__) if not name.startswith("_")}

    shown = read_only_container(create_autospec(ReadContainer, instance=True))
    writing = public(Container) - public(ReadContainer)
    assert {"append", "commit", "create", "update", "frame_data_max"} <= writing
    for verb in writing:
        with pytest.raises(siltstone.ReadOnlyError, match="read-only"):
            getattr(shown, verb)
    assert callable(shown.read)
    with pytest.raises(AttributeError):
        shown.unheard_of  # type: ignore[attr-defined] # noqa: B018


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    siltstone.init(tmp_path)
    store = siltstone.open(tmp_path)
    segment = store.create("a")
    following = segment.follow()
    store.close()
    store.close()
    for verb in (segment.info, store.stats, lambda: next(following), lambda: store.create("b")):
        with pytest.raises(siltstone.ClosedError):
            verb()
    assert store.closed
    with siltstone.open(tmp_path) as again:
        assert again.segment("a").info().length == 0


def test_a_call_in_progress_ends_with_its_store(tmp_path: Path) -> None:
    siltstone.init(tmp_path)
    store = siltstone.open(tmp_path)
    errors: list[BaseException] = []
    started = threading.Event()
    segment = store.create("a")
    segment.append(b"x")

    def follow() -> None:
        try:
            for _ in segment.follow():
                started.set()
        except siltstone.SiltstoneError as error:
            errors.append(error)

    thread = threading.Thread(target=follow)
    thread.start()
    assert started.wait(120)
    store.close()
    thread.join(120)
    assert [type(error) for error in errors] == [siltstone.ClosedError]


def test_another_store_under_the_settings_is_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        siltstone.init(tmp_path / name)
    shutil.rmtree(tmp_path / "a" / "chunks")
    (tmp_path / "b" / "chunks").rename(tmp_path / "a" / "chunks")
    with pytest.raises(siltstone.StoreError, match="another store"):
        siltstone.open(tmp_path / "a")


def test_storage_that_is_gone_is_no_store(tmp_path: Path) -> None:
    siltstone.init(tmp_path)
    shutil.rmtree(tmp_path / "chunks")
    with pytest.raises(siltstone.SiltstoneError):
        siltstone.open(tmp_path)
    assert not (tmp_path / "chunks").exists()


def test_a_wrong_plugin_option_names_the_file(tmp_path: Path) -> None:
    settings = siltstone.init(tmp_path)
    settings.write_text(settings.read_text().replace("path: ./chunks", "paht: ./chunks"))
    with pytest.raises(siltstone.SettingsError, match=r"line 13: long_term_storage\.nfs\.paht"):
        siltstone.open(tmp_path)


def test_a_forgotten_store_is_told(tmp_path: Path) -> None:
    siltstone.init(tmp_path)
    store = siltstone.open(tmp_path)
    with pytest.warns(ResourceWarning, match="was not closed"):
        store.__del__()
    store.close()


def test_a_loop_ends_although_its_store_was_not_closed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The end of ``asyncio.run`` cancels all tasks, and waits for each of them."""
    siltstone.init(tmp_path)

    async def forget() -> None:
        store = await siltstone.open_async(tmp_path)
        await (await store.create("a")).append(b"x")

    asyncio.run(forget())
    assert "container closes: the container was stopped, not closed" in caplog.text


def test_what_belongs_to_an_open_store_cannot_be_pickled(tmp_path: Path) -> None:
    siltstone.init(tmp_path)
    with siltstone.open(tmp_path) as store:
        segment, table = store.create("a"), store.create_table("t")
        for one in (store, segment, table, segment.writer("w"), segment.buffered()):
            with pytest.raises(TypeError, match="open it again in the other process"):
                pickle.dumps(one)
        for copied in (copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="open it again in the other process"):
                copied(store)


async def _handles(store: siltstone.AsyncStore) -> list[object]:
    segment, table = await store.create("a"), await store.create_table("t")
    writer, snapshot = await segment.writer("w"), await table.snapshot()
    return [store, segment, table, writer, snapshot, segment.buffered()]


def test_handles_of_asyncio_can_be_neither_pickled_nor_copied(tmp_path: Path) -> None:
    """A copy would not hear that its container is opened again or that its batch is durable."""
    siltstone.init(tmp_path)

    async def refused() -> None:
        async with await siltstone.open_async(tmp_path) as store:
            for one in await _handles(store):
                for copied in (pickle.dumps, copy.copy, copy.deepcopy):
                    with pytest.raises(TypeError, match="open it again in the other process"):
                        copied(one)

    asyncio.run(refused())


def test_a_forked_child_is_told_to_open_again(tmp_path: Path) -> None:
    siltstone.init(tmp_path)
    with siltstone.open(tmp_path) as store:
        segment = store.create("a")
        child = os.fork()
        if child == 0:
            os._exit(_in_child(store, segment))
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert segment.append(b"parent") == 0


@pytest.mark.slow
@pytest.mark.parametrize("is_closed", [False, True], ids=["open", "closed"])
@pytest.mark.parametrize("read_only", [False, True], ids=["owner", "reader"])
def test_no_store_is_opened_after_a_fork(
    tmp_path: Path, *, read_only: bool, is_closed: bool
) -> None:
    siltstone.init(tmp_path)
    with siltstone.open(tmp_path) as store:
        segment = store.create("a")
        if is_closed:
            store.close()
        child = os.fork()
        if child == 0:
            os._exit(_opened_in_child(tmp_path, read_only=read_only))
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        if not is_closed:
            assert segment.append(b"parent") == 0
    with siltstone.open(tmp_path) as store:
        assert store.segment("a").info().length == (0 if is_closed else 6)


def _opened_in_child(folder: Path, *, read_only: bool) -> int:
    """Return 0 if no store is opened and the parent keeps its store."""
    signal.alarm(60)
    try:
        with siltstone.open(folder, read_only=read_only, takeover=not read_only) as store:
            list(store.list())
    except siltstone.StoreError as error:
        return 0 if "spawn the process" in str(error) else 2
    return 1


@pytest.mark.slow
def test_a_process_that_is_forked_before_opens_a_store(tmp_path: Path) -> None:
    siltstone.init(tmp_path)
    told = "import os, siltstone, sys\n" + textwrap.dedent(
        """
        if os.fork() == 0:
            with siltstone.open(sys.argv[1]) as store:
                store.create("a").append(b"child")
            os._exit(0)
        assert os.wait()[1] == 0
        with siltstone.open(sys.argv[1]) as store:
            print(store.segment("a").read(0, 5).decode())
        """
    )
    ran = subprocess.run(
        [sys.executable, "-c", told, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert ran.stdout == "child\n"


def _in_child(store: siltstone.Store, segment: siltstone.Segment) -> int:
    """Return 0 if everything is refused at once and closing does nothing."""
    signal.alarm(20)
    try:
        segment.append(b"child")
    except siltstone.ClosedError as error:
        store.close()
        return 0 if "fork" in str(error) and store.closed else 2
    return 1


def test_a_loop_cannot_wait_for_itself() -> None:
    loop = BackgroundLoop()

    async def inner() -> None:
        return None

    async def outer() -> None:
        loop.run(inner())

    with pytest.raises(RuntimeError, match="would wait for itself"):
        loop.run(outer())
    loop.close()
    with pytest.raises(siltstone.ClosedError):
        loop.run(inner())


def test_an_iterator_that_is_interrupted_ends_cleanly() -> None:
    loop = BackgroundLoop()
    ended = threading.Event()

    async def items() -> AsyncIterator[int]:
        try:
            yield 1
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)  # its exit takes longer than that of the caller
            ended.set()

    class Alarm(BaseException):
        pass

    def ring(number: int, frame: object) -> None:
        raise Alarm

    before = signal.signal(signal.SIGUSR1, ring)
    try:
        with pytest.raises(Alarm):
            list(loop.iterate(items, batch=1))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert ended.is_set()
    loop.close()


def test_a_process_that_died_while_it_made_a_pin_holds_no_garbage(tmp_path: Path) -> None:
    """The name of a file exists before its bytes."""
    siltstone.init(tmp_path)
    pins = tmp_path / "chunks" / "system" / "pins"
    with siltstone.open(tmp_path) as store:
        pins.mkdir(parents=True, exist_ok=True)
        (pins / "0-0123456789abcdef").touch()
        (garbage,) = store.garbage()
        assert garbage.pins == ()
