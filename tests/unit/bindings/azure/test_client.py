"""What the environment may change about requests, and what it may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from siltstone.bindings.azure.client import make_session
from siltstone.bindings.azure.settings import AzureSettings
from tests.unit.bindings.azure.conftest import NewCounted

SETTINGS = AzureSettings.model_validate(
    {"container": "chunks", "account": "archive", "account_key": "a2V5"}
)
PROXY = "http://proxy.example:3128"


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def test_the_proxy_is_that_of_the_environment_at_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    with make_session(SETTINGS) as session:
        assert session.proxies["https"] == PROXY


def test_some_hosts_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    monkeypatch.setenv("NO_PROXY", "blob.core.windows.net")
    with make_session(SETTINGS) as session:
        assert not session.proxies


def test_no_file_replaces_what_a_request_is_signed_with(
    counted: NewCounted, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password else\n")
    monkeypatch.setenv("NETRC", str(netrc))
    here = counted()
    here.storage.create("a", [b"x"])
    assert here.raw.read("a") == b"x"
