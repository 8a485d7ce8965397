"""Tier 1 is gone, and the story is the same wherever long-term storage is: real servers of each.

Injected: tier 1 and every local disk lost, then a chunk, a file of an index checkpoint, and all of
the journal. Objects that another program put there are a segment before that.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone import RecoveryState
from siltstone.migration.files.import_files import ImportChoices, import_files
from siltstone.migration.files.import_plan import plan_objects
from siltstone.migration.salvage import Verdict, salvage_store
from tests.support.services.gcs_services import GcsService, on_fake, on_stub
from tests.support.services.places import Place, of_azure, of_hdfs, of_s3
from tests.support.stubs.gcs_stub import Stub
from tests.support.stubs.gcs_stub_server import serving

pytestmark = pytest.mark.services

OBJECTS = {"old/1.csv": b"one\n" * 1_000, "old/2.csv": b"two\n" * 90_000}
FLUSHED = b"a" * 300_000


def of_fake_gcs(request: pytest.FixtureRequest) -> Place:
    service = on_fake(request.getfixturevalue("fake_gcs_server"))
    return Place("gcs", gcs_options(service, unsafe_without_preconditions=True), service)


def of_gcs(request: pytest.FixtureRequest) -> Place:
    """The stub of the service, which keeps what the service promises."""
    service = on_stub(request.getfixturevalue("stub"), token=None, anonymous=True)
    return Place("gcs", gcs_options(service), service)


def gcs_options(service: GcsService, **more: Any) -> dict[str, Any]:
    return {
        "bucket": service.raw.bucket,
        "endpoint": service.endpoint,
        "insecure": True,
        "anonymous": True,
        **more,
    }


PLACES: dict[str, Callable[[pytest.FixtureRequest], Place]] = {
    "hdfs": of_hdfs,
    "s3": of_s3,
    "gcs": of_gcs,
    "fake gcs": of_fake_gcs,
    "azure": of_azure,
}


@pytest.fixture
def stub() -> Iterator[Stub]:
    with serving() as server:
        yield server.use(Stub())


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> Place:
    request.getfixturevalue(f"{request.param.split()[-1]}_plugin")
    return PLACES[request.param](request)


def made(place: Place, folder: Path) -> Path:
    """A store with a segment of objects in place; tier 1 has what is not flushed."""
    file = siltstone.init(folder, binding=place.binding, options=place.options)
    settings = file.read_text(encoding="utf-8")
    file.write_text(settings.replace("path: ./tier1", "path: ./tier1\n    file_bytes: 1MiB"))
    for name, data in OBJECTS.items():
        place.service.outside_write(name, data)
    with siltstone.open(file) as store:
        store.create("a").append(FLUSHED)
        store.create("b", attributes={"k": "v"}).append(b"b" * 5_000)
        store.create_table("t").put(b"key", b"value")
        with closing(place.service.open()) as storage:
            planned = plan_objects("old", storage, ["old/"])
        (taken,) = import_files(store, file, planned, ImportChoices(adoption="files"))
        assert taken.files == 2
        for name in ("a", "b"):  # each to a chunk of its own
            store.segment(name).flush()
        store.flush()
        store.checkpoint()
        store.segment("a").append(b"only in tier 1")
    return file


def test_the_story_of_a_lost_tier_1(place: Place, tmp_path: Path) -> None:
    file = made(place, tmp_path / "store")
    for name in ("tier1", "index"):
        shutil.rmtree(file.parent / name)
    (gone,) = [name for name in place.names("data/") if "/b/" in name]
    index = place.names("/index-")[0]
    place.remove(gone, index)
    before = place.service.outside_names()

    with siltstone.open(file, recover="read-only") as store:
        assert store.segment("a").read(0, len(FLUSHED) + 1) == FLUSHED
        assert store.segment("old").read(0, 500_000) == b"".join(OBJECTS.values())
        found = store.table("t").get(b"key")
        assert found is not None
        assert found.value == b"value"
    (report,) = siltstone.recover(file, deep=True)
    assert report.state is RecoveryState.LOST
    assert [harm.partition(":")[0] for harm in report.harm] == [index]
    told = {
        segment.name: [(lost.offset, lost.length, lost.chunk) for lost in segment.lost]
        for segment in report.segments
    }
    assert told == {"a": [], "b": [(0, 5_000, gone)], "old": []}
    looked = {segment.name: segment for segment in salvage_store(file).segments}
    assert {name: one.verdict for name, one in looked.items()} == {
        "a": Verdict.EXACT,
        "b": Verdict.GUESSED,
        "old": Verdict.EXACT,
    }
    assert place.service.outside_names() == before

    (done,) = siltstone.recover(file, accept_loss=True)
    assert (done.done, done.segments) == (True, report.segments)
    with siltstone.open(file) as store:
        assert store.segment("a").append(b"on") == len(FLUSHED)
        with pytest.raises(siltstone.LostDataError):
            store.segment("b").read(0, 1)
        assert store.segment("old").read(0, 500_000) == b"".join(OBJECTS.values())
        store.flush()

    place.remove(*place.names("/journal-"))
    new = siltstone.init(tmp_path / "new")
    report_of_names = salvage_store(file, new)
    assert "the journal is gone" in report_of_names.doubts[0][0]
    by_name = {segment.name: segment.verdict for segment in report_of_names.segments}
    assert by_name["a"] is Verdict.PREFIX
    with siltstone.open(new, read_only=True) as store:
        assert store.segment("salvage/a").read(0, len(FLUSHED) + 9) == FLUSHED + b"on"
        assert b'"value": "value"' in store.segment("salvage/t.table").read(0, 1_000)
    assert all(place.service.outside_read(name) == data for name, data in OBJECTS.items())


def test_objects_in_place_are_kept_and_given_back(place: Place, tmp_path: Path) -> None:
    file = made(place, tmp_path / "store")
    with siltstone.open(file) as store:
        assert [f for f in store.check(deep=True) if f.severity == "damage"] == []
        segment = store.segment("old")
        end = segment.info().length
        assert segment.append(b"of our own") == end
        store.flush()
        assert segment.read(0, end + 99) == b"".join(OBJECTS.values()) + b"of our own"
        segment.delete()
        store.flush()
        assert store.release_adoption("files").released == 2
    assert all(place.service.outside_read(name) == data for name, data in OBJECTS.items())
