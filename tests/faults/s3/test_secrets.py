"""Secrets show nowhere: not in files, logs, errors, texts of objects, metrics, or what is printed.

The secret of the server is made for this run and occurs nowhere else, so it is enough to look for
it. Logs are read with everything that the SDK tells about itself.
"""

from __future__ import annotations

import logging
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from prometheus_client import generate_latest

import siltstone
from services.s3_server import S3Server
from siltstone.bindings.s3.chunk_storage import S3ChunkStorage
from siltstone.bindings.s3.plugin import siltstone_chunk_storage
from siltstone.cli.main import run
from siltstone.core.errors import SettingsError, SiltstoneError
from siltstone.store.effective_settings import load_settings
from siltstone.testing.fault_proxy import FaultProxy
from siltstone.testing.http_faults import Answer, HalfAnswer, Reset, Rule
from tests.contract.s3_services import new_bucket, options_of, settings_of

COMMANDS = (
    ("doctor",),
    ("doctor", "--json"),
    ("stat",),
    ("health",),
    ("check",),
    ("ls",),
    ("append", "no-such-segment"),
)
WRONG = "canary-of-somebody-else"


def told(error: BaseException) -> str:
    """All that anybody could print of an error."""
    whole = "".join(traceback.format_exception(error))
    return f"{error!r} {error} {whole} {vars(error)} {error.args}"


def failure(call: Callable[[], object]) -> str:
    with pytest.raises(SiltstoneError) as caught:
        call()
    return told(caught.value)


@pytest.mark.usefixtures("s3_plugin")
def test_of_a_whole_store(
    versitygw: S3Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("CANARY", versitygw.secret)
    bucket, _ = new_bucket(versitygw)
    options = options_of(versitygw, bucket, secret_access_key="${CANARY}")
    settings = siltstone.init(tmp_path / "store", binding="s3", options=options)
    with settings.open("a", encoding="utf-8") as file:
        file.write("\nmetrics:\n  enabled: true\n")
    shown = [repr(load_settings(settings)), str(load_settings(settings))]
    with siltstone.open(settings) as store:
        store.create("a").append(b"x" * 1000)
        store.flush()
        assert store.segment("a").read(0, 10) == b"x" * 10
        shown += [repr(store), repr(store.stats()), repr(store.health())]
        shown.append(generate_latest().decode())
        for command in COMMANDS:
            run(["--store", str(settings.parent), *command])
    # Only now, since what is captured so far is shown if the test fails.
    out, err = capfd.readouterr()
    shown += [out, err, caplog.text]
    assert any("ListObjectsV2" in text for text in shown), "the SDK's own log was not seen"
    assert [text for text in shown if versitygw.secret in text] == []
    assert files_with(versitygw.secret, tmp_path, versitygw.folder) == []


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


def test_of_errors(versitygw: S3Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    bucket, _ = new_bucket(versitygw)
    shown: list[str] = []
    with FaultProxy(("127.0.0.1", versitygw.port)) as proxy:
        near = options_of(versitygw, bucket, endpoint=proxy.endpoint)
        storage = S3ChunkStorage(settings_of(versitygw, bucket, endpoint=proxy.endpoint))
        shown.append(repr(storage))
        storage.create("a", [b"abc"])
        for fault in (
            Reset(after_effect=True),
            HalfAnswer(),
            # Nobody knows what a service says in its answers.
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


def files_with(secret: str, *folders: Path) -> list[Path]:
    """Files that hold the secret."""
    return [
        path
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and secret.encode() in path.read_bytes()
    ]
