"""Mistakes of callers, as one table: each has its typed error, and nothing is changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

import siltstone
from siltstone import (
    AppendTooLargeError,
    OffsetError,
    Segment,
    SegmentExistsError,
    SegmentNameError,
    SegmentNotFoundError,
    SegmentSealedError,
    SegmentTruncatedError,
    Store,
    TableExistsError,
    TableNotFoundError,
)

GIB = 2**30

Case = tuple[type[Exception], Callable[[Store, Segment], object]]

ANY: Any = None

CASES: dict[str, Case] = {
    "read an unknown segment": (SegmentNotFoundError, lambda s, g: s.segment("?").read(0, 1)),
    "append to an unknown segment": (
        SegmentNotFoundError,
        lambda s, g: s.segment("?").append(b""),
    ),
    "delete an unknown segment": (SegmentNotFoundError, lambda s, g: s.segment("?").delete()),
    "follow an unknown segment": (
        SegmentNotFoundError,
        lambda s, g: next(s.segment("?").follow()),
    ),
    "create an existing segment": (SegmentExistsError, lambda s, g: s.create(g.name)),
    "create an existing table": (TableExistsError, lambda s, g: s.create_table("t")),
    "read an unknown table": (TableNotFoundError, lambda s, g: s.table("no").get(b"k")),
    "change an unknown table": (TableNotFoundError, lambda s, g: s.table("no").put(b"k", b"v")),
    "append elsewhere": (OffsetError, lambda s, g: g.append(b"x", expected_offset=3)),
    "append many elsewhere": (OffsetError, lambda s, g: g.append_many([b"x"], expected_offset=3)),
    "append nothing elsewhere": (OffsetError, lambda s, g: g.append(b"", expected_offset=3)),
    "read before the start": (SegmentTruncatedError, lambda s, g: g.read(0, 1)),
    "read past the end": (OffsetError, lambda s, g: g.read(11, 1)),
    "follow from past the end": (OffsetError, lambda s, g: next(g.follow(11))),
    "truncate past the end": (OffsetError, lambda s, g: g.truncate(11)),
    "read at a negative offset": (ValueError, lambda s, g: g.read(-1, 1)),
    "read a negative length": (ValueError, lambda s, g: g.read(4, -1)),
    "read over a gibibyte": (ValueError, lambda s, g: g.read(4, GIB + 1)),
    "read at a fraction": (TypeError, lambda s, g: g.read(4.0, 1)),  # type: ignore[arg-type]
    "read at true": (TypeError, lambda s, g: g.read(4, True)),
    "truncate to a negative offset": (ValueError, lambda s, g: g.truncate(-1)),
    "ask for a time without a zone": (
        ValueError,
        lambda s, g: g.offset_at(datetime(2026, 1, 2, tzinfo=UTC).replace(tzinfo=None)),
    ),
    "ask for a time before 1970": (ValueError, lambda s, g: g.offset_at(-1.0)),
    "ask for no time": (ValueError, lambda s, g: g.offset_at(float("nan"))),
    "ask for no time at all": (TypeError, lambda s, g: g.offset_at(ANY)),
    "follow from a negative offset": (ValueError, lambda s, g: next(g.follow(-1))),
    "append text": (TypeError, lambda s, g: g.append("text")),  # type: ignore[arg-type]
    "append nothing at all": (TypeError, lambda s, g: g.append(ANY)),
    "append many texts": (TypeError, lambda s, g: g.append_many(["a"])),  # type: ignore[list-item]
    "append many as one": (TypeError, lambda s, g: g.append_many(b"abc")),  # type: ignore[arg-type]
    "append a path as a stream": (TypeError, lambda s, g: g.append_from("/etc/hosts")),  # type: ignore[arg-type]
    "append bytes as a stream": (TypeError, lambda s, g: g.append_from(b"abc")),  # type: ignore[arg-type]
    "join what has no name": (TypeError, lambda s, g: g.concat(5)),  # type: ignore[arg-type]
    "a writer without a text": (TypeError, lambda s, g: g.writer(5)),  # type: ignore[arg-type]
    "append over a frame": (AppendTooLargeError, lambda s, g: g.append(bytes(2**23))),
    "append many over a frame": (
        AppendTooLargeError,
        lambda s, g: g.append_many([bytes(2**22)] * 2),
    ),
    "append nothing once": (ValueError, lambda s, g: g.writer("w").append(b"", sequence=0)),
    "append at a negative sequence": (
        ValueError,
        lambda s, g: g.writer("w").append(b"x", sequence=-1),
    ),
    "register a writer without a name": (ValueError, lambda s, g: g.writer("")),
    "read into what is read-only": (TypeError, lambda s, g: g.read_into(4, b"x")),
    "an empty name": (SegmentNameError, lambda s, g: s.segment("")),
    "a long name": (SegmentNameError, lambda s, g: s.segment("x" * 1025)),
    "a name with NUL": (SegmentNameError, lambda s, g: s.segment("a\0b")),
    "a reserved name": (SegmentNameError, lambda s, g: s.segment("_system/x")),
    "a name of bytes": (TypeError, lambda s, g: s.segment(b"x")),  # type: ignore[arg-type]
    "a reserved table": (SegmentNameError, lambda s, g: s.table("_system/x")),
    "a key of text": (TypeError, lambda s, g: s.table("t").get("k")),  # type: ignore[arg-type]
    "a value of text": (TypeError, lambda s, g: s.table("t").put(b"k", "v")),  # type: ignore[arg-type]
    "a long key": (ValueError, lambda s, g: s.table("t").put(bytes(65536), b"")),
    "no change": (ValueError, lambda s, g: s.table("t").update({})),
    "seal what is unknown": (SegmentNotFoundError, lambda s, g: s.segment("?").seal()),
    "concat with itself": (ValueError, lambda s, g: g.concat(g)),
}


@pytest.fixture(scope="module")
def target(store: Store) -> Segment:
    """A segment of ten bytes of which the first four are truncated."""
    store.create_table("t")
    segment = store.create("target")
    segment.append(b"0123456789")
    segment.truncate(4)
    return segment


@pytest.mark.parametrize("case", CASES)
def test_each_mistake_has_its_error(store: Store, target: Segment, case: str) -> None:
    before = target.info()
    kind, verb = CASES[case]
    with pytest.raises(kind) as caught:
        verb(store, target)
    assert type(caught.value) is kind or kind in (ValueError, TypeError)
    assert "\n" not in str(caught.value)
    after = target.info()
    assert replace(after, flushed_length=0) == replace(before, flushed_length=0)


def test_a_sealed_segment_takes_nothing(store: Store) -> None:
    segment = store.create("sealed")
    segment.append(b"x")
    segment.seal()
    for verb in (
        lambda: segment.append(b"x"),
        lambda: segment.append_many([b"x"]),
        lambda: segment.open("ab"),
        lambda: segment.writer("w").append(b"x", sequence=1),
    ):
        with pytest.raises(SegmentSealedError):
            verb()
    assert segment.seal().length == 1


def test_an_append_of_nothing_writes_nothing(store: Store) -> None:
    segment = store.create("empty")
    assert segment.append(b"") == 0
    segment.append(b"abc")
    log_end = [one.log_end for one in store.stats()]
    assert segment.append(b"") == 3
    assert segment.append(b"", expected_offset=3) == 3
    assert segment.append_many([]) == 3
    assert segment.append_many([b"", b""]) == 3
    assert [one.log_end for one in store.stats()] == log_end
    assert segment.info().length == 3


def test_errors_are_of_one_family() -> None:
    kinds = [getattr(siltstone, name) for name in siltstone.__all__ if name.endswith("Error")]
    assert all(issubclass(kind, siltstone.SiltstoneError) for kind in kinds)
