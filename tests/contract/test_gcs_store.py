"""A store is made in a bucket of Google Cloud Storage, and the doctor looks at it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone.core.errors import SettingsError, SiltstoneError, StoreExistsError
from siltstone.store.admin.doctor import diagnose
from tests.support.stubs.gcs_stub import Stub
from tests.support.stubs.gcs_stub_server import serving

pytestmark = [pytest.mark.services, pytest.mark.usefixtures("gcs_plugin")]


@pytest.fixture
def stub() -> Iterator[Stub]:
    with serving() as server:
        yield server.use(Stub())


def options(stub: Stub) -> dict[str, Any]:
    return {
        "bucket": stub.bucket, "prefix": "stores/one", "endpoint": stub.endpoint, "insecure": True,
        "anonymous": True,
    }  # fmt: skip


def test_the_doctor_finds_the_bucket_well(stub: Stub, tmp_path: Path) -> None:
    file = siltstone.init(tmp_path / "store", binding="gcs", options=options(stub))
    before = stub.contents()
    assert before
    assert all(key.startswith("stores/one/") for key in before)
    probes = list(diagnose(file))
    assert [probe for probe in probes if probe.outcome == "failed"] == []
    found = {probe.name: probe.outcome for probe in probes if probe.area == "storage"}
    assert found["create is exclusive"] == found["concat"] == found["listings are in order"] == "ok"
    assert stub.contents() == before


def test_the_doctor_names_a_bucket_that_is_gone(stub: Stub, tmp_path: Path) -> None:
    file = siltstone.init(tmp_path / "store", binding="gcs", options=options(stub))
    stub.bucket = "another"
    with pytest.raises(SettingsError, match="there is no bucket 'bucket' at this endpoint"):
        list(diagnose(file))


def test_a_bucket_that_holds_something_is_refused(stub: Stub, tmp_path: Path) -> None:
    stub.store("stores/one/theirs", b"x")
    with pytest.raises(StoreExistsError, match="not empty"):
        siltstone.init(tmp_path / "store", binding="gcs", options=options(stub))
    assert stub.contents() == {"stores/one/theirs": b"x"}
    assert not (tmp_path / "store").exists()


def test_a_failed_init_leaves_nothing(
    stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path) -> None:
        raise SiltstoneError("no")

    monkeypatch.setattr("siltstone.store.admin.prefilled_init.open_store", fail)
    with pytest.raises(SiltstoneError, match="no"):
        siltstone.init(tmp_path / "store", binding="gcs", options=options(stub))
    assert stub.contents() == {}
