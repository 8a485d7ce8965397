"""One bucket and one folder in it, as all parts of the binding share them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast
from urllib.parse import quote, urlencode

from requests import Response

from siltstone.bindings.gcs.client import make_client
from siltstone.bindings.gcs.session import GOOGLE, PooledSession
from siltstone.bindings.gcs.settings import GcsSettings
from siltstone.core.remote.body import Body
from siltstone.core.remote.deadline import Deadline
from siltstone.core.remote.remote_client import RemoteClient


class Service(RemoteClient):
    """A client; its threads are for joins.

    Attributes:
        settings: as they were given.
        client: of the SDK; used by threads at a time.
        session: its transport.
        bucket: of the SDK.
    """

    def __init__(self, settings: GcsSettings) -> None:
        super().__init__(
            "gcs",
            folder=settings.folder,
            deadline_s=settings.deadline_s,
            threads=settings.join_threads,
        )
        self.settings = settings
        self.client = make_client(settings)
        self.session = cast("PooledSession", self.client._http)
        self.bucket = self.client.bucket(settings.bucket)

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
        """The path of all objects, or of one, after the part that tells what is done to it."""
        path = f"/storage/v1/b/{quote(self.settings.bucket, safe='')}/o"
        return path if key is None else f"{path}/{quote(key, safe='~')}"

    def _close_sockets(self) -> None:
        self.client.close()
