"""No secret is shown: not in files, logs, errors, texts of objects, metrics or printed output.

The token is made for each run and occurs nowhere else, so it is enough to look for it. Logs are
read with everything that the SDK and the libraries below it tell about themselves.
"""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from siltstone.bindings.gcs.chunk_storage import GcsChunkStorage
from siltstone.bindings.gcs.plugin import siltstone_chunk_storage
from siltstone.core.errors import SettingsError, SiltstoneError
from tests.support.faults.canary import VARIABLE, Show, files_with, told
from tests.support.stubs.gcs_stub import (
    Fault,
    Reply,
    Stub,
    broken,
    half_body,
    lost_reply,
    refusal,
)
from tests.support.stubs.gcs_stub_server import serving

pytestmark = pytest.mark.services


@pytest.fixture
def token() -> str:
    return f"canary-{os.urandom(12).hex()}"


@pytest.fixture
def stub() -> Iterator[Stub]:
    with serving() as server:
        yield server.use(Stub())


def options(stub: Stub, **more: Any) -> dict[str, Any]:
    return {"bucket": stub.bucket, "endpoint": stub.endpoint, "insecure": True, **more}


@pytest.mark.usefixtures("gcs_plugin")
def test_of_a_whole_store(stub: Stub, token: str, show: Show) -> None:
    shown = show.whole_store(token, "gcs", options(stub, token=VARIABLE))
    assert {request.headers.get("authorization") for request in stub.asked} == {f"Bearer {token}"}
    assert any("urllib3" in text for text in shown), "the log of the libraries was not seen"
    assert [text for text in shown if token in text] == []
    assert files_with(token, show.folder) == []


def test_of_settings(stub: Stub, token: str) -> None:
    settings = stub.settings(token=token)
    dumped = yaml.safe_dump(settings.model_dump(mode="json"))
    shown = f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()} {dumped}"
    assert "token" in shown
    assert token not in shown


@pytest.mark.parametrize("key", ["token", "credentials_file", "tokne"])
def test_of_settings_that_are_wrong(stub: Stub, token: str, key: str) -> None:
    with pytest.raises(SettingsError, match=key) as caught:
        siltstone_chunk_storage("gcs", options(stub, **{key: [token]}))
    assert token not in told(caught.value)


def test_of_errors(stub: Stub, token: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    storage = GcsChunkStorage(stub.settings(token=token))
    stub.store("a", b"abc")
    faults: tuple[Fault | Reply, ...] = (
        broken,
        lost_reply,
        half_body,
        refusal(500, "backendError", token),
        refusal(400, f"{token}.", token, x_said=token),
        refusal(403, "forbidden", token),
        Reply(200, token.encode()),
    )
    shown: list[str] = [repr(storage)]
    for what, call in (
        ("read", lambda: storage.read_into("a", 0, bytearray(3))),
        ("stat", lambda: storage.stat("a")),
        ("create", lambda: storage.create("b", [b"x"])),
        ("delete", lambda: storage.delete("a")),
    ):
        for fault in faults:
            stub.fail(what, fault)
            try:
                call()
            except SiltstoneError as error:
                # Below it lies that of the SDK, which quotes the service.
                shown.append(f"{error!r} {error} {vars(error)} {error.args}")
                shown.append(pickle.loads(pickle.dumps(str(error))))
    storage.close()
    assert len(shown) > 2 * len(faults)
    with pytest.raises(SiltstoneError) as caught:
        storage.stat("a")
    shown += [told(caught.value), caplog.text]
    assert [text for text in shown if token in text] == []
