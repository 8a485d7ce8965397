"""A store's chunks, copied by any other program, are the store on any other service.

The tier-1 log stays where it is. Names of chunks and all metadata are the same everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

import siltstone
from services.azurite import Azurite
from services.hdfs import Hdfs
from services.s3_server import S3Server
from siltstone.bindings.memory.bucket import forget_bucket, shared_bucket
from siltstone.testing.chunk_storage_contract import ChunkService
from tests.support.services.azure_services import AzureService
from tests.support.services.azure_services import options_of as options_of_azure
from tests.support.services.gcs_services import on_stub
from tests.support.services.local_services import BucketService, FolderService
from tests.support.services.s3_services import S3Service, options_of
from tests.support.stubs.gcs_stub import Stub
from tests.support.stubs.gcs_stub_server import serving

PAIRS = [
    ("nfs", "nfs"), ("nfs", "memory"), ("memory", "nfs"), ("nfs", "s3"), ("s3", "nfs"),
    ("memory", "s3"), ("s3", "memory"), ("nfs", "write-once memory"), ("nfs", "gcs"),
    ("gcs", "nfs"), ("nfs", "azure"), ("nfs", "hdfs"), ("hdfs", "nfs"), ("s3", "hdfs"),
]  # fmt: skip
"""From where to where; a store then goes back."""

SERVICES = {"s3", "gcs", "azure", "hdfs"}


def marks_of(pair: tuple[str, str]) -> list[pytest.MarkDecorator]:
    return [] if SERVICES.isdisjoint(pair) else [pytest.mark.services]


CASES = [pytest.param(*pair, id=" to ".join(pair), marks=marks_of(pair)) for pair in PAIRS]


@dataclass(frozen=True)
class Place:
    """Where chunks can lie: the settings of its binding, and a view without the binding."""

    binding: str
    options: dict[str, Any]
    service: ChunkService


@pytest.fixture
def stubs() -> Iterator[ExitStack]:
    """Ends the servers of stubs."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def new_place(
    tmp_path: Path, request: pytest.FixtureRequest, stubs: ExitStack
) -> Callable[[str], Place]:
    """Makes a new, empty place of a kind."""
    made: list[str] = []

    def make(kind: str) -> Place:
        made.append(kind)
        name = f"{kind}-{len(made)}"
        if kind == "nfs":
            folder = tmp_path / name
            return Place("nfs", {"path": str(folder)}, FolderService(root=folder))
        if kind.endswith("memory"):
            name = f"{tmp_path}-{name}"
            request.addfinalizer(lambda: forget_bucket(name))
            options = {"name": name, "append": kind == "memory"}
            return Place("memory", options, BucketService(bucket=shared_bucket(name)))
        if kind == "gcs":
            request.getfixturevalue("gcs_plugin")
            stub = stubs.enter_context(serving()).use(Stub())
            options = {"endpoint": stub.endpoint, "insecure": True, "anonymous": True}
            return Place("gcs", options | {"bucket": stub.bucket}, on_stub(stub))
        if kind == "azure":
            request.getfixturevalue("azure_plugin")
            azurite = request.getfixturevalue("azurite")
            assert isinstance(azurite, Azurite)
            blobs = AzureService(server=azurite)
            return Place("azure", options_of_azure(azurite, blobs.container), blobs)
        if kind == "hdfs":
            request.getfixturevalue("hdfs_plugin")
            namenode = request.getfixturevalue("hdfs")
            assert isinstance(namenode, Hdfs)
            from tests.support.services import hdfs_services  # where its SDK is not installed, too

            files = hdfs_services.HdfsService(server=namenode)
            return Place("hdfs", hdfs_services.options_of(namenode, files.path), files)
        request.getfixturevalue("s3_plugin")
        server = request.getfixturevalue("versitygw")
        assert isinstance(server, S3Server)
        service = S3Service(server=server)
        return Place("s3", options_of(server, service.bucket), service)

    return make


def switch(file: Path, place: Place) -> None:
    """Name another place in the settings, and change nothing else."""
    values = yaml.safe_load(file.read_text(encoding="utf-8"))
    values["long_term_storage"] = {"binding": place.binding, place.binding: place.options}
    file.write_text(yaml.safe_dump(values), encoding="utf-8")


def copy(source: Place, target: Place) -> None:
    """Copy every chunk under its name, as any other program would."""
    for name in source.service.outside_names():
        content = source.service.outside_read(name)
        assert content is not None
        target.service.outside_write(name, content)


def everything(place: Place) -> dict[str, bytes | None]:
    return {name: place.service.outside_read(name) for name in place.service.outside_names()}


@pytest.mark.parametrize(("first", "second"), CASES)
def test_a_copied_store_opens_elsewhere_and_continues(
    tmp_path: Path, new_place: Callable[[str], Place], first: str, second: str
) -> None:
    home, away, back = new_place(first), new_place(second), new_place(first)
    file = siltstone.init(tmp_path / "store", binding=home.binding, options=home.options)
    wanted = {f"d/segment {number}": b"" for number in range(5)}

    def write(word: bytes, *, flushed: bool) -> None:
        for name in wanted:
            data = word * 3_000 + name.encode()
            store.segment(name).append(data)
            wanted[name] += data
        store.table("t").put(word, b"value of " + word)
        if flushed:
            store.flush()

    def check(*words: bytes) -> None:
        assert sorted(info.name for info in store.list()) == sorted(wanted)
        for name, data in wanted.items():
            assert store.segment(name).read(0, len(data) + 1) == data
        found = {key: entry.value for key, entry in store.table("t").scan()}
        assert found == {word: b"value of " + word for word in words}
        assert not [one for one in store.check(deep=True) if one.severity == "damage"]

    with siltstone.open(file) as store:
        for name in wanted:
            store.create(name)
        store.create_table("t")
        write(b"flushed at home", flushed=True)
        write(b"in tier 1 only", flushed=False)
    copy(home, away)
    assert everything(away) == everything(home)
    left_over = everything(home)

    switch(file, away)
    with siltstone.open(file) as store:
        check(b"flushed at home", b"in tier 1 only")
        write(b"flushed away", flushed=True)
        check(b"flushed at home", b"in tier 1 only", b"flushed away")
        write(b"not flushed away", flushed=False)
    assert everything(home) == left_over

    copy(away, back)
    switch(file, back)
    with siltstone.open(file, read_only=True) as store:
        assert store.segment("d/segment 4").read(0, 10**6) == wanted["d/segment 4"]
    with siltstone.open(file) as store:
        check(b"flushed at home", b"in tier 1 only", b"flushed away", b"not flushed away")
        store.segment("d/segment 0").truncate(100)
        store.flush()
        assert store.segment("d/segment 0").read(100, 50) == wanted["d/segment 0"][100:150]
