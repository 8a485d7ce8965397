"""What may be set, what contradicts what, and what is never shown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from siltstone.bindings.s3 import plugin
from siltstone.bindings.s3.client import make_client, make_session
from siltstone.bindings.s3.settings import S3Settings
from siltstone.core.constants import MIB
from siltstone.core.errors import SettingsError

ROLE = "arn:aws:iam::123456789012:role/archive"
EXPRESS = "archive--use1-az4--x-s3"


def refused(**values: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        plugin.siltstone_chunk_storage("s3", {"bucket": "archive"} | values)
    return str(caught.value)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"bucket": "a"}, "s3.bucket"),
        ({"bucket": "a b c"}, "s3.bucket"),
        ({"buckets": "x"}, "s3.buckets"),
        ({"prefix": "a//b"}, "s3.prefix"),
        ({"prefix": "/a"}, "s3.prefix"),
        ({"prefix": "a/../b"}, "s3.prefix"),
        ({"prefix": "p" * 257}, "256 bytes"),
        ({"endpoint": "example.org"}, "must be a URL"),
        ({"endpoint": "https://example.org:99999"}, "endpoint: port out of range"),
        ({"endpoint": "https://exa mple.org"}, "endpoint: holds a blank"),
        ({"access_key_id": "id\n"}, "access_key_id: is empty, or holds a blank"),
        ({"session_token": "a b"}, "session_token: is empty, or holds a blank"),
        ({"endpoint": "https://user:pass@example.org"}, "neither credentials"),
        ({"endpoint": "http://example.org"}, "insecure: true"),
        ({"endpoint": "https://example.org", "insecure": True}, "http://"),
        ({"insecure": True}, "http://"),
        ({"ca_bundle": "here.pem"}, "absolute path"),
        ({"ca_bundle": "/no/such/file.pem"}, "absolute path of a file"),
        ({"access_key_id": "x"}, "need each other"),
        ({"secret_access_key": "x"}, "need each other"),
        ({"session_token": "x"}, "session_token needs"),
        ({"profile": "p", "access_key_id": "x", "secret_access_key": "y"}, "exclude each other"),
        ({"role_session_name": "name"}, "role_session_name needs role_arn"),
        ({"role_external_id": "id"}, "role_external_id needs role_arn"),
        ({"sts_endpoint": "https://sts"}, "sts_endpoint needs role_arn"),
        ({"role_arn": ROLE, "sts_endpoint": "http://sts"}, "sts_endpoint is without TLS"),
        ({"append": "directory-bucket"}, "--x-s3"),
        ({"append": True}, "s3.append"),
        (
            {
                "bucket": EXPRESS,
                "append": "directory-bucket",
                "unsafe_without_conditional_create": True,
            },
            "exclude each other",
        ),
        ({"bucket": EXPRESS, "path_style": True}, "path_style"),
        ({"kms_key_id": "k"}, "encryption: kms"),
        ({"kms_key_id": "k", "encryption": "s3"}, "encryption: kms"),
        ({"encryption": "rot13"}, "s3.encryption"),
        ({"checksums": "sha1"}, "s3.checksums"),
        ({"storage_class": "cheap one"}, "s3.storage_class"),
        ({"upload_threads": 9, "connections": 8}, "must not be above connections"),
        ({"part_bytes": "4MiB"}, "s3.part_bytes"),
        ({"deadline_s": 0}, "s3.deadline_s"),
    ],
)
def test_what_is_wrong_is_named(values: dict[str, Any], said: str) -> None:
    assert said in refused(**values)


def test_ca_bundle_contradicts_plain_http(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_text("")
    said = refused(endpoint="http://x", insecure=True, ca_bundle=str(bundle))
    assert "ca_bundle is for an endpoint with TLS" in said


def test_what_is_right_is_taken() -> None:
    settings = S3Settings.model_validate(
        {"bucket": "archive", "prefix": "a/b/", "put_bytes_max": "8MiB", "encryption": "kms"}
    )
    assert (settings.folder, settings.put_bytes_max) == ("a/b/", 8 * MIB)
    assert S3Settings(bucket="archive").folder == ""


def test_another_name_is_not_ours() -> None:
    assert plugin.siltstone_chunk_storage("nfs", {}) is None


def test_secrets_are_masked_everywhere() -> None:
    values = {
        "bucket": "archive", "access_key_id": "canary-1", "secret_access_key": "canary-2",
        "session_token": "canary-3", "role_arn": ROLE, "role_external_id": "canary-4",
    }  # fmt: skip
    settings = S3Settings.model_validate(values)
    shown = repr(settings) + str(settings) + str(settings.model_dump()) + settings.model_dump_json()
    assert "canary" not in shown
    assert "canary" not in refused(**values | {"kms_key_id": "x"})
    assert "canary" not in refused(**values | {"access_key_id": ["canary-5"]})


def test_the_sdk_never_repeats_and_no_variable_moves_the_endpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://elsewhere.example.org")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "9")
    settings = {"bucket": "archive", "region": "eu-central-1", "connections": 17}
    checked = S3Settings.model_validate(settings)
    client = make_client(checked, make_session(checked))
    config: Any = client.meta.config
    assert config.retries["total_max_attempts"] == 1
    assert config.max_pool_connections == 17
    assert "elsewhere" not in client.meta.endpoint_url
    client.close()


@pytest.mark.slow
def test_without_the_sdk_the_extra_is_named(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "for name in ('boto3', 'botocore'): sys.modules[name] = None\n"
        "from siltstone.bindings.s3 import plugin\n"
        "plugin.siltstone_chunk_storage('s3', {'bucket': 'archive'})\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode
    assert "ModuleNotFoundError" in run.stderr or "ImportError" in run.stderr
