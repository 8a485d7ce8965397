"""The service that the binding ``hdfs`` runs on here, with a view from outside."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field
from typing import Any

from services.hdfs import Hdfs
from siltstone.bindings.hdfs.chunk_storage import HdfsChunkStorage
from siltstone.bindings.hdfs.settings import HdfsSettings
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.testing.faults.tcp_relay import TcpRelay
from tests.support.services.raw_hdfs import RawHdfs


class Door(TcpRelay):
    """A way to the NameNode that can be shut, which takes no time; its end and start would."""

    is_shut = False

    def serve(self, client: socket.socket) -> None:
        if self.is_shut:
            self.reset(client)
        else:
            super().serve(client)

    def shut(self) -> None:
        self.is_shut = True
        self.cut()


def new_folder() -> str:
    """A path that was never used."""
    return f"/tests/{os.urandom(6).hex()}"


def options_of(server: Hdfs, path: str, **more: Any) -> dict[str, Any]:
    """Settings of the binding, as they stand in a file."""
    options: dict[str, Any] = {
        "namenode": server.url,
        "path": path,
        "webhdfs": server.endpoint,
        "insecure": True,
    }
    return options | more


def settings_of(server: Hdfs, path: str, **more: Any) -> HdfsSettings:
    """Settings of the binding, checked."""
    return HdfsSettings.model_validate(options_of(server, path, **more))


@dataclass(kw_only=True)
class HdfsService:
    """A folder of a real server; seen from outside by plain HTTP."""

    server: Hdfs
    more: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.path = new_folder()
        self.raw = RawHdfs(self.server.endpoint, self.path)
        self.settings = settings_of(self.server, self.path, **self.more)

    def open(self) -> ChunkStorage:
        return HdfsChunkStorage(self.settings)

    def outside_read(self, name: str) -> bytes | None:
        return self.raw.read(name)

    def outside_names(self) -> list[str]:
        return self.raw.names()

    def outside_write(self, name: str, content: bytes) -> None:
        self.raw.write(name, content)


@dataclass(kw_only=True)
class StoppableHdfsService(HdfsService):
    """The same, reached through a door."""

    door: Door

    def __post_init__(self) -> None:
        self.more["namenode"] = f"hdfs://{self.door.address}"
        super().__post_init__()

    def stop(self) -> None:
        self.door.shut()

    def start(self) -> None:
        self.door.is_shut = False
