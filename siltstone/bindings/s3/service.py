"""One bucket and one folder in it, as all parts of the binding share them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Final, TypeVar

from siltstone.bindings.s3.body import Deadline
from siltstone.bindings.s3.client import make_client
from siltstone.bindings.s3.settings import Encryption, S3Settings
from siltstone.core.chunk_arguments import CHUNK_NAME_BYTES_MAX, check_chunk_name
from siltstone.core.errors import ChunkNameError, ClosedError
from siltstone.core.words import MIB

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

T = TypeVar("T")
RATE: Final = MIB
"""Bytes a second that every network should carry; a large call has so much more time."""


class Service:
    """A client, the names of keys, and a bounded set of threads for the parts of uploads.

    Attributes:
        settings: as they were given.
        bucket: its name.
        client: of the SDK; used by threads at a time.
    """

    def __init__(self, settings: S3Settings) -> None:
        self.settings = settings
        self.bucket = settings.bucket
        self.client: S3Client = make_client(settings)
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._is_closed = False
        self._threads: ThreadPoolExecutor | None = None

    def check_open(self) -> None:
        """Raise ``ClosedError`` when this object can not be used, here or at all."""
        if self._is_closed:
            raise ClosedError("the chunk storage was closed")
        if os.getpid() != self._process:
            # Sockets and locks of the parent are of no use here, and of harm to both.
            raise ClosedError(
                "the chunk storage belongs to the process that opened it: open one after a fork",
                opened_by=self._process,
            )

    def key(self, name: str, operation: str) -> str:
        """The key of a chunk, if the name can be one and this object is open."""
        self.check_open()
        length = len(check_chunk_name(name, operation)) + len(self.settings.folder.encode())
        if length > CHUNK_NAME_BYTES_MAX:
            raise ChunkNameError(
                "name is too long behind the prefix", chunk=ascii(name[:80]), operation=operation
            )
        return self.settings.folder + name

    def name(self, key: str) -> str:
        """The name of the chunk that ``key`` belongs to."""
        return key[len(self.settings.folder) :]

    def deadline(self, length: int) -> Deadline:
        """The deadline of a call that begins now and moves ``length`` bytes."""
        return Deadline(self.settings.deadline_s + length / RATE)

    def storing(self) -> dict[str, Any]:
        """Arguments of every request that makes an object: how it is kept."""
        settings, chosen = self.settings, {}
        if settings.encryption is Encryption.S3:
            chosen["ServerSideEncryption"] = "AES256"
        elif settings.encryption is Encryption.KMS:
            chosen["ServerSideEncryption"] = "aws:kms"
        if settings.kms_key_id is not None:
            chosen["SSEKMSKeyId"] = settings.kms_key_id
        if settings.storage_class is not None:
            chosen["StorageClass"] = settings.storage_class
        return chosen

    def side_by_side(self, calls: Sequence[Callable[[], T]]) -> list[T]:
        """Run calls on the threads of uploads; return their results in order.

        After a failure none is begun any more, those in progress are waited for, and it is raised.
        """
        if len(calls) == 1:
            return [calls[0]()]
        pool = self._pool()
        try:
            futures: list[Future[T]] = [pool.submit(call) for call in calls]
        except RuntimeError as error:  # closed since; what was begun ends by itself
            raise ClosedError("the chunk storage was closed") from error
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            for future in futures:
                future.cancel()
            wait(futures)
        failures = [f.exception() for f in futures if not f.cancelled() and f.exception()]
        if failures and failures[0] is not None:
            raise failures[0]
        return [future.result() for future in futures]

    def close(self) -> None:
        """Close the sockets and end the threads; in another process, only forget them."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            threads, self._threads = self._threads, None
        if os.getpid() != self._process:
            return
        if threads is not None:
            threads.shutdown(wait=True)
        self.client.close()

    def _pool(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._is_closed:
                raise ClosedError("the chunk storage was closed")
            if self._threads is None:
                self._threads = ThreadPoolExecutor(
                    self.settings.upload_threads, thread_name_prefix=f"s3-{id(self):x}"
                )
            return self._threads
