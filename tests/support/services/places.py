"""A place for a store on each service."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol

import pytest

from siltstone.core.chunk_storage import ChunkStorage
from tests.support.services import azure_services, hdfs_services, s3_services
from tests.support.services.azure_services import AzureService
from tests.support.services.hdfs_services import HdfsService
from tests.support.services.s3_services import S3Service


class Service(Protocol):
    """Long-term storage, also from outside."""

    def open(self) -> ChunkStorage: ...
    def outside_names(self) -> list[str]: ...
    def outside_read(self, name: str) -> bytes | None: ...
    def outside_write(self, name: str, content: bytes) -> None: ...


@dataclass(frozen=True)
class Place:
    """Where a store shall be.

    Attributes:
        binding: its name.
        options: of the settings file.
        service: the same place.
    """

    binding: str
    options: dict[str, Any]
    service: Service

    def remove(self, *names: str) -> None:
        with closing(self.service.open()) as storage:
            for name in names:
                storage.delete(name)

    def names(self, kind: str) -> list[str]:
        return sorted(name for name in self.service.outside_names() if kind in name)


def of_hdfs(request: pytest.FixtureRequest, **more: Any) -> Place:
    service = HdfsService(server=request.getfixturevalue("hdfs"), more=more)
    options = hdfs_services.options_of(service.server, service.path, **more)
    return Place("hdfs", options, service)


def of_s3(request: pytest.FixtureRequest) -> Place:
    service = S3Service(server=request.getfixturevalue("versitygw"))
    return Place("s3", s3_services.options_of(service.server, service.bucket), service)


def of_azure(request: pytest.FixtureRequest, **more: Any) -> Place:
    service = AzureService(server=request.getfixturevalue("azurite"), more=more)
    options = azure_services.options_of(service.server, service.container, **more)
    return Place("azure", options, service)
