"""Objects in place as an application uses them: several containers, a bucket, manifests."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

import siltstone
from services.s3_server import S3Server
from siltstone import ImportedChunk, ImportOutput, Store
from siltstone.core.errors import CapabilityError, StoreError
from siltstone.core.records.file_manifest import decode_file_manifest
from siltstone.migration.files.import_files import ImportChoices, import_files
from siltstone.migration.files.import_plan import local_root, plan_files, plan_objects
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.scrub import SHORT, UNVERIFIED, scrub
from siltstone.pipelines.store_view import store_view
from siltstone.store.store_assembly import storage_of
from tests.support.services.s3_services import new_bucket, options_of

DATA = bytes(range(256)) * 2_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store with a foreign object in its long-term storage."""
    siltstone.init(tmp_path / "store", containers=2)
    (tmp_path / "store" / "chunks" / "old").mkdir()
    (tmp_path / "store" / "chunks" / "old" / "a").write_bytes(DATA)
    return tmp_path / "store"


def names_of_both(store: Store) -> tuple[str, str]:
    """One segment name for each container."""
    names = {store.container_index(name): name for name in "abcdefgh"}
    return names[0], names[1]


def adopt(store: Store, segment: str, *, sums: tuple[int, ...] | None = None) -> None:
    chunk = ImportedChunk(name="old/a", length=len(DATA), sums=sums)
    ticket = store.open_import(f"job {segment}", segment, adoption="mine")
    assert ticket.adoption == "mine"
    store.commit_import(ticket, [ImportOutput(segment=segment, chunks=(chunk,))])


@pytest.mark.slow
def test_an_object_is_a_chunk_of_one_container(folder: Path) -> None:
    with siltstone.open(folder) as store:
        first, second = names_of_both(store)
        adopt(store, first)
        with pytest.raises(siltstone.ImportSessionError, match="already") as caught:
            adopt(store, second)
        assert "old/a" in str(caught.value)
        store.segment(first).delete()
        assert store.release_adoption("mine").released == 1
        adopt(store, second)
        assert store.segment(second).read(0, len(DATA)) == DATA
        (found,) = store.adoptions()
        assert (found.container, found.chunks, found.length) == (1, 1, len(DATA))


@pytest.mark.slow
def test_an_owner_without_all_containers_takes_nothing_in_place(folder: Path) -> None:
    with siltstone.open(folder) as store:
        first, _ = names_of_both(store)
    with siltstone.open(folder, containers=[0]) as store:
        with pytest.raises(StoreError, match="not open here"):
            adopt(store, first)
        assert [*store.list()] == []


@pytest.mark.slow
def test_a_reader_shows_adoptions_and_changes_none(folder: Path) -> None:
    with siltstone.open(folder) as store:
        adopt(store, "a")
    with siltstone.open(folder, read_only=True) as store:
        assert [one.name for one in store.adoptions()] == ["mine"]
        assert store.segment("a").read(0, len(DATA)) == DATA
        for refused in (store.finalise_adoption, store.release_adoption, store.record_sums):
            with pytest.raises(siltstone.ReadOnlyError):
                refused("mine")


@pytest.mark.slow
def test_manifests_show_unverified_bytes_only_if_asked(folder: Path) -> None:
    with siltstone.open(folder) as store:
        adopt(store, "a")
        with pytest.raises(CapabilityError, match="have no sums"):
            store.publish_files(["a"])
        published = store.publish_files(["a"], verify=False)
        raw = (folder / "chunks" / published.name).read_bytes()
        manifest = decode_file_manifest(raw, where="manifest")
        assert not manifest.head.verify
        (run,) = manifest.files[0].runs
        assert (run.length, run.sums) == (len(DATA), (0, 0))
        assert manifest.chunks[0].uri.endswith("/old/a")
        assert store.record_sums("a") == len(DATA)
        store.publish_files(["a"])


@pytest.mark.slow
def test_a_scrub_says_what_it_could_not_verify(folder: Path) -> None:
    with siltstone.open(folder) as store:
        adopt(store, "a")

    def told() -> set[tuple[str, str]]:
        with store_view(folder) as view, closing(LocalExecutor(1)) as executor:
            return {(o.subject, o.status) for o in scrub(view, executor) if "old" in o.subject}

    assert told() == {("old/a", UNVERIFIED)}
    (folder / "chunks" / "old" / "a").write_bytes(DATA[1:])
    assert told() == {("old/a", SHORT)}


@pytest.mark.slow
@pytest.mark.usefixtures("s3_plugin")
def test_objects_of_a_bucket_are_taken_in_place(versitygw: S3Server, tmp_path: Path) -> None:
    bucket, _ = new_bucket(versitygw)
    siltstone.init(tmp_path, binding="s3", options=options_of(versitygw, bucket))
    settings = tmp_path / "siltstone.yaml"
    settings.write_text(settings.read_text() + "\ngarbage:\n  delay: 0s\n")
    objects = {f"old/{number}": DATA[number:] for number in range(3)}
    with closing(storage_of(tmp_path)) as storage:
        assert local_root(storage) is None
        for name, data in objects.items():
            storage.create(name, [data])
        planned = plan_objects("x/{path}", storage, ["old/"])
    with siltstone.open(tmp_path) as store:
        for verify, some in ((True, planned[:2]), (False, planned[2:])):
            choices = ImportChoices(adoption="files", verify=verify)
            list(import_files(store, tmp_path, some, choices))
        for number in range(3):
            assert store.segment(f"x/{number}").read(0, len(DATA)) == objects[f"old/{number}"]
        assert [f.severity for f in store.check() if f.severity != "info"] == ["warning"]
        store.segment("x/0").delete()
        store.flush()
        store.collect()
        with closing(storage_of(tmp_path)) as storage:
            assert [found.name for found in storage.list("old/")] == sorted(objects)
            assert not list(storage.list("import/"))
        store.finalise_adoption("files")
        store.flush()
        store.collect()
        with closing(storage_of(tmp_path)) as storage:
            assert [found.name for found in storage.list("old/")] == ["old/1", "old/2"]


@pytest.mark.slow
def test_files_are_imported_from_python(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_bytes(DATA)
    planned = plan_files("logs/{path}", [tmp_path / "in"])
    with siltstone.open(folder) as store:
        (made,) = import_files(store, folder, planned, ImportChoices(seal=True))
        assert (made.segment, made.length, made.files) == ("logs/a", len(DATA), 1)
        assert store.segment("logs/a").info().sealed
