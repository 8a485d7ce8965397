"""A bucket of a stub of S3, reached through a proxy that may fail each request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from services.s3_server import S3Server
from siltstone.bindings.s3.chunk_storage import S3ChunkStorage
from siltstone.bindings.s3.settings import S3Settings
from siltstone.core.errors import ChunkError
from siltstone.testing.faults.fault_proxy import FaultProxy
from siltstone.testing.faults.http_faults import Fault, Hang
from tests.faults.s3.cases import READ_TIMEOUT_S, told
from tests.faults.s3.mutations import PART_BYTES, Mutation
from tests.support.services.s3_services import new_bucket, settings_of


class Place:
    """A new bucket with some chunks, and a storage that reaches it through a proxy."""

    def __init__(self, server: S3Server, proxy: FaultProxy, **more: Any) -> None:
        self.proxy = proxy
        self.bucket, self.raw = new_bucket(server)
        self.settings: S3Settings = settings_of(
            server,
            self.bucket,
            endpoint=proxy.endpoint,
            put_bytes_max=PART_BYTES,
            part_bytes=PART_BYTES,
            **more,
        )
        self.storage = S3ChunkStorage(self.settings)
        # Where a request hangs, one deadline has to end it; no other one ends on a slow machine.
        impatient = self.settings.model_copy(update={"read_timeout_s": READ_TIMEOUT_S})
        self.impatient = S3ChunkStorage(impatient)

    def prepare(self, chunks: Mapping[str, bytes]) -> None:
        # The first change of all proves that the bucket is fit, by requests of its own.
        for name, content in {**chunks, "warm": b"x"}.items():
            self.storage.create(name, [content])
        self.storage.delete("warm")
        self.proxy.forget()

    def told(self, mutation: Mutation, fault: Fault | None = None) -> tuple[str, ChunkError | None]:
        """Call the verb, with or without such a fault ahead; return what a caller learns."""
        storage = self.impatient if isinstance(fault, Hang) else self.storage
        return told(partial(mutation.call, storage))

    def content(self) -> dict[str, bytes]:
        keys = self.raw.keys()
        return {key: self.raw.read(key) or b"" for key in keys}


def placed(server: S3Server, **more: Any) -> Iterator[Place]:
    with FaultProxy(("127.0.0.1", server.port)) as proxy:
        made = Place(server, proxy, **more)
        yield made
        made.storage.close()
        made.impatient.close()
