"""With TLS a service is believed only with a certificate of its own that is valid and trusted.

Nothing is sent to any other, so whatever was asked has no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from services.certificates import Authority, Certificate
from siltstone.bindings.gcs.chunk_storage import GcsChunkStorage, open_bucket
from siltstone.bindings.gcs.plugin import siltstone_chunk_storage
from siltstone.core.constants import KIB
from siltstone.core.errors import ChunkUnavailableError, Outcome, SettingsError
from tests.support.services.gcs_services import settings
from tests.support.stubs.gcs_stub import Stub
from tests.support.stubs.gcs_stub_server import serving


@contextmanager
def running(certificate: Certificate | None) -> Iterator[Stub]:
    with serving(certificate) as server:
        yield server.use(Stub())


def https(stub: Stub, **more: Any) -> Any:
    return settings(stub.endpoint, stub.bucket, insecure=False, **more)


def test_a_service_that_is_trusted(authority: Authority) -> None:
    with running(authority.certificate()) as stub:
        storage = open_bucket(
            https(stub, ca_bundle=authority.bundle, put_bytes_max=256 * KIB, piece_bytes=256 * KIB)
        )
        contents = {"small": b"content", "pieces": bytes(range(256)) * 2_500}
        for name, content in contents.items():
            storage.create(name, [content])
        storage.concat("joined", [("pieces", 640_000), ("small", 7)])
        contents["joined"] = contents["pieces"] + b"content"
        for name, content in contents.items():
            buffer = bytearray(len(content))
            assert storage.read_into(name, 0, buffer) == len(content)
            assert buffer == content == stub.contents()[name]
            storage.delete(name)
        assert list(storage.list()) == []
        storage.close()


@pytest.mark.parametrize("kind", ["unknown authority", "expired", "another host"])
def test_a_service_that_is_not(
    authority: Authority, tmp_path_factory: pytest.TempPathFactory, kind: str
) -> None:
    hosts = ["elsewhere.example"] if kind == "another host" else ["127.0.0.1"]
    certificate = authority.certificate(hosts, is_expired=kind == "expired")
    trusted = authority
    if kind == "unknown authority":
        trusted = Authority(tmp_path_factory.mktemp("another"))
    with running(certificate) as stub:
        check_refused(stub, ca_bundle=trusted.bundle)


def test_the_worlds_authorities_are_trusted_unless_one_is_named(authority: Authority) -> None:
    with running(authority.certificate()) as stub:
        check_refused(stub)


def test_no_variable_of_the_environment_says_whom_to_trust(
    authority: Authority, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority.bundle))
    another = Authority(tmp_path_factory.mktemp("another"))
    with running(authority.certificate()) as stub:
        check_refused(stub, ca_bundle=another.bundle)


def test_a_server_without_tls_where_tls_is_expected() -> None:
    with running(None) as stub:
        stub.endpoint = stub.endpoint.replace("http:", "https:")
        check_refused(stub)


def test_plain_http_is_refused_unless_it_is_asked_for() -> None:
    options = {"bucket": "bucket", "endpoint": "http://127.0.0.1:1", "anonymous": True}
    with pytest.raises(SettingsError, match="insecure: true"):
        siltstone_chunk_storage("gcs", options)


def check_refused(stub: Stub, **more: Any) -> None:
    chosen = https(stub, **more)
    with pytest.raises(ChunkUnavailableError, match="could not be reached"):
        open_bucket(chosen)
    storage = GcsChunkStorage(chosen)
    calls: list[Callable[[], None]] = [
        lambda: storage.create("a", [b"x"]),
        lambda: storage.delete("a"),
    ]
    for call in calls:
        with pytest.raises(ChunkUnavailableError, match="could not be reached") as caught:
            call()
        assert caught.value.outcome is Outcome.NOT_APPLIED
    storage.close()
    assert stub.asked == []
