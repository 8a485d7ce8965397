"""Opening and closing again and again leaves nothing: no descriptors, threads or sockets."""

from __future__ import annotations

import os

import pytest

from services.s3_server import S3Server
from siltstone.bindings.s3.chunk_storage import S3ChunkStorage
from siltstone.bindings.s3.settings import S3Settings
from siltstone.core.constants import MIB
from tests.conftest import NewVersitygw
from tests.support.faults.held_things import check_cycles, held, held_uncollected
from tests.support.services.s3_services import new_bucket, settings_of
from tests.support.soak import share_of


@pytest.fixture
def settings(versitygw: S3Server) -> S3Settings:
    bucket, _ = new_bucket(versitygw)
    return settings_of(versitygw, bucket, put_bytes_max=5 * MIB, part_bytes=5 * MIB)


def cycle(settings: S3Settings, number: int) -> S3ChunkStorage:
    storage = S3ChunkStorage(settings)
    name = f"{number}"
    # Every hundredth uses the threads of uploads.
    storage.create(name, [bytes(5 * MIB + 1 if number % 100 == 0 else 1)])
    assert storage.stat(name).length
    storage.delete(name)
    storage.close()
    return storage


def check(settings: S3Settings, count: int) -> None:
    check_cycles(lambda number: cycle(settings, number), count)


def test_closing_frees_sockets_at_once(new_versitygw: NewVersitygw) -> None:
    """Not only when no reference to the storage is left; this needs connections that stay open."""
    server = new_versitygw(keeps_alive=True)
    settings = settings_of(server, new_bucket(server)[0], put_bytes_max=5 * MIB)
    cycle(settings, 0)
    before = held()
    closed = [cycle(settings, number) for number in range(5)]
    assert not held_uncollected() - before
    assert len(closed) == 5


@pytest.mark.slow
def test_a_hundred_times(settings: S3Settings) -> None:
    check(settings, 100)


@pytest.mark.soak
def test_ten_thousand_times(settings: S3Settings) -> None:
    check(settings, share_of(10_000))


def test_a_storage_that_was_never_closed_frees_its_sockets(settings: S3Settings) -> None:
    cycle(settings, 0)
    before = held()
    for _ in range(5):
        S3ChunkStorage(settings).create(os.urandom(6).hex(), [b"x"])
    assert not held() - before
