"""What a get of an object costs in a bucket of a real server, seen on the wire."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

import siltstone
from services.s3_server import S3Server
from siltstone import objects
from siltstone.testing.faults.fault_proxy import FaultProxy
from siltstone.testing.faults.http_faults import Fault
from siltstone.testing.faults.http_messages import Message
from tests.support.services.s3_services import new_bucket, options_of

COUNT = 100
SIZE = 8 * 1024


class Wire(FaultProxy):
    """A proxy that counts the bytes of the answers, too."""

    def __init__(self, upstream: tuple[str, int]) -> None:
        self.body_bytes = 0
        super().__init__(upstream)

    def _answer(
        self, client: socket.socket, answer: Message, method: str, fault: Fault | None
    ) -> bool:
        self.body_bytes += len(answer.body)
        return super()._answer(client, answer, method, fault)


@pytest.mark.usefixtures("s3_plugin")
def test_a_get_is_one_request_for_little_more_than_the_value(
    versitygw: S3Server, tmp_path: Path
) -> None:
    bucket, _ = new_bucket(versitygw)
    values = [os.urandom(SIZE) for _ in range(COUNT)]
    with Wire(("127.0.0.1", versitygw.port)) as wire:
        options = options_of(versitygw, bucket, endpoint=wire.endpoint)
        file = siltstone.init(tmp_path / "store", binding="s3", options=options)
        with siltstone.open(file) as store:
            space = objects.create(store, "photos")
            for number, value in enumerate(values):
                space.put("b", f"k{number:02d}", value, index={"day": ["monday"]})
            store.flush()
        with siltstone.open(file) as store:
            space = objects.open(store, "photos")
            for number in (0, 99, 31, 32, 64):
                wire.forget()
                wire.body_bytes = 0
                found = space.get("b", f"k{number:02d}")
                assert found is not None
                assert found.value == values[number]
                (request,) = (each for each in wire.requests if "values" in each.target)
                assert request.method == "GET"
                assert wire.count("GET", "values") == 1
                assert SIZE < wire.body_bytes <= SIZE + 1024
