"""What may be set, what contradicts what, and what is never shown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from siltstone.bindings.gcs import plugin
from siltstone.bindings.gcs.settings import GcsSettings
from siltstone.core.errors import SettingsError


def refused(**values: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        plugin.siltstone_chunk_storage("gcs", {"bucket": "archive"} | values)
    return str(caught.value)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"bucket": "a"}, "gcs.bucket"),
        ({"bucket": "A b c"}, "gcs.bucket"),
        ({"buckets": "x"}, "gcs.buckets"),
        ({"prefix": "a//b"}, "gcs.prefix"),
        ({"prefix": "/a"}, "gcs.prefix"),
        ({"prefix": "a/../b"}, "gcs.prefix"),
        ({"prefix": "a\nb"}, "on one line"),
        ({"prefix": "p" * 257}, "256 bytes"),
        ({"endpoint": "example.org"}, "must be a URL"),
        ({"endpoint": "https://example.org:99999"}, "endpoint: port out of range"),
        ({"endpoint": "https://exa mple.org"}, "endpoint: holds a blank"),
        ({"token": "abc\n"}, "token: is empty, or holds a blank"),
        ({"endpoint": "https://user:pass@example.org"}, "neither credentials"),
        ({"endpoint": "http://example.org"}, "insecure: true"),
        ({"endpoint": "https://example.org", "insecure": True}, "http://"),
        ({"insecure": True}, "http://"),
        ({"ca_bundle": "here.pem"}, "absolute path"),
        ({"credentials_file": "/no/such/file.json"}, "absolute path of a file"),
        ({"token": "t", "anonymous": True}, "token and anonymous exclude each other"),
        ({"anonymous": True, "quota_project": "p"}, "quota_project needs credentials"),
        ({"kms_key_name": "key"}, "gcs.kms_key_name"),
        ({"storage_class": "near line"}, "gcs.storage_class"),
        ({"piece_bytes": 300_000}, "multiple of 256 KiB"),
        ({"put_bytes_max": 0}, "gcs.put_bytes_max"),
        ({"join_threads": 9, "connections": 8}, "join_threads is 9"),
        ({"deadline_s": 0}, "gcs.deadline_s"),
    ],
)
def test_what_is_wrong_is_named(values: dict[str, Any], said: str) -> None:
    assert said in refused(**values)


def test_a_secret_is_not_repeated_by_an_error() -> None:
    assert "canary" not in refused(token="canary", anonymous=True)


def test_a_ca_bundle_needs_tls(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text("", encoding="utf-8")
    said = refused(ca_bundle=str(path), endpoint="http://x", insecure=True)
    assert "ca_bundle is for an endpoint with TLS" in said


def test_the_prefix_is_a_folder() -> None:
    assert GcsSettings(bucket="archive", prefix="a/b/").folder == "a/b/"
    assert GcsSettings(bucket="archive").folder == ""


def test_another_name_is_not_meant() -> None:
    assert plugin.siltstone_chunk_storage("other", {}) is None


@pytest.mark.slow
def test_no_sdk_is_loaded_for_another_binding() -> None:
    program = (
        "import sys; from siltstone.bindings.gcs import plugin, settings; "
        "assert plugin.siltstone_chunk_storage('nfs', {}) is None; "
        "assert not [name for name in sys.modules if name.startswith('google')]"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
