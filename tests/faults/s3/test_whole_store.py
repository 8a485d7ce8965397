"""A whole store on a real server that is killed in the middle of its flushes, and comes back.

What may fail: every call to the service, at any moment, while the server is down or dies. What must
hold is told in ``tests/support/faults/whole_life.py``.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from services.s3_server import S3Server
from siltstone.core.errors import SiltstoneError
from siltstone.testing.faults.fault_proxy import FaultProxy
from tests.conftest import NewVersitygw
from tests.support.faults.whole_life import new_store, whole_life
from tests.support.services.s3_services import new_bucket, options_of
from tests.support.soak import share_of

DEATHS = 6
FLUSH_PUTS = 10
"""A flush makes about as many; each death comes after another one of them."""


@pytest.mark.slow
@pytest.mark.usefixtures("s3_plugin")
def test_a_server_that_is_killed_in_the_middle_of_flushes(
    new_versitygw: NewVersitygw, tmp_path: Path
) -> None:
    play(new_versitygw(), tmp_path / "store", DEATHS)


@pytest.mark.soak
@pytest.mark.usefixtures("s3_plugin")
def test_a_server_that_is_killed_again_and_again(
    new_versitygw: NewVersitygw, tmp_path: Path
) -> None:
    play(new_versitygw(), tmp_path / "store", share_of(100))


def play(server: S3Server, place: Path, deaths: int) -> None:
    bucket, raw = new_bucket(server)
    with FaultProxy(("127.0.0.1", server.port)) as proxy, ThreadPoolExecutor(1) as thread:
        new_store(
            place, "s3", options_of(server, bucket, endpoint=proxy.endpoint, read_timeout_s=5)
        )
        with whole_life(place, raw.read) as (store, ledger):
            for number in range(deaths):
                ledger.append(store, number)
                proxy.forget()
                flushing = thread.submit(store.flush)
                while proxy.count("PUT") <= number % FLUSH_PUTS and not flushing.done():
                    time.sleep(0)
                server.kill()
                ledger.append(store, number + deaths)
                server.start()
                error = flushing.exception()
                assert error is None or isinstance(error, SiltstoneError)
