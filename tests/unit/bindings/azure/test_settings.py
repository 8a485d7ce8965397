"""What may be set, what contradicts what, and what is never shown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential

from siltstone.bindings.azure import plugin
from siltstone.bindings.azure.client import credential_of, make_client, make_session
from siltstone.bindings.azure.settings import AzureSettings
from siltstone.core.constants import MIB
from siltstone.core.errors import SettingsError

KEY = "Y2FuYXJ5LWtleQ=="
TEXT = f"DefaultEndpointsProtocol=https;AccountName=archive;AccountKey={KEY}"
LEAST = {"container": "chunks", "account": "archive", "account_key": KEY}


def refused(**values: Any) -> str:
    options = {key: value for key, value in (LEAST | values).items() if value is not None}
    with pytest.raises(SettingsError) as caught:
        plugin.siltstone_chunk_storage("azure", options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"container": "ab"}, "azure.container"),
        ({"container": "Chunks"}, "azure.container"),
        ({"container": "a--b"}, "azure.container"),
        ({"containers": "x"}, "azure.containers"),
        ({"prefix": "a//b"}, "azure.prefix"),
        ({"prefix": "/a"}, "azure.prefix"),
        ({"prefix": "a/../b"}, "azure.prefix"),
        ({"prefix": "p" * 257}, "256 bytes"),
        ({"account": "A"}, "azure.account"),
        ({"account": None, "account_key": None, "identity": "chain"}, "is needed"),
        ({"account": None, "endpoint": "https://x"}, "account_key needs account"),
        ({"account_key": None}, "and there is none"),
        ({"identity": "chain"}, "not account_key and identity"),
        ({"sas_token": "sig=x"}, "not account_key and sas_token"),
        ({"account_key": None, "sas_token": "sv=1"}, "azure.sas_token"),
        ({"connection_string": TEXT, "account_key": None}, "account and connection_string"),
        (
            {"connection_string": "AccountKey=x", "account": None, "account_key": None},
            "names no account",
        ),
        (
            {"connection_string": "AccountName=archive", "account": None, "account_key": None},
            "needs AccountKey= or",
        ),
        (
            {"connection_string": TEXT.replace("https", "http"), "account": None,
             "account_key": None},
            "insecure: true",
        ),
        ({"client_id": "x"}, "identity: managed"),
        ({"client_id": "x", "account_key": None, "identity": "chain"}, "identity: managed"),
        (
            {"account_key": None, "identity": "managed", "endpoint": "http://x", "insecure": True},
            "with TLS alone",
        ),
        ({"endpoint": "example.org"}, "must be a URL"),
        ({"endpoint": "https://example.org:99999"}, "endpoint: port out of range"),
        ({"endpoint": "https://exa mple.org"}, "endpoint: holds a blank"),
        ({"endpoint": "https://user:pass@example.org"}, "neither credentials"),
        ({"endpoint": "https://example.org?sig=x"}, "neither credentials"),
        ({"endpoint": "http://example.org"}, "insecure: true"),
        ({"insecure": True}, "http://"),
        ({"ca_bundle": "here.pem"}, "absolute path"),
        ({"blobs": "page"}, "azure.blobs"),
        ({"checksums": "sha1"}, "azure.checksums"),
        ({"upload_threads": 9, "connections": 8}, "must not be above connections"),
        ({"block_bytes": "101MiB"}, "azure.block_bytes"),
        ({"put_bytes_max": "5001MiB"}, "azure.put_bytes_max"),
        ({"deadline_s": 0}, "azure.deadline_s"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(values: dict[str, Any], said: str) -> None:
    assert said in refused(**values)


def test_ca_bundle_contradicts_plain_http(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_text("")
    said = refused(endpoint="http://x", insecure=True, ca_bundle=str(bundle))
    assert "ca_bundle is for an endpoint with TLS" in said


@pytest.mark.parametrize(
    ("values", "url", "kind"),
    [
        (LEAST, "https://archive.blob.core.windows.net", AzureNamedKeyCredential),
        (
            {"container": "chunks", "account": "archive", "sas_token": "?sv=1&sig=x"},
            "https://archive.blob.core.windows.net", AzureSasCredential,
        ),
        (
            LEAST | {"endpoint": "http://127.0.0.1:1/archive", "insecure": True},
            "http://127.0.0.1:1/archive", AzureNamedKeyCredential,
        ),
        (
            {"container": "chunks", "connection_string": TEXT + ";EndpointSuffix=example.org;"},
            "https://archive.blob.example.org", AzureNamedKeyCredential,
        ),
        (
            {"container": "chunks", "connection_string":
             "BlobEndpoint=https://x.example.org/;SharedAccessSignature=sv=1&sig=x"},
            "https://x.example.org", AzureSasCredential,
        ),
    ],
)  # fmt: skip
def test_account_and_credential(values: dict[str, Any], url: str, kind: type[Any]) -> None:
    settings = AzureSettings.model_validate(values)
    assert settings.account_url == url
    assert isinstance(credential_of(settings), kind)


@pytest.mark.parametrize(
    ("identity", "kind"),
    [("managed", "ManagedIdentityCredential"), ("chain", "DefaultAzureCredential")],
)
def test_an_identity(identity: str, kind: str) -> None:
    values = {"container": "chunks", "account": "archive", "identity": identity}
    assert type(credential_of(AzureSettings.model_validate(values))).__name__ == kind


def test_what_is_right_is_taken() -> None:
    values = LEAST | {"prefix": "a/b/", "put_bytes_max": "8MiB", "blobs": "block"}
    settings = AzureSettings.model_validate(values)
    assert (settings.folder, settings.put_bytes_max) == ("a/b/", 8 * MIB)
    assert AzureSettings.model_validate(LEAST).folder == ""


def test_another_name_is_not_ours() -> None:
    assert plugin.siltstone_chunk_storage("nfs", {}) is None


@pytest.mark.parametrize(
    "secret",
    [
        {"account_key": "canary+1"},
        {"sas_token": "sv=1&sig=canary-2"},
        {"connection_string": "AccountName=archive;AccountKey=canary+3"},
    ],
)
def test_secrets_are_masked_everywhere(secret: dict[str, str]) -> None:
    values = {"container": "chunks"} | secret
    if "connection_string" not in secret:
        values["account"] = "archive"
    settings = AzureSettings.model_validate(values)
    shown = repr(settings) + str(settings) + str(settings.model_dump()) + settings.model_dump_json()
    assert "canary" not in shown
    wrong = values | {"client_id": "x"}
    with pytest.raises(SettingsError) as caught:
        plugin.siltstone_chunk_storage("azure", wrong)
    assert "canary" not in str(caught.value)


def test_a_key_that_is_none_is_refused_and_not_shown() -> None:
    said = refused(account_key="canary: no base64!", endpoint="http://127.0.0.1:9", insecure=True)
    assert "canary" not in said


def test_the_sdk_never_repeats() -> None:
    settings = AzureSettings.model_validate(LEAST | {"connections": 17})
    session = make_session(settings)
    client: Any = make_client(settings, session)
    assert client._config.retry_policy.total_retries == 0
    adapter: Any = session.get_adapter("https://x")
    assert adapter.max_retries.total is False
    assert adapter._pool_maxsize == 17
    client.close()
    session.close()


@pytest.mark.slow
def test_without_the_sdk_the_module_is_named() -> None:
    code = (
        "import sys\n"
        "for name in ('azure.core', 'azure.storage', 'azure.storage.blob'):\n"
        "    sys.modules[name] = None\n"
        "from siltstone.bindings.azure import plugin\n"
        f"plugin.siltstone_chunk_storage('azure', {LEAST!r})\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode
    assert "ModuleNotFoundError" in run.stderr or "ImportError" in run.stderr
