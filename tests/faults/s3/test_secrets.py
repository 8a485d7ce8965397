"""No secret is shown: not in files, logs, errors, texts of objects, metrics or printed output.

The secret of the server is made for this run and occurs nowhere else, so it is enough to look for
it. Logs are read with everything that the SDK tells about itself.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable

import pytest
import yaml

from services.s3_server import S3Server
from siltstone.bindings.s3.chunk_storage import S3ChunkStorage
from siltstone.bindings.s3.plugin import siltstone_chunk_storage
from siltstone.bindings.s3.settings import S3Settings, Transport
from siltstone.core.errors import SettingsError, SiltstoneError
from siltstone.testing.faults.fault_proxy import FaultProxy
from siltstone.testing.faults.http_faults import Answer, HalfAnswer, Reset, Rule
from tests.support.faults.canary import VARIABLE, Show, failure, files_with, told
from tests.support.services.s3_services import new_bucket, options_of, settings_of

WRONG = "canary-of-somebody-else"


@pytest.mark.usefixtures("s3_plugin")
def test_of_a_whole_store(versitygw: S3Server, show: Show) -> None:
    options = options_of(versitygw, new_bucket(versitygw)[0], secret_access_key=VARIABLE)
    shown = show.whole_store(versitygw.secret, "s3", options)
    assert any("ListObjectsV2" in text for text in shown), "the SDK's own log was not seen"
    assert [text for text in shown if versitygw.secret in text] == []
    assert files_with(versitygw.secret, show.folder, versitygw.folder) == []


def test_of_settings(versitygw: S3Server) -> None:
    settings = settings_of(
        versitygw, "bucket", session_token=versitygw.secret, role_arn="arn:aws:iam::1:role/reader",
        role_external_id=versitygw.secret,
    )  # fmt: skip
    dumped = yaml.safe_dump(settings.model_dump(mode="json"))
    shown = f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()} {dumped}"
    assert "secret_access_key" in shown
    assert versitygw.secret not in shown


@pytest.mark.parametrize(
    "key", ["secret_access_key", "session_token", "role_external_id", "regoin"]
)
def test_of_settings_that_are_wrong(versitygw: S3Server, key: str) -> None:
    options = options_of(versitygw, "bucket") | {key: [versitygw.secret]}
    with pytest.raises(SettingsError, match=key) as caught:
        siltstone_chunk_storage("s3", options)
    assert versitygw.secret not in told(caught.value)


@pytest.mark.parametrize("transport", Transport)
def test_of_errors(
    versitygw: S3Server, caplog: pytest.LogCaptureFixture, transport: Transport
) -> None:
    caplog.set_level(logging.DEBUG)
    bucket, _ = new_bucket(versitygw)
    shown: list[str] = []
    with FaultProxy(("127.0.0.1", versitygw.port)) as proxy:
        near = options_of(versitygw, bucket, endpoint=proxy.endpoint, transport=str(transport))
        storage = S3ChunkStorage(S3Settings.model_validate(near))
        shown.append(repr(storage))
        storage.create("a", [b"abc"])
        for fault in (
            Reset(after_effect=True),
            HalfAnswer(),
            # What a service says in its answers is unknown.
            Answer(status=500, body=b"<Error><Code>X</Code></Error>", headers={"X-Said": WRONG}),
            Answer(status=400, body=f"<Error><Code>{versitygw.secret}.</Code></Error>".encode()),
            Answer(
                status=403, body=f"<Error><Message>{versitygw.secret}</Message></Error>".encode()
            ),
        ):
            proxy.plan(Rule(fault=fault))
            shown.append(
                _without_the_services_words(lambda: storage.read_into("a", 0, bytearray(3)))
            )
        shown.append(failure(lambda: storage.stat("none")))
        storage.close()
        shown.append(failure(lambda: storage.stat("a")))
        shown.append(
            failure(lambda: siltstone_chunk_storage("s3", near | {"bucket": "no-such-bucket"}))
        )
        wrong = near | {"secret_access_key": WRONG}
        refused = failure(lambda: siltstone_chunk_storage("s3", wrong))
        assert WRONG not in refused
        shown.append(refused)
    shown.append(failure(lambda: siltstone_chunk_storage("s3", near)))
    assert [text for text in shown if versitygw.secret in text] == []


def _without_the_services_words(call: Callable[[], object]) -> str:
    """An error as we tell it; below it lies that of the SDK, which quotes the service."""
    with pytest.raises(SiltstoneError) as caught:
        call()
    error = caught.value
    return f"{error!r} {error} {vars(error)} {error.args} {pickle.loads(pickle.dumps(str(error)))}"
