"""With TLS a service is believed only with a certificate of its own that is valid and trusted.

Nothing is sent to any other, so whatever was asked has no effect.
"""

from __future__ import annotations

import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from services.azurite import Azurite
from services.certificates import Authority, Certificate
from siltstone.bindings.azure.chunk_storage import AzureChunkStorage, open_container
from siltstone.bindings.azure.plugin import siltstone_chunk_storage
from siltstone.bindings.azure.settings import AzureSettings
from siltstone.core.errors import ChunkUnavailableError, Outcome, SettingsError
from tests.support.services.azure_services import new_container, options_of, settings_of

CONTAINER = "over-tls"


def trusting(server: Azurite, authority: Authority) -> AzureSettings:
    return settings_of(server, CONTAINER, ca_bundle=authority.bundle)


def test_a_service_that_is_trusted(azurite_tls: Azurite, authority: Authority) -> None:
    settings = trusting(azurite_tls, authority)
    made = AzureChunkStorage(settings)
    made.service.container.create_container()
    made.close()
    storage = open_container(settings)
    content = bytes(range(256)) * 8192
    storage.create("a", [content])
    storage.write("a", len(content), [b"more"])
    buffer = bytearray(len(content) + 9)
    assert storage.read_into("a", 0, buffer) == len(content) + 4
    assert bytes(buffer[: len(content) + 4]) == content + b"more"
    storage.delete("a")
    assert list(storage.list()) == []
    storage.close()


@contextmanager
def stranger(certificate: Certificate) -> Iterator[str]:
    """A server with such a certificate; yields its URL. No client should ever send a request."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.chain, certificate.key)
    asked: list[bytes] = []

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError), context.wrap_socket(self.request, server_side=True) as spoken:
                asked.append(spoken.recv(1))

    with socketserver.TCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"https://127.0.0.1:{server.server_address[1]}/stranger"
        server.shutdown()
        thread.join()
    assert not any(asked)


@pytest.mark.parametrize("kind", ["unknown authority", "expired", "another host"])
def test_a_service_that_is_not(
    azurite_tls: Azurite, authority: Authority, tmp_path_factory: pytest.TempPathFactory, kind: str
) -> None:
    with ExitStack() as stack:
        endpoint, bundle = azurite_tls.endpoint, authority.bundle
        if kind == "expired":
            old = authority.certificate(["127.0.0.1"], is_expired=True)
            endpoint = stack.enter_context(stranger(old))
        elif kind == "another host":
            another = authority.certificate(["elsewhere.example"])
            endpoint = stack.enter_context(stranger(another))
        else:
            bundle = Authority(tmp_path_factory.mktemp("another")).bundle
        refused(settings_of(azurite_tls, CONTAINER, endpoint=endpoint, ca_bundle=bundle))


def refused(settings: AzureSettings) -> None:
    with pytest.raises(ChunkUnavailableError, match="could not be reached"):
        open_container(settings)
    storage = AzureChunkStorage(settings)
    with pytest.raises(ChunkUnavailableError, match="could not be reached") as caught:
        storage.create("a", [b"x"])
    assert caught.value.outcome is Outcome.NOT_APPLIED
    storage.close()


def test_the_worlds_authorities_are_trusted_unless_one_is_named(azurite_tls: Azurite) -> None:
    with pytest.raises(ChunkUnavailableError, match="could not be reached"):
        open_container(settings_of(azurite_tls, CONTAINER))


def test_plain_http_is_refused_unless_it_is_asked_for(azurite: Azurite) -> None:
    container, _ = new_container(azurite)
    with pytest.raises(SettingsError, match="insecure: true"):
        siltstone_chunk_storage("azure", options_of(azurite, container, insecure=False))


def test_a_server_without_tls_where_tls_is_expected(azurite: Azurite) -> None:
    endpoint = azurite.endpoint.replace("http://", "https://")
    settings = settings_of(azurite, CONTAINER, endpoint=endpoint, insecure=False)
    with pytest.raises(ChunkUnavailableError) as caught:
        AzureChunkStorage(settings).create("a", [b"x"])
    assert caught.value.outcome is Outcome.NOT_APPLIED
