"""A whole store on a real server that ends in the middle of its flushes, and comes back.

What may fail: every call to the service, at any moment, while the server is down or dies. What must
hold: appends go on, for they need the log only; nothing that was acknowledged is lost, neither with
the log nor, behind the last flush, without it; and what lies in the container is whole.

The server is asked to end: this emulator saves on a timer, so a kill would lose what it has
acknowledged.
"""

from __future__ import annotations

import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import siltstone
from services.azurite import Azurite
from siltstone.core.errors import SiltstoneError
from siltstone.testing.fault_proxy import FaultProxy
from tests.conftest import NewAzurite
from tests.contract.azure_services import new_container, options_of
from tests.contract.raw_azure import RawAzure
from tests.soak import share_of

SEGMENTS = ("a", "b", "c")
PATIENCE_S = 60.0
ROUND_BYTES = 300_000
SETTINGS = """
segments:
  chunk_size: 100KiB
deadlines:
  storage: 10s
"""


class Ledger:
    """Every byte that was acknowledged."""

    def __init__(self, store: siltstone.Store) -> None:
        self.store = store
        self.content = {name: bytearray() for name in SEGMENTS}
        for name in SEGMENTS:
            store.create(name)

    def append(self, number: int) -> None:
        for name in SEGMENTS:
            data = f"{name}{number}.".encode() * (ROUND_BYTES // 4)
            assert self.store.segment(name).append(data) == len(self.content[name])
            self.content[name] += data

    def check(self, store: siltstone.Store) -> None:
        for name, content in self.content.items():
            assert store.segment(name).info().length == len(content)
            assert store.segment(name).read(0, len(content)) == content
        assert [finding for finding in store.check() if finding.severity == "damage"] == []

    def check_container(self, store: siltstone.Store, raw: RawAzure) -> None:
        """Every run of bytes lies where the store says, seen by another client."""
        for name, content in self.content.items():
            end = 0
            for run in store.segment(name).chunks():
                assert run.start == end
                end += run.length
                chunk = raw.read(run.chunk)
                assert chunk is not None
                lying = chunk[run.chunk_offset : run.chunk_offset + run.length]
                assert lying == content[run.start : end]
            assert end == len(content)


def flush_at_last(store: siltstone.Store) -> None:
    """Storage that did not answer is asked again only now and then, so this takes a moment."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return store.flush()
        except SiltstoneError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.usefixtures("azure_plugin")
def test_a_server_that_ends_in_the_middle_of_flushes(
    new_azurite: NewAzurite, tmp_path: Path
) -> None:
    play(new_azurite(), tmp_path / "store", "append", 1)


@pytest.mark.soak
@pytest.mark.usefixtures("azure_plugin")
@pytest.mark.parametrize("blobs", ["append", "block"])
def test_a_server_that_ends_again_and_again(
    new_azurite: NewAzurite, tmp_path: Path, blobs: str
) -> None:
    play(new_azurite(), tmp_path / "store", blobs, share_of(20))


def play(server: Azurite, place: Path, blobs: str, deaths: int) -> None:
    container, raw = new_container(server)
    with FaultProxy(("127.0.0.1", server.port)) as proxy, ThreadPoolExecutor(1) as thread:
        near = f"{proxy.endpoint}/{server.key_id}"
        options = options_of(server, container, endpoint=near, blobs=blobs, read_timeout_s=5)
        settings = siltstone.init(place, binding="azure", options=options)
        with settings.open("a", encoding="utf-8") as file:
            file.write(SETTINGS)
        with siltstone.open(place) as store:
            ledger = Ledger(store)
            for number in range(deaths):
                ledger.append(number)
                proxy.forget()
                flushing = thread.submit(store.flush)
                while proxy.count("PUT") <= 3 * (number % 4) + 2 and not flushing.done():
                    time.sleep(0)
                server.stop()
                ledger.append(number + deaths)
                server.start()
                error = flushing.exception()
                assert error is None or isinstance(error, SiltstoneError)
            flush_at_last(store)
            ledger.check(store)
            ledger.check_container(store, raw)
        shutil.rmtree(place / "index")
        with siltstone.open(place) as store:
            ledger.check(store)
        shutil.rmtree(place / "tier1")
        siltstone.recover(place, accept_loss=True)
        with siltstone.open(place) as store:
            ledger.check(store)
            ledger.check_container(store, raw)
