"""The binding ``s3`` keeps the contract on a real server, and in soaks on a fake, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest
from moto import mock_aws

from services.s3_server import SECRET, S3Server
from siltstone.bindings.s3 import chunk_storage
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import ChunkNameError
from siltstone.testing.chunk_checks.abilities import ConcatChecks
from siltstone.testing.chunk_checks.deletes import DeleteChecks
from siltstone.testing.chunk_checks.lists import ListChecks
from siltstone.testing.chunk_checks.names import NameChecks
from siltstone.testing.chunk_checks.reads import ReadChecks, StatChecks
from siltstone.testing.chunk_checks.subject import at_once, names
from siltstone.testing.chunk_checks.writes import CreateChecks
from siltstone.testing.chunk_storage_contract import ChunkService, ChunkStorageContract
from siltstone.testing.known_deviations import VERSITYGW
from tests.support.services.s3_services import MISSING, MotoService, S3Service


@pytest.mark.soak
class TestMoto(
    CreateChecks, DeleteChecks, ReadChecks, StatChecks, ListChecks, NameChecks, ConcatChecks
):
    """What one caller sees: moto is not made for several threads at a time."""

    missing = MISSING
    secrets = (SECRET,)

    @pytest.fixture
    def service(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChunkService]:
        monkeypatch.setattr(chunk_storage, "CONCAT_SOURCES_MAX", 40)
        with mock_aws():
            yield MotoService()


class TestVersitygw(ChunkStorageContract):
    missing = MISSING
    deviations = VERSITYGW
    secrets = (SECRET,)
    listed_count = 1_025

    @pytest.fixture
    def service(self, versitygw: S3Server) -> ChunkService:
        return S3Service(server=versitygw)

    def test_a_create_that_lost_its_folder_can_be_repeated(self, storage: ChunkStorage) -> None:
        """What follows from its known deviation: refused for its name, and only for now."""

        def come_and_go(index: int) -> None:
            for number in range(10):
                name = f"d/e/{index}-{number}"
                again(partial(storage.create, name, [b"x"]))
                storage.delete(name)

        assert at_once([partial(come_and_go, index) for index in range(8)]) == [None] * 8
        assert names(storage) == []


class TestVersitygwInParts(CreateChecks, DeleteChecks, ConcatChecks):
    """Below a prefix, and in parts for all that is longer than three bytes."""

    missing = MISSING

    @pytest.fixture
    def service(self, versitygw: S3Server) -> ChunkService:
        return S3Service(server=versitygw, more={"prefix": "stores/one/", "put_bytes_max": 3})


def again(call: Callable[[], None]) -> None:
    for _ in range(20):
        try:
            return call()
        except ChunkNameError as error:
            if "ExistingObjectIsDirectory" not in str(error):
                raise
    raise AssertionError("refused twenty times")
