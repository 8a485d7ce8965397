"""One Spark session for all tests, and one store with a small chunk size.

Without the Spark set nothing here can be imported; ``tests/unit/spark/test_packages.py`` tells.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import siltstone
from services.catalogue import LIBRARIES
from services.unavailable import UnavailableError
from tests.support.spark.packages import missing_packages

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

collect_ignore_glob = ["test_*.py"] if missing_packages() else []

CHUNK_BYTES = 64


def connector_jars() -> list[str]:
    """The jars of Hadoop's connector to S3, if they were fetched."""
    try:
        folder = LIBRARIES["hadoop-aws"].installed()
    except UnavailableError:
        return []
    return [] if folder is None else sorted(map(str, folder.glob("*.jar")))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Two tasks at a time, three attempts for each."""
    from siltstone.spark import session
    from siltstone.spark.jvm import JarError, build_jar

    # Without javac the tests of silt:// are skipped.
    with suppress(JarError):
        build_jar()
    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
        # A run of minutes is not worth the best code, nor a thread that makes it.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.extraClassPath": ":".join(connector_jars()),
        # Tests let tasks fail, and every attempt would print its trace.
        "spark.log.level": "OFF",
    }
    made = session(master="local[2,3]", name="siltstone-tests", settings=settings)
    yield made
    made.stop()


@pytest.fixture(scope="session")
def silt(spark: SparkSession) -> None:
    """The jar of ``silt://``, which CI compiles."""
    from siltstone.spark.jvm import JarError, find_jar

    try:
        find_jar()
    except JarError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a store with two containers, whose chunks roll over every few lines."""
    path = tmp_path_factory.mktemp("store")
    settings = siltstone.init(path, containers=2)
    with settings.open("a", encoding="utf-8") as file:
        file.write(f"\nsegments:\n  chunk_size: {CHUNK_BYTES}\nflush:\n  age: 1h\n")
    return path


@pytest.fixture(scope="session")
def store(folder: Path) -> Iterator[siltstone.Store]:
    """The store, open for writing while Spark reads."""
    with siltstone.open(folder) as opened:
        yield opened


@pytest.fixture
def segment(store: siltstone.Store, request: pytest.FixtureRequest) -> siltstone.Segment:
    """A new, empty segment."""
    return store.create(str(request.node.name))


Sizes = Callable[[int], None]


@pytest.fixture
def sizes(spark: SparkSession) -> Iterator[Sizes]:
    """Set the bytes of one partition of Spark's file readers, until the test ends."""
    key = "spark.sql.files.maxPartitionBytes"
    before = spark.conf.get(key)
    yield lambda size: spark.conf.set(key, str(size))
    spark.conf.set(key, str(before))


Load = Callable[..., "DataFrame"]


@pytest.fixture
def load(spark: SparkSession, folder: Path, segment: siltstone.Segment) -> Load:
    """Load the test's segment with some options; ``schema`` is the user's."""

    def loaded(schema: str | None = None, **options: object) -> DataFrame:
        reader = spark.read.format("siltstone")
        for name, value in {"store": folder, "segment": segment.name, **options}.items():
            reader = reader.option(name.rstrip("_"), str(value))
        return (reader if schema is None else reader.schema(schema)).load()

    return loaded


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a store that no process owns."""
    path = tmp_path_factory.mktemp("collections")
    siltstone.init(path, containers=1)
    return path


@pytest.fixture(scope="module")
def collections(place: Path) -> Iterator[siltstone.Collections]:
    """Its collections, which nothing compacts by itself."""
    from siltstone.collections.place import CollectionSettings

    settings = CollectionSettings(garbage_delay_ms=0, compacts=False)
    with siltstone.open_collections(place, settings=settings) as opened:
        yield opened


@pytest.fixture
def gusts(
    collections: siltstone.Collections, request: pytest.FixtureRequest
) -> siltstone.Collection:
    """A collection of the test's own."""
    from tests.support.spark.collection_world import GUSTS

    return collections.create(str(request.node.name), GUSTS, key=["station"], times="count")
