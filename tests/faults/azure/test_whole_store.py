"""A whole store on a real server that ends in the middle of its flushes, and comes back.

What may fail: every call to the service, at any moment, while the server is down or dies. What must
hold is told in ``tests/support/faults/whole_life.py``. The server is asked to end: this emulator
saves on a timer, so a kill would lose what it has acknowledged.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from services.azurite import Azurite
from siltstone.core.errors import SiltstoneError
from siltstone.testing.faults.fault_proxy import FaultProxy
from tests.conftest import NewAzurite
from tests.support.faults.whole_life import new_store, whole_life
from tests.support.services.azure_services import new_container, options_of
from tests.support.soak import share_of


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
        new_store(place, "azure", options)
        with whole_life(place, raw.read) as (store, ledger):
            for number in range(deaths):
                ledger.append(store, number)
                proxy.forget()
                flushing = thread.submit(store.flush)
                while proxy.count("PUT") <= 3 * (number % 4) + 2 and not flushing.done():
                    time.sleep(0)
                server.stop()
                ledger.append(store, number + deaths)
                server.start()
                error = flushing.exception()
                assert error is None or isinstance(error, SiltstoneError)
