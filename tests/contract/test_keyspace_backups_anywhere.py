"""Keyspaces go from a folder to a bucket of a real server, are rebuilt there, and come back."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import siltstone
from services.s3_server import S3Server
from siltstone import objects
from siltstone.core.errors import ChunkAccessDeniedError, CorruptDataError
from siltstone.objects import Keyspace
from tests.support.migration.backups import noise
from tests.support.services.s3_options import options, variables
from tests.support.services.s3_services import new_bucket
from tests.support.stores import make_store

__all__ = ["variables"]

VALUE_BYTES = 50_000
COUNT = 40


def place_file(path: Path, server: S3Server, bucket: str, **more: object) -> Path:
    """A settings file of a place in a bucket."""
    chosen = {**options(server, bucket), **more}
    text = yaml.safe_dump({"long_term_storage": {"binding": "s3", "s3": chosen}})
    path.write_text(text, encoding="utf-8")
    return path


def put_some(photos: Keyspace, first: int) -> None:
    for number in range(first, first + COUNT):
        photos.put("b", f"k{number:03}", noise(VALUE_BYTES), index={"n": [str(number)]})
    photos.delete("b", f"k{first:03}")


def shown(photos: Keyspace) -> dict[str, object]:
    found = {each.head.key: (each.value, each.head.sqn) for each in photos.objects("b")}
    return {**found, "terms": list(photos.index("b", "n"))}


@pytest.mark.usefixtures("variables")
def test_a_keyspace_goes_by_a_bucket_into_a_bucket_and_back(
    versitygw: S3Server, tmp_path: Path
) -> None:
    folder = make_store(tmp_path / "store", containers=1)
    bucket, raw = new_bucket(versitygw)
    place = place_file(tmp_path / "place.yaml", versitygw, bucket, prefix="backups")
    with siltstone.open(folder) as store:
        photos = objects.create(store, "photos")
        put_some(photos, 0)
        first = photos.backup(place)
        put_some(photos, COUNT)
        report = photos.backup(place)
        assert (first.copied, report.copied, report.segments) == (1, 1, 2)
        assert report.copied_bytes < 1.02 * COUNT * VALUE_BYTES
        expected = shown(photos)
    assert [each.sqn for each in objects.list_backups(place)] == [COUNT + 1, 2 * COUNT + 2]
    siltstone.init(tmp_path / "new", binding="s3", options=options(versitygw, bucket))
    with siltstone.open(tmp_path / "new") as store:
        objects.restore(store, "copy", place)
        assert shown(objects.open(store, "copy")) == expected
        objects.rebuild(store, "copy")
        copy = objects.open(store, "copy")
        assert shown(copy) == expected
        put_some(copy, 2 * COUNT)
        expected = shown(copy)
        copy.backup(tmp_path / "backups")
    with siltstone.open(folder) as store:
        objects.restore(store, "back", tmp_path / "backups")
        assert shown(objects.open(store, "back")) == expected
    objects.remove_backups(place, [1])
    keys = [key for key in raw.keys("backups") if "/values/" in key]
    assert len(keys) == 2
    raw.remove(keys[1])
    with (
        siltstone.open(folder) as store,
        pytest.raises(CorruptDataError, match=keys[1].rpartition("/")[2]),
    ):
        objects.restore(store, "never", place)


@pytest.mark.usefixtures("variables")
def test_a_place_that_refuses_is_an_error_and_changes_nothing(
    versitygw: S3Server, tmp_path: Path
) -> None:
    bucket, _ = new_bucket(versitygw)
    place = place_file(tmp_path / "place.yaml", versitygw, bucket, secret_access_key="wrong")
    with siltstone.open(make_store(tmp_path / "store", containers=1)) as store:
        photos = objects.create(store, "photos")
        put_some(photos, 0)
        with pytest.raises(ChunkAccessDeniedError):
            photos.backup(place)
        put_some(photos, COUNT)
        assert len(shown(photos)) == 2 * COUNT - 1
