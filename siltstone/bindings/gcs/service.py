"""One bucket and one folder in it, as all parts of the binding share them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import TypeVar, cast
from urllib.parse import quote, urlencode

from requests import Response

from siltstone.bindings.gcs.body import Body, Deadline
from siltstone.bindings.gcs.client import GOOGLE, make_client
from siltstone.bindings.gcs.session import Session
from siltstone.bindings.gcs.settings import GcsSettings
from siltstone.core.chunk_arguments import CHUNK_NAME_BYTES_MAX, check_chunk_name
from siltstone.core.errors import ChunkNameError, ClosedError

T = TypeVar("T")


class Service:
    """A client, the names of keys, and a bounded set of threads for joins.

    Attributes:
        settings: as they were given.
        client: of the SDK; used by threads at a time.
        session: its transport.
        bucket: of the SDK.
    """

    def __init__(self, settings: GcsSettings) -> None:
        self.settings = settings
        self.client = make_client(settings)
        self.session = cast("Session", self.client._http)
        self.bucket = self.client.bucket(settings.bucket)
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

    def deadline(self) -> Deadline:
        """The deadline of a call that begins now."""
        return Deadline(self.settings.deadline_s)

    def send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | int],
        deadline: Deadline,
        *,
        body: Body | bytes = b"",
        headers: Mapping[str, str] | None = None,
        stream: bool = False,
    ) -> Response:
        """Send a request of which the SDK would copy the body, or not tell the answer."""
        endpoint = self.settings.endpoint or GOOGLE
        # A body of no bytes has a length too, else the service asks for it.
        length = {} if method == "GET" else {"Content-Length": str(len(body))}
        with self.session.until(deadline):
            return self.session.request(
                method,
                f"{endpoint}{path}?{urlencode(query)}",
                data=body or None,
                headers={**(headers or {}), **length},
                stream=stream,
            )

    def path(self, key: str | None = None) -> str:
        """The path of all objects, or of one, behind the part that tells what is done to it."""
        path = f"/storage/v1/b/{quote(self.settings.bucket, safe='')}/o"
        return path if key is None else f"{path}/{quote(key, safe='~')}"

    def side_by_side(self, calls: Sequence[Callable[[], T]]) -> list[T]:
        """Run calls on the threads of joins; return their results in order.

        After a failure none is begun any more, those in progress are waited for, and it is raised.
        """
        if len(calls) == 1:
            return [calls[0]()]
        pool = self._pool()
        futures: list[Future[T]] = [pool.submit(call) for call in calls]
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
                    self.settings.join_threads, thread_name_prefix=f"gcs-{id(self):x}"
                )
            return self._threads
