"""With TLS a service is believed only with a certificate of its own that is valid and trusted.

Nothing is sent to any other, so whatever was asked has no effect.
"""

from __future__ import annotations

import pytest

from services.certificates import Authority
from services.s3_server import S3Server
from siltstone.bindings.s3.chunk_storage import S3ChunkStorage, open_bucket
from siltstone.bindings.s3.plugin import siltstone_chunk_storage
from siltstone.core.constants import MIB
from siltstone.core.errors import ChunkUnavailableError, Outcome, SettingsError
from tests.conftest import NewVersitygw
from tests.support.services.raw_s3 import RawS3
from tests.support.services.s3_services import options_of, settings_of

BUCKET = "bucket"


def made_bucket(server: S3Server) -> str:
    """A bucket of the gateway is a folder, so no client is needed that trusts it."""
    (server.data / BUCKET).mkdir(exist_ok=True)
    return BUCKET


def test_a_service_that_is_trusted(versitygw_tls: S3Server, authority: Authority) -> None:
    storage = open_bucket(
        settings_of(
            versitygw_tls,
            made_bucket(versitygw_tls),
            ca_bundle=authority.bundle,
            put_bytes_max=5 * MIB,
            part_bytes=5 * MIB,
        )
    )
    contents = {"small": b"content", "larger": bytes(range(256)) * 4096, "parts": bytes(6 * MIB)}
    for name, content in contents.items():
        storage.create(name, [content])
    storage.concat("joined", [("parts", 6 * MIB), ("small", 7)])
    contents["joined"] = contents["parts"] + b"content"
    for name, content in contents.items():
        buffer = bytearray(len(content))
        assert storage.read_into(name, 0, buffer) == len(content)
        assert buffer == content == (versitygw_tls.data / BUCKET / name).read_bytes()
    storage.delete("small")
    assert storage.delete_many(["larger", "parts", "joined"]) == {}
    assert list(storage.list()) == []
    storage.close()


@pytest.mark.parametrize("kind", ["unknown authority", "expired", "another host"])
def test_a_service_that_is_not(
    new_versitygw: NewVersitygw, authority: Authority, tmp_path_factory: pytest.TempPathFactory,
    kind: str,
) -> None:  # fmt: skip
    hosts = ["elsewhere.example"] if kind == "another host" else ["127.0.0.1"]
    server = new_versitygw(certificate=authority.certificate(hosts, is_expired=kind == "expired"))
    trusted = authority
    if kind == "unknown authority":
        trusted = Authority(tmp_path_factory.mktemp("another"))
    settings = settings_of(server, made_bucket(server), ca_bundle=trusted.bundle)
    with pytest.raises(ChunkUnavailableError, match="could not be reached"):
        open_bucket(settings)
    storage = S3ChunkStorage(settings)
    with pytest.raises(ChunkUnavailableError, match="could not be reached") as caught:
        storage.create("a", [b"x"])
    assert caught.value.outcome is Outcome.NOT_APPLIED
    storage.close()
    assert list((server.data / BUCKET).iterdir()) == []


def test_the_worlds_authorities_are_trusted_unless_one_is_named(versitygw_tls: S3Server) -> None:
    with pytest.raises(ChunkUnavailableError, match="could not be reached"):
        open_bucket(settings_of(versitygw_tls, made_bucket(versitygw_tls)))


def test_plain_http_is_refused_unless_it_is_asked_for(versitygw: S3Server) -> None:
    RawS3(versitygw.endpoint, "plain", versitygw.key_id, versitygw.secret).make_bucket()
    with pytest.raises(SettingsError, match="insecure: true"):
        siltstone_chunk_storage("s3", options_of(versitygw, "plain", insecure=False))


def test_a_server_without_tls_where_tls_is_expected(versitygw: S3Server) -> None:
    settings = settings_of(
        versitygw, "plain", endpoint=f"https://{versitygw.address}", insecure=False
    )
    with pytest.raises(ChunkUnavailableError) as caught:
        S3ChunkStorage(settings).create("a", [b"x"])
    assert caught.value.outcome is Outcome.NOT_APPLIED
