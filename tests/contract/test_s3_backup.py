"""Backups from a folder to a bucket of a real server and back, and places that refuse."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import siltstone
from services.s3_server import S3Server
from siltstone.core.constants import KIB, MIB
from siltstone.core.errors import ChunkAccessDeniedError
from siltstone.migration.backup.admin import collect_backups, list_backups, remove_backups
from siltstone.migration.backup.create import create_backup
from siltstone.migration.backup.restore import restore_backup
from siltstone.migration.backup.verify import verify_backups
from siltstone.migration.relocate.collection_copy import CollectionCopies, copy_collections
from siltstone.migration.relocate.switch import copy_storage, switch_storage
from siltstone.pipelines.copy_segments import copy
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.owned_store import owned_store
from siltstone.pipelines.store_view import store_view
from siltstone.pipelines.work import OK
from siltstone.store.site import site_of
from tests.support.collections.whole_histories import history, store_with_histories, table
from tests.support.migration.backups import content, content_of, files, noise
from tests.support.seen_work import Seeing
from tests.support.services.s3_options import options, variables
from tests.support.services.s3_services import new_bucket
from tests.support.stores import make_store

__all__ = ["variables"]


def place_file(path: Path, server: S3Server, bucket: str, **more: object) -> Path:
    """A settings file of a place in a bucket."""
    chosen = {**options(server, bucket), **more}
    text = yaml.safe_dump({"long_term_storage": {"binding": "s3", "s3": chosen}})
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.usefixtures("variables")
def test_a_store_goes_by_a_bucket_into_a_bucket_and_back(
    versitygw: S3Server, tmp_path: Path
) -> None:
    folder = make_store(tmp_path / "store", chunk_bytes=300 * KIB, containers=1)
    bucket, raw = new_bucket(versitygw)
    place = place_file(tmp_path / "place.yaml", versitygw, bucket, prefix="backups")
    with siltstone.open(folder) as store:
        store.create("a").append(noise(MIB))
        store.flush()
        store.segment("a").append(b"tail")
        executor = Seeing()
        first = create_backup(folder, place, executor=executor)
        store.create("b").append(noise(20_000))
        store.segment("b").flush()
        report = create_backup(folder, place)
        assert (report.copied_fragments, report.copied_bytes) == (1, 20_000)
        expected = content(store)
    assert first.copied_bytes == MIB
    assert verify_backups(place, executor=executor).findings == ()
    assert versitygw.secret.encode() not in executor.seen
    assert versitygw.key_id.encode() not in executor.seen
    new = site_of(tmp_path / "new", binding="s3", options=options(versitygw, bucket))
    restore_backup(place, new)
    assert content_of(tmp_path / "new") == expected
    # And from the bucket into a folder.
    with siltstone.open(tmp_path / "new") as store:
        store.segment("a").append(b"more")
        expected = content(store)
        create_backup(tmp_path / "new", tmp_path / "backups")
    restore_backup(tmp_path / "backups", tmp_path / "back")
    assert content_of(tmp_path / "back") == expected
    key = next(key for key in raw.keys("backups") if "/chunks/" in key)
    raw.remove(key)
    (found,) = verify_backups(place).findings
    assert key.endswith(found.subject)
    remove_backups(place, [1, 2])
    collect_backups(place)
    assert raw.keys("backups") == []


@pytest.mark.usefixtures("variables")
def test_wrong_credentials_are_told_and_touch_nothing(versitygw: S3Server, tmp_path: Path) -> None:
    folder = make_store(tmp_path / "store", containers=1)
    with siltstone.open(folder) as store:
        store.create("a").append(noise(10_000))
        store.flush()
    before = files(folder)
    bucket, raw = new_bucket(versitygw)
    place = place_file(tmp_path / "place.yaml", versitygw, bucket, secret_access_key="wrong")
    for work in (lambda: create_backup(folder, place), lambda: list_backups(place)):
        with pytest.raises(ChunkAccessDeniedError):
            work()
    assert files(folder) == before
    assert raw.keys("") == []


@pytest.mark.usefixtures("variables")
def test_a_store_is_switched_to_a_bucket_and_copied_into_another(
    versitygw: S3Server, tmp_path: Path
) -> None:
    folder = make_store(tmp_path / "store", chunk_bytes=300 * KIB, containers=1)
    bucket, raw = new_bucket(versitygw)
    values = yaml.safe_load((folder / "siltstone.yaml").read_text(encoding="utf-8"))
    values["long_term_storage"] = {"binding": "s3", "s3": options(versitygw, bucket)}
    new = folder / "new.yaml"
    new.write_text(yaml.safe_dump(values), encoding="utf-8")
    with siltstone.open(folder) as store:
        store.create("a").append(noise(MIB))
        store.flush()
        copied = copy_storage(folder, new)
        store.segment("a").append(noise(10_000))
        expected = content(store)
    assert copied.size >= MIB
    report = switch_storage(folder, new)
    assert report.copied_bytes < MIB
    assert content_of(folder) == expected
    with siltstone.open(folder) as store:
        store.flush()
        store.segment("a").append(b"more")
        expected = content(store)
    assert content_of(folder) == expected
    # From the bucket into a folder, segment by segment.
    target = make_store(tmp_path / "target", containers=1)
    with store_view(folder) as view, owned_store(target) as owned:
        assert {one.status for one in copy(view, owned, LocalExecutor(2), view.segments())} == {OK}
    assert content_of(target)["a"].data == expected["a"].data
    assert raw.keys("stores/one/system/store") == ["stores/one/system/store"]


@pytest.mark.usefixtures("variables")
def test_collections_go_with_their_store_to_a_bucket_and_are_copied_from_there(
    versitygw: S3Server, tmp_path: Path
) -> None:
    folder = store_with_histories(tmp_path / "store")
    bucket, raw = new_bucket(versitygw)
    values = yaml.safe_load((folder / "siltstone.yaml").read_text(encoding="utf-8"))
    values["long_term_storage"] = {"binding": "s3", "s3": options(versitygw, bucket)}
    new = folder / "new.yaml"
    new.write_text(yaml.safe_dump(values), encoding="utf-8")
    before = history(folder)
    copy_storage(folder, new)
    switch_storage(folder, new)
    assert history(folder) == before
    with siltstone.open_collections(folder) as collections:
        collections.collection("ages").append(table(4_000, 8_000))
    before = history(folder)
    executor = Seeing()
    target = make_store(tmp_path / "target", containers=1)
    another = options(versitygw, new_bucket(versitygw)[0])
    back = siltstone.init(tmp_path / "back", binding="s3", options=another).parent
    for source, other in ((folder, target), (target, back)):
        found = list(copy_collections(source, other, executor, CollectionCopies()))
        assert {one.status for one in found} == {OK}
        assert history(other) == before
    assert versitygw.secret.encode() not in executor.seen
    assert versitygw.key_id.encode() not in executor.seen
    assert [key for key in raw.keys("stores/one/collections/") if key.endswith(".parquet")]
