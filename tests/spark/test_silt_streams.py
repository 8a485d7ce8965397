"""Streams, folders and refusals of ``silt://``, below Spark, against bytes in memory."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

import siltstone
from siltstone.core.constants import BLOCK_BYTES
from siltstone.core.records.file_manifest import decode_file_manifest
from siltstone.spark import files
from tests.spark.hadoop import Hadoop

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("silt"),
]

CHUNK = 600_000
DATA = random.Random(1).randbytes(2_000_003)


@pytest.fixture(scope="module")
def hadoop(spark: SparkSession) -> Hadoop:
    return Hadoop(spark)


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose chunks hold some blocks each, and a segment over several of them."""
    folder = tmp_path_factory.mktemp("wide")
    settings = siltstone.init(folder)
    with settings.open("a", encoding="utf-8") as file:
        file.write(f"\nsegments:\n  chunk_size: {CHUNK}\n")
    with siltstone.open(folder) as store:
        segment = store.create("data")
        for begin in range(0, len(DATA), 70_001):
            segment.append(DATA[begin : begin + 70_001])
        segment.flush()
        segment.truncate(1_003)
        store.create("empty")
    return folder


def chunk_paths(folder: Path, segment: str) -> list[Path]:
    with siltstone.open(folder, read_only=True) as store:
        return [folder / "chunks" / one.chunk for one in store.segment(segment).chunks()]


@pytest.mark.parametrize("verify", [True, False], ids=["verified", "plain"])
def test_reads_at_any_place_and_of_any_length(
    spark: SparkSession, hadoop: Hadoop, wide: Path, verify: bool
) -> None:
    data = DATA[1_003:]
    (path,) = files(spark, wide, "data", verify=verify)
    assert hadoop.read(path) == data
    (older,) = files(spark, wide, "data", verify=verify, at=1_500_000)
    assert hadoop.read(older) == DATA[1_003:1_500_000]
    chance = random.Random(2)
    stream = hadoop.open(path)
    edges = [CHUNK - 1_003, BLOCK_BYTES - 1_003, len(data)]
    for _ in range(60):
        near = chance.choice([*edges, chance.randrange(len(data))]) + chance.randint(-3, 3)
        begin = min(max(0, near), len(data))
        count = chance.choice([0, 1, 5, 70_000, 700_000])
        stream.seek(begin)
        assert bytes(stream.readNBytes(count)) == data[begin : begin + count]
        assert stream.getPos() == min(begin + count, len(data))
        if chance.random() < 0.2:
            stream.unbuffer()
    stream.seek(len(data))
    assert stream.read() == -1
    for wrong in (-1, len(data) + 1):
        with pytest.raises(Py4JJavaError, match=r"EOFException|IOException"):
            stream.seek(wrong)
    stream.close()
    stream.close()
    with pytest.raises(Py4JJavaError, match="is closed"):
        stream.read()


@pytest.mark.parametrize("foreign", [False, True], ids=["local", "foreign"])
@pytest.mark.parametrize("verify", [True, False], ids=["verified", "plain"])
def test_several_ranges_in_one_call(
    spark: SparkSession, hadoop: Hadoop, wide: Path, verify: bool, foreign: bool
) -> None:
    data = DATA[1_003:]
    (path,) = files(spark, wide, "data", verify=verify)
    stream = hadoop.open(path, foreign=foreign)
    stream.seek(17)
    assert stream.hasCapability("in:readvectored")
    chance = random.Random(3)
    for direct in (False, True):
        cuts = sorted(chance.sample(range(len(data)), 16))
        inside = [(begin, end - begin) for begin, end in zip(cuts[::2], cuts[1::2], strict=True)]
        over = (CHUNK - 1_003 - 10, 20)
        touching = [(50, 50), (100, 7), (BLOCK_BYTES, 1), (BLOCK_BYTES + 1, 3)]
        for ranges in (inside, [over], touching, [(0, len(data))], [(5, 0)], []):
            chance.shuffle(ranges)
            found = hadoop.read_ranges(stream, ranges, direct=direct)
            assert found == [data[at : at + count] for at, count in ranges]
    for wrong in ((len(data) - 1, 2), (2**63 - 1, 1), (2**63 - 2**31, 2**31 - 1)):
        with pytest.raises(Py4JJavaError, match="ends beyond the file"):
            hadoop.read_ranges(stream, [wrong])
    assert bytes(stream.readNBytes(3)) == data[17:20]
    stream.close()


def test_folders_lengths_and_places(spark: SparkSession, hadoop: Hadoop, wide: Path) -> None:
    with siltstone.open(wide) as store:
        for name in ("f/a", "f/a/1", "f/b/1", "f0", "f-"):
            store.create(name, exist_ok=True)
        paths = files(spark, store, "", match="prefix")
    root = paths[0][: paths[0].index(".silt") + len(".silt")]
    size = len(DATA) - 1_003
    assert sorted(hadoop.listed(root)) == [
        ("data", size, False),
        ("empty", 0, False),
        ("f", 0, True),
        ("f-", 0, False),
        ("f0", 0, False),
    ]
    assert sorted(hadoop.listed(f"{root}/f")) == [("a", 0, True), ("a~", 0, False), ("b", 0, True)]
    assert hadoop.listed(f"{root}/data") == [("data", size, False)]
    assert hadoop.read(f"{root}/empty") == b""
    system = hadoop.file_system(root)
    status = system.getFileStatus(hadoop.path(f"{root}/data"))
    (place,) = system.getFileBlockLocations(status, 100, size)
    assert (place.getOffset(), place.getLength()) == (100, size - 100)
    assert list(place.getHosts()) == ["localhost"]
    (place,) = system.getFileBlockLocations(status, CHUNK, size)
    assert (place.getOffset(), place.getLength()) == (CHUNK, size - CHUNK)
    assert not list(system.getFileBlockLocations(status, size, 1))
    for missing in ("nobody", "f/nobody", "dat"):
        assert not system.exists(hadoop.path(f"{root}/{missing}"))
        with pytest.raises(Py4JJavaError, match="FileNotFoundException"):
            hadoop.open(f"{root}/{missing}")
    for folder in (root, f"{root}/f"):
        with pytest.raises(Py4JJavaError, match="is a folder"):
            hadoop.open(folder)


def test_every_write_is_refused(spark: SparkSession, hadoop: Hadoop, wide: Path) -> None:
    (path,) = files(spark, wide, "data")
    system, here = hadoop.file_system(path), hadoop.path(path)
    other = hadoop.path(f"{path}2")
    writes: list[Callable[[], object]] = [
        lambda: system.create(here),
        lambda: system.append(here),
        lambda: system.rename(here, other),
        lambda: system.delete(here, False),
        lambda: system.mkdirs(other),
    ]
    for write in writes:
        with pytest.raises(Py4JJavaError, match="silt:// is read-only"):
            write()
    with pytest.raises(Exception, match="read-only"):
        spark.range(1).selectExpr("'x' value").write.text(f"{path}-out")
    assert hadoop.read(path) == DATA[1_003:]


@pytest.mark.parametrize("how", ["stream", "vectored", "vectored foreign"])
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("gone", "chunk does not exist any more"),
        ("short", "chunk is shorter than the"),
        ("changed", "block does not match its sum"),
    ],
)
def test_a_chunk_that_is_not_as_it_was_is_named(
    spark: SparkSession, hadoop: Hadoop, tmp_path: Path, damage: str, said: str, how: str
) -> None:
    settings = siltstone.init(tmp_path)
    with settings.open("a", encoding="utf-8") as file:
        file.write(f"\nsegments:\n  chunk_size: {CHUNK}\n")
    with siltstone.open(tmp_path) as store:
        segment = store.create("a")
        segment.append(DATA[: 2 * CHUNK])
        segment.flush()
    first, second = chunk_paths(tmp_path, "a")
    (path,) = files(spark, tmp_path, "a")
    second.chmod(0o644)
    if damage == "gone":
        second.unlink()
    elif damage == "short":
        second.write_bytes(second.read_bytes()[:-1])
    else:
        raw = bytearray(second.read_bytes())
        raw[BLOCK_BYTES + 5] ^= 1
        second.write_bytes(raw)
    stream = hadoop.open(path, foreign="foreign" in how)
    assert bytes(stream.readNBytes(first.stat().st_size)) == DATA[: first.stat().st_size]
    ranges = [(0, 10), (2 * CHUNK - 10, 10), (CHUNK + BLOCK_BYTES, 9)]
    with pytest.raises(Py4JJavaError) as caught:
        _ = hadoop.read_ranges(stream, ranges) if "vectored" in how else stream.readAllBytes()
    text = str(caught.value)
    assert said in text
    assert "segment=a offset=" in text
    assert f"chunk=file:{second}" in text
    assert "FileNotFoundException: segment" not in text
    stream.close()


def test_without_verification_only_the_length_counts(
    spark: SparkSession, hadoop: Hadoop, tmp_path: Path
) -> None:
    siltstone.init(tmp_path)
    with siltstone.open(tmp_path) as store:
        store.create("a").append(b"abcdef")
        store.flush()
    (chunk,) = chunk_paths(tmp_path, "a")
    (path,) = files(spark, tmp_path, "a", verify=False)
    chunk.chmod(0o644)
    chunk.write_bytes(b"abXdef and more")
    assert hadoop.read(path) == b"abXdef"


def test_a_manifest_that_expired_is_gone_or_damaged_is_told(
    spark: SparkSession, hadoop: Hadoop, wide: Path
) -> None:
    (path,) = files(spark, wide, "data", ttl="1ms")
    looks: list[Callable[[], object]] = [
        lambda: hadoop.open(path),
        lambda: spark.read.text(path).count(),
    ]
    for look in looks:
        with pytest.raises(Exception, match=r"file manifest expired at 20.*make a new one"):
            look()

    def manifest_of(path: str) -> Path:
        return Path(path.removeprefix("silt://file").partition(".silt")[0] + ".silt")

    (path,) = files(spark, wide, "data")
    file = manifest_of(path)
    assert decode_file_manifest(file.read_bytes(), where="x").files[0].segment == "data"
    file.unlink()
    with pytest.raises(Exception, match="file manifest is gone"):
        spark.read.text(path)
    changes: list[tuple[Callable[[bytes], bytes], str]] = [
        (lambda raw: raw[:50], "not a file manifest"),
        (lambda raw: raw[:9] + b"\xff" + raw[10:], "head of the file manifest does not match"),
        (lambda raw: raw[:-1] + b"\xff\xff", "body of the file manifest does not match"),
        (lambda raw: raw[:4] + b"\x02" + raw[5:], "version 2"),
    ]
    for change, said in changes:
        (path,) = files(spark, wide, "data")
        file = manifest_of(path)
        raw = file.read_bytes()
        file.chmod(0o644)
        file.write_bytes(change(raw))
        with pytest.raises(Py4JJavaError, match=said):
            hadoop.open(path)


def test_the_page_of_the_format_is_read_by_java(hadoop: Hadoop, tmp_path: Path) -> None:
    """What Python wrote for the page, Java takes apart, but for its time."""
    from siltstone.core.checksums import crc32c
    from tests.support.docs.format_page import example

    raw = bytearray(example("file-manifest.md"))
    raw[12:20] = (2**62).to_bytes(8, "little")
    raw[56:60] = crc32c(raw[:56]).to_bytes(4, "little")
    (tmp_path / "page.silt").write_bytes(raw)
    root = f"silt://file{tmp_path}/page.silt"
    assert hadoop.listed(f"{root}/flights") == [("2013", 12, False)]
