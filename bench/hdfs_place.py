"""A NameNode with two DataNodes, whose blocks are in memory, and two clients of one folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hdfs_native import WriteOptions
from hdfs_native._internal import RawClient

from bench.s3_place import temporary_files_in_memory
from services.catalogue import SERVICES
from services.hdfs import Hdfs
from siltstone.bindings.hdfs.chunk_storage import HdfsChunkStorage
from siltstone.bindings.hdfs.settings import HdfsSettings

NAME = "hdfs"
FOLDER = "/bench"

_kept: list[RawClient] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class HdfsPlace:
    """A folder.

    Attributes:
        server: where it is.
        sdk: the client that the binding uses, without changes.
    """

    server: Hdfs
    sdk: Any

    @property
    def options(self) -> dict[str, Any]:
        """Settings of the binding."""
        return {
            "namenode": self.server.url,
            "path": FOLDER,
            "webhdfs": self.server.endpoint,
            "insecure": True,
        }

    @contextmanager
    def storage(self) -> Iterator[HdfsChunkStorage]:
        """The binding."""
        storage = HdfsChunkStorage(HdfsSettings.model_validate(self.options))
        try:
            yield storage
        finally:
            storage.close()

    def put(self, number: int, body: bytes) -> None:
        """Write a file by the client alone, synced like the binding's files."""
        options = WriteOptions(
            overwrite=False, create_parent=True, permission=None, replication=None, block_size=None
        )
        writer = self.sdk.create(f"{FOLDER}/d/{number}", options)
        writer.write(body)
        writer.hsync()
        writer.close()

    def get(self, number: int, length: int) -> bytes:
        """Read a file by the client alone."""
        return bytes(self.sdk.read(f"{FOLDER}/d/{number}").read_range(0, length))

    def empty(self) -> None:
        """Remove all files."""
        self.sdk.delete(FOLDER, True)


@contextmanager
def hdfs_place() -> Iterator[HdfsPlace]:
    """Run a server.

    Raises:
        UnavailableError: its program is not here.
    """
    program = SERVICES[NAME].installed()
    with temporary_files_in_memory():
        server = Hdfs(program)
    with server:
        server.start()
        # Like the binding's client it is never dropped, because that could hang.
        client = RawClient(server.url, {}, None, None, None, None)
        _kept.append(client)
        yield HdfsPlace(server=server, sdk=client)
