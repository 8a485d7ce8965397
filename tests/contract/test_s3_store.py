"""A whole store in a bucket of a real server: made, used, tidied, moved to a folder, probed."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.store import S3Store

import siltstone
from services.s3_server import REGION, S3Server
from siltstone.bindings.s3.chunk_storage import open_bucket
from siltstone.core.checksums import crc32c, crc_text
from siltstone.core.constants import MIB
from siltstone.core.errors import (
    ChunkAccessDeniedError,
    ChunkNameError,
    SettingsError,
    SiltstoneError,
    StoreExistsError,
)
from siltstone.migration.salvage import salvage_store
from siltstone.store.admin.doctor import diagnose
from tests.support.services.s3_options import options, variables
from tests.support.services.s3_services import S3Service, new_bucket, settings_of

__all__ = ["variables"]


@pytest.mark.usefixtures("variables")
def test_a_store_whose_disks_are_gone_continues_from_the_bucket(
    versitygw: S3Server, tmp_path: Path
) -> None:
    bucket, raw = new_bucket(versitygw)
    file = siltstone.init(tmp_path / "store", binding="s3", options=options(versitygw, bucket))
    with siltstone.open(file) as store:
        for name in ("a", "b"):
            store.create(name).append(name.encode() * 5_000)
            store.segment(name).flush()
        store.flush()
        store.segment("a").append(b"only in tier 1")
    for name in ("tier1", "index"):
        shutil.rmtree(file.parent / name)
    prefix = "stores/one/"
    (gone,) = [key for key in raw.keys(f"{prefix}data/") if "/b/" in key]
    raw.remove(gone)
    raw.remove(f"{prefix}system/store")
    with siltstone.open(file, recover="read-only") as store:
        assert store.segment("a").read(0, 9_999) == b"a" * 5_000
    new = siltstone.init(tmp_path / "new")
    found = salvage_store(file, new).segments
    assert [(s.name, s.verdict.value, s.ranges) for s in found] == [
        ("a", "exact", [(0, 5_000)]),
        ("b", "guessed", []),
    ]
    with siltstone.open(new, read_only=True) as store:
        assert store.segment("salvage/a").read(0, 9_999) == b"a" * 5_000
    (report,) = siltstone.recover(file, accept_loss=True)
    assert {
        segment.name: [(lost.offset, lost.length, prefix + lost.chunk) for lost in segment.lost]
        for segment in report.segments
    } == {"a": [], "b": [(0, 5_000, gone)]}
    with siltstone.open(file) as store:
        assert store.segment("a").append(b"on") == 5_000
        with pytest.raises(siltstone.LostDataError):
            store.segment("b").read(0, 1)


@pytest.mark.usefixtures("variables")
def test_a_store_lives_in_a_bucket(
    versitygw: S3Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "siltstone")
    bucket, raw = new_bucket(versitygw)
    file = siltstone.init(tmp_path / "store", binding="s3", options=options(versitygw, bucket))
    assert versitygw.secret not in file.read_text()
    assert not (tmp_path / "store" / "chunks").exists()
    parts = [bytes([number]) * 700_000 for number in range(10)]
    with siltstone.open(file) as store:
        segment = store.create("a")
        for part in parts[:6]:
            segment.append(part)
        segment.flush()
        gone = store.create("gone")
        gone.append(b"x" * 5_000)
        gone.flush()
        gone.delete()
    with siltstone.open(file) as store:
        segment = store.segment("a")
        for part in parts[6:]:
            segment.append(part)
        segment.flush()
        assert segment.read(0, 7_000_000) == b"".join(parts)
        assert all(chunk.chunk.startswith("data/") for chunk in segment.chunks())
    keys = raw.keys()
    assert keys
    assert all(key.startswith("stores/one/") for key in keys)
    assert not [key for key in keys if "/doctor/" in key]
    with siltstone.open(file, read_only=True) as store:
        assert store.segment("a").read(650_000, 100_000) == b"".join(parts)[650_000:750_000]
    assert versitygw.secret not in caplog.text
    _move_to_a_folder(file, raw, tmp_path, b"".join(parts))


def _move_to_a_folder(file: Path, raw: Any, tmp_path: Path, content: bytes) -> None:
    """Names and metadata do not depend on the binding: the same store opens from a folder."""
    for key in list(raw.keys()):
        path = tmp_path / "moved" / key.removeprefix("stores/one/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw.read(key))
    head, _, rest = file.read_text().partition("long_term_storage:\n")
    tail = rest[rest.index("#  threads") :]
    file.write_text(
        f"{head}long_term_storage:\n  binding: nfs\n  nfs:\n    path: {tmp_path}/moved\n{tail}"
    )
    with siltstone.open(file) as store:
        assert store.segment("a").read(0, len(content)) == content
        store.segment("a").append(b"more")


@pytest.mark.usefixtures("variables")
def test_the_doctor_finds_the_bucket_well(versitygw: S3Server, tmp_path: Path) -> None:
    bucket, raw = new_bucket(versitygw)
    file = siltstone.init(tmp_path / "store", binding="s3", options=options(versitygw, bucket))
    before = raw.keys()
    probes = list(diagnose(file))
    assert [probe for probe in probes if probe.outcome == "failed"] == []
    found = {probe.name: probe.outcome for probe in probes if probe.area == "storage"}
    assert found["create is exclusive"] == found["concat"] == found["listings are in order"] == "ok"
    assert raw.keys() == before


@pytest.mark.usefixtures("variables")
def test_a_bucket_that_holds_something_is_refused(versitygw: S3Server, tmp_path: Path) -> None:
    bucket, raw = new_bucket(versitygw)
    raw.write("stores/one/theirs", b"x")
    with pytest.raises(StoreExistsError, match="not empty"):
        siltstone.init(tmp_path / "store", binding="s3", options=options(versitygw, bucket))
    assert raw.keys() == ["stores/one/theirs"]
    assert not (tmp_path / "store").exists()


@pytest.mark.usefixtures("variables")
def test_a_failed_init_leaves_nothing(
    versitygw: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path) -> None:
        raise SiltstoneError("no")

    monkeypatch.setattr("siltstone.store.admin.prefilled_init.open_store", fail)
    bucket, raw = new_bucket(versitygw)
    with pytest.raises(SiltstoneError, match="no"):
        siltstone.init(tmp_path / "store", binding="s3", options=options(versitygw, bucket))
    assert raw.keys() == []
    assert not (tmp_path / "store").exists()


@pytest.mark.usefixtures("variables")
def test_wrong_options_are_named(versitygw: S3Server, tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"bucket": "no-such-bucket"}, r"s3\.bucket"),
        ({"colour": "red"}, r"s3\.colour"),
        ({"insecure": False}, "insecure"),
    ]
    for more, said in cases:
        wanted: dict[str, Any] = options(versitygw, "unused")
        wanted |= more
        with pytest.raises(SettingsError, match=said) as caught:
            siltstone.init(tmp_path / "store", binding="s3", options=wanted)
        assert versitygw.secret not in str(caught.value)
        assert not (tmp_path / "store").exists()


# --- against the server itself ------------------------------------------------------------------


def test_another_client_reads_what_was_written_and_the_reverse(versitygw: S3Server) -> None:
    service = S3Service(server=versitygw, more={"put_bytes_max": 6 * MIB, "part_bytes": 5 * MIB})
    other: Any = S3Store(
        service.bucket, endpoint=versitygw.endpoint, region=REGION, access_key_id=versitygw.key_id,
        secret_access_key=versitygw.secret, client_options={"allow_http": True},
        virtual_hosted_style_request=False,
    )  # fmt: skip
    storage = service.open()
    contents = {"d/small": b"abc", "d/large": bytes(range(256)) * (13 * MIB // 256)}
    for name, content in contents.items():
        storage.create(name, [content])
        assert bytes(obstore.get(other, name).bytes()) == content
    storage.concat("d/both", [("d/large", 13 * MIB), ("d/small", 3)])
    assert bytes(obstore.get(other, "d/both").bytes()) == contents["d/large"] + b"abc"
    obstore.put(other, "d/theirs", b"theirs")
    buffer = bytearray(6)
    assert storage.read_into("d/theirs", 0, buffer) == 6
    assert buffer == b"theirs"
    listed = [(found["path"], found["size"]) for found in obstore.list(other).collect()]
    assert sorted(listed) == [(found.name, found.length) for found in storage.list()]
    storage.close()


def test_the_checksum_of_the_whole_is_kept(versitygw: S3Server) -> None:
    service = S3Service(server=versitygw, more={"put_bytes_max": 5 * MIB, "part_bytes": 5 * MIB})
    storage = service.open()
    content = bytes(range(256)) * (11 * MIB // 256)
    storage.create("small", [content[: 5 * MIB]])
    storage.create("large", [content])
    storage.concat("joined", [("large", 11 * MIB), ("small", 5 * MIB)])
    for name, made in (("small", content[: 5 * MIB]), ("large", content)):
        told = service.raw.headers(name, x_amz_checksum_mode="ENABLED")
        assert told["x-amz-checksum-type"] == "FULL_OBJECT"
        assert told["x-amz-checksum-crc32c"] == crc_text(crc32c(made))
    told = service.raw.headers("joined", x_amz_checksum_mode="ENABLED")
    assert "x-amz-checksum-crc32c" not in told
    storage.close()


def test_a_folder_is_in_the_way_of_a_name(versitygw: S3Server) -> None:
    """A known deviation: the server keeps objects in folders, so ``k`` excludes ``k/child``."""
    service = S3Service(server=versitygw)
    storage = service.open()
    storage.create("k", [b"x"])
    with pytest.raises(ChunkNameError, match="ObjectParentIsFile"):
        storage.create("k/child", [b"x"])
    storage.create("f/child", [b"x"])
    with pytest.raises(ChunkNameError, match="ExistingObjectIsDirectory"):
        storage.create("f", [b"x"])
    storage.close()


def test_wrong_credentials_are_refused(versitygw: S3Server) -> None:
    bucket, _ = new_bucket(versitygw)
    for more in ({"secret_access_key": "wrong"}, {"access_key_id": "nobody"}):
        with pytest.raises(ChunkAccessDeniedError) as caught:
            open_bucket(settings_of(versitygw, bucket, **more))
        assert "wrong" not in str(caught.value)
