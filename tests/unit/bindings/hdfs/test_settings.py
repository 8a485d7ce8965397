"""What a person may set, and what contradicts itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from siltstone.bindings.hdfs.plugin import siltstone_chunk_storage
from siltstone.bindings.hdfs.settings import HdfsSettings
from siltstone.core.errors import SettingsError

LEAST = {"namenode": "hdfs://name:8020", "path": "/stores/one"}


def settings(**more: Any) -> HdfsSettings:
    return HdfsSettings.model_validate(LEAST | more)


def test_little_has_to_be_said() -> None:
    found = settings()
    assert (found.folder, found.is_one_namenode, found.webhdfs) == ("/stores/one/", True, ())
    assert settings(path="/a/").folder == "/a/"


def test_a_service_of_several_namenodes_is_named(tmp_path: Path) -> None:
    found = settings(namenode="hdfs://cluster", config_dir=tmp_path)
    assert not found.is_one_namenode
    assert settings(webhdfs=["https://a:9871", "https://b:9871/"]).webhdfs == (
        "https://a:9871",
        "https://b:9871",
    )


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"namenode": "name:8020"}, "must be hdfs"),
        ({"namenode": "https://name:8020"}, "must be hdfs"),
        ({"namenode": "hdfs://user:secret@name:8020"}, "no credentials"),
        ({"namenode": "hdfs://name:8020/folder"}, "must be hdfs"),
        ({"namenode": "hdfs://name:no"}, "namenode"),
        ({"namenode": "hdfs://cluster"}, "needs config_dir"),
        ({"path": "/"}, "below the root"),
        ({"path": "stores"}, "absolute"),
        ({"path": "/a/../b"}, "below the root"),
        ({"path": "/a//b"}, "below the root"),
        ({"path": "/a/.snapshot"}, "below the root"),
        ({"path": "/a:b"}, "colon"),
        ({"path": "/" + "a" * 256}, "256 bytes"),
        ({"webhdfs": "http://name:9870"}, "needs insecure: true"),
        ({"webhdfs": ["http://a:1", "https://b:1"], "insecure": True}, "either"),
        ({"webhdfs": "ftp://name:9870"}, "https://"),
        ({"webhdfs": "https://name:9871/webhdfs/v1"}, "end with the port"),
        ({"webhdfs": "https://u:secret@name:9871"}, "credentials"),
        ({"insecure": True}, "insecure: true is for"),
        ({"webhdfs_token": "secret"}, "needs webhdfs"),
        ({"unsafe_append": True}, "unsafe_append needs webhdfs"),
        ({"transport": "pyarrow"}, "transport: hdfs-native is the only client"),
        ({"client": "libhdfs"}, "needs Java"),
        ({"ca_bundle": "/nowhere"}, "absolute path of a file"),
        ({"ca_bundle": __file__}, "ca_bundle is for"),
        ({"config_dir": "/nowhere"}, "absolute path of a folder"),
        ({"kerberos_keytab": __file__}, "kerberos_keytab needs kerberos_principal"),
        ({"kerberos_cache": "FILE:/tmp/a"}, "kerberos_cache needs kerberos_principal"),
        (
            {"kerberos_keytab": __file__, "kerberos_principal": "a", "kerberos_cache": "b"},
            "exclude each other",
        ),
        ({"replication": 0}, "replication"),
        ({"block_size": "1KiB"}, "block_size"),
        ({"deadline_s": 0}, "deadline_s"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_what_is_wrong_is_named(more: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said) as caught:
        settings(**more)
    assert "secret" not in str(caught.value)
    with pytest.raises(SettingsError, match="hdfs"):
        siltstone_chunk_storage("hdfs", LEAST | more)


def test_secrets_are_masked() -> None:
    found = settings(webhdfs="https://name:9871", webhdfs_token="secret")
    assert "secret" not in repr(found)
    assert "secret" not in found.model_dump_json()


def test_another_binding_is_not_built() -> None:
    assert siltstone_chunk_storage("s3", {}) is None
