"""Any chunk layout, framing of records and size of splits, against plain Python on the same bytes.

Chunks and manifests are made by hand, so that runs of one byte, chunks that several runs share, and
records over many of them occur all the time. One JVM, that of the session, reads them through
``silt://`` and Hadoop's own reader of lines, below Spark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from shutil import rmtree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.spark.hadoop import Hadoop
from tests.spark.silt_layouts import Cut, lay_out, layouts
from tests.support.soak import share_of

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("silt"),
]

EXAMPLES = 40
SOAK_EXAMPLES = 4_000


@pytest.fixture(scope="module")
def hadoop(spark: SparkSession) -> Hadoop:
    return Hadoop(spark)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folders of their own, as Java keeps manifests by their names. One is there at a time."""
    base = tmp_path_factory.mktemp("layouts")

    def each() -> Iterator[Path]:
        for number in count():
            place = base / str(number)
            place.mkdir()
            yield place
            rmtree(place)

    return each()


# --- records --------------------------------------------------------------------------------------

SEPARATORS = [None, b"\n", b"\r\n", b"|;", b"\x00"]
"""``None``: a line ends with LF, CR, or both, as in ``spark.read.text``. Others: ``lineSep``.

None can overlap itself, such as ``||``: Hadoop mistakes its second half for another one where a
split begins there, in any file.
"""

pieces = st.sampled_from(
    [b"", b"a", b"bc", "ř".encode(), "🐎".encode(), b"x" * 40, b"|", b";", b"\r"]
)
any_ends = st.sampled_from([b"\n", b"\n", b"\r\n", b"\r"])


@st.composite
def texts(draw: st.DrawFn) -> tuple[bytes, bytes | None]:
    """Some records, and what separates them."""
    separator = draw(st.sampled_from(SEPARATORS))
    ends = any_ends if separator is None else st.just(separator)
    record = st.tuples(st.lists(pieces, max_size=3), ends)
    data = b"".join(b"".join(parts) + end for parts, end in draw(st.lists(record, max_size=12)))
    return data + draw(pieces), separator


def expected_records(data: bytes, separator: bytes | None) -> list[tuple[int, bytes]]:
    """Offset and value of each record."""
    pattern = rb"\r\n|\n|\r" if separator is None else re.escape(separator)
    found, begin = [], 0
    for match in re.finditer(pattern, data):
        found.append((begin, data[begin : match.start()]))
        begin = match.end()
    return found if begin == len(data) else [*found, (begin, data[begin:])]


@st.composite
def laid_out_texts(draw: st.DrawFn) -> tuple[bytes, bytes | None, list[Cut], int, int, bool]:
    data, separator = draw(texts())
    cuts = draw(layouts(len(data)))
    split = draw(st.integers(len(data) // 12 + 1, len(data) + 1))
    return data, separator, cuts, split, draw(st.integers(1, 64)), draw(st.booleans())


def records_of_any_layout(hadoop: Hadoop, places: Iterator[Path], examples: int) -> None:
    @settings(max_examples=examples)
    @given(laid_out_texts())
    def check(example: tuple[bytes, bytes | None, list[Cut], int, int, bool]) -> None:
        data, separator, cuts, split, buffer, verify = example
        path = lay_out(next(places), data, cuts, verify=verify)
        found = []
        for start in range(0, len(data), split):
            length = min(split, len(data) - start)
            found += hadoop.records(path, start, length, separator, buffer)
        assert found == expected_records(data, separator)

    check()


def test_records_of_any_layout(hadoop: Hadoop, places: Iterator[Path]) -> None:
    records_of_any_layout(hadoop, places, EXAMPLES)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_records_of_many_layouts(hadoop: Hadoop, places: Iterator[Path]) -> None:
    records_of_any_layout(hadoop, places, share_of(SOAK_EXAMPLES))


# --- bytes ----------------------------------------------------------------------------------------

Step = tuple[str, list[tuple[int, int]]]


@st.composite
def laid_out_reads(draw: st.DrawFn) -> tuple[bytes, list[Cut], list[Step], bool]:
    """Bytes, their layout, and what is read there: ranges ``(offset, length)`` by some call."""
    data = draw(st.binary(min_size=1, max_size=300))
    cuts = draw(layouts(len(data)))
    borders = [sum(cut.length for cut in cuts[:number]) for number in range(len(cuts) + 1)]
    near = st.sampled_from(borders) | st.integers(0, len(data))

    @st.composite
    def ranges(draw: st.DrawFn) -> tuple[int, int]:
        begin, end = sorted((draw(near), draw(near)))
        return begin, end - begin

    kinds = ["continue", "seek", "positioned", "vectored", "vectored direct", "unbuffer"]
    step = st.tuples(st.sampled_from(kinds), st.lists(ranges(), min_size=1, max_size=5))
    return data, cuts, draw(st.lists(step, min_size=1, max_size=8)), draw(st.booleans())


def read_by_steps(
    hadoop: Hadoop, path: str, data: bytes, steps: list[Step], *, foreign: bool
) -> None:
    stream, position = hadoop.open(path, foreign=foreign), 0
    for kind, ranges in steps:
        wanted = [data[at : at + length] for at, length in ranges]
        at, length = ranges[0]
        if kind == "continue":
            assert bytes(stream.readNBytes(length)) == data[position : position + length]
            position = min(len(data), position + length)
        elif kind == "seek":
            stream.seek(at)
            assert stream.available() == len(data) - at
            assert bytes(stream.readNBytes(length)) == wanted[0]
            position = at + length
        elif kind == "positioned":
            assert [hadoop.read_at(stream, *each) for each in ranges] == wanted
        elif kind == "unbuffer":
            stream.unbuffer()
        else:
            assert hadoop.read_ranges(stream, ranges, direct="direct" in kind) == wanted
        assert stream.getPos() == position
    stream.close()


def reads_of_any_layout(hadoop: Hadoop, places: Iterator[Path], examples: int) -> None:
    @settings(max_examples=examples)
    @given(laid_out_reads(), st.booleans())
    def check(example: tuple[bytes, list[Cut], list[Step], bool], foreign: bool) -> None:
        data, cuts, steps, verify = example
        path = lay_out(next(places), data, cuts, verify=verify)
        read_by_steps(hadoop, path, data, steps, foreign=foreign)

    check()


def test_reads_of_any_layout(hadoop: Hadoop, places: Iterator[Path]) -> None:
    reads_of_any_layout(hadoop, places, EXAMPLES)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_reads_of_many_layouts(hadoop: Hadoop, places: Iterator[Path]) -> None:
    reads_of_any_layout(hadoop, places, share_of(SOAK_EXAMPLES))
