"""Damaged or unusual layouts: what is imported, and what is refused for which reason."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.migration.legacy.examine import examine
from siltstone.migration.legacy.findings import ImportVerdict, LegacyFinding, Oddity, Reason
from siltstone.migration.legacy.names import LegacyLayoutError, Naming
from siltstone.migration.source.places import FolderPlace, StoragePlace
from tests.support.migration.places_of_tests import MemoryPlace, bytes_of, of_texts

TWO = {"a$header": "maxsize=3&0=a$offset.0&3=a$offset.3&", "a$offset.0": "abc", "a$offset.3": "de"}


def one(place: MemoryPlace, segment: str = "a") -> LegacyFinding:
    (found,) = (found for found in examine(place).segments if found.segment == segment)
    return found


def reason(files: Mapping[str, str | bytes], segment: str = "a") -> Reason | None:
    found = one(of_texts(files), segment)
    assert found.verdict is ImportVerdict.REFUSED
    assert found.message
    assert not found.pieces
    return found.reason


def oddities(found: LegacyFinding) -> set[Oddity]:
    return {note.oddity for note in found.notes}


def test_a_garbage_tail_is_left_out() -> None:
    place = of_texts({**TWO, "a$offset.0": "abcXX"}, "a$offset.0")
    found = one(place)
    assert (found.length, bytes_of(place, found)) == (5, b"abcde")
    assert oddities(found) == {Oddity.GARBAGE_TAIL}


def test_a_chunk_of_which_no_byte_counts_is_told() -> None:
    texts = {"a$header": "maxsize=3&0=x&0=a$offset.0&", "a$offset.0": "abc"}
    found = one(of_texts({**texts, "x": "XX"}))
    assert [piece.key for piece in found.pieces] == ["a$offset.0"]
    assert oddities(found) == {Oddity.GARBAGE_TAIL, Oddity.OPEN_CHUNK}
    found = one(of_texts({**texts, "x": ""}))
    assert Oddity.GARBAGE_TAIL not in oddities(found)


def test_lost_bytes_are_refused() -> None:
    assert reason({**TWO, "a$offset.0": "ab"}) is Reason.SHORT_CHUNK


def test_a_missing_last_chunk_is_refused() -> None:
    files = {key: data for key, data in TWO.items() if key != "a$offset.3"}
    assert reason(files) is Reason.MISSING_LAST_CHUNK


def test_a_chunk_missing_in_the_middle_is_refused() -> None:
    header = "maxsize=1&0=a$offset.0&1=a$offset.1&2=a$offset.2&"
    files = {"a$header": header, "a$offset.0": "x", "a$offset.2": "z"}
    assert reason(files) is Reason.MISSING_CHUNK


def test_a_missing_head_is_a_truncation() -> None:
    found = one(of_texts({key: data for key, data in TWO.items() if key != "a$offset.0"}))
    assert (found.start, found.length) == (3, 5)
    assert oddities(found) == {Oddity.TRUNCATED}


def test_empty_chunks_between_others_may_be_gone() -> None:
    header = "maxsize=9&0=a$offset.0&3=b&3=a$offset.3&"
    place = of_texts({"a$header": header, "a$offset.0": "abc", "a$offset.3": "d"})
    assert bytes_of(place, one(place)) == b"abcd"


def test_a_chunk_listed_twice_at_one_place_is_one() -> None:
    header = "maxsize=3&0=a$offset.0&3=a$offset.3&3=a$offset.3&"
    place = of_texts({**TWO, "a$header": header})
    assert bytes_of(place, one(place)) == b"abcde"


def test_a_torn_entry_is_ignored_and_told() -> None:
    place = of_texts({"a$header": "maxsize=3&0=a$offset.0&3=a$off", "a$offset.0": "abc"})
    found = one(place)
    assert (found.length, bytes_of(place, found)) == (3, b"abc")
    assert oddities(found) == {Oddity.TORN_HEADER}


def test_bytes_after_a_torn_entry_are_told() -> None:
    found = one(of_texts({**TWO, "a$header": "maxsize=3&0=a$offset.0&3=a$off"}))
    assert found.length == 3
    assert oddities(found) == {Oddity.TORN_HEADER, Oddity.UNLISTED_CHUNK}
    assert "2 bytes" in found.notes[-1].text


def test_an_entry_that_lacks_its_end_alone_counts_with_its_chunk() -> None:
    """The original reads it, and continues to write there."""
    place = of_texts({**TWO, "a$header": TWO["a$header"][:-1]}, "a$offset.0")
    found = one(place)
    assert (found.length, bytes_of(place, found)) == (5, b"abcde")
    assert oddities(found) == {Oddity.TORN_HEADER}


@pytest.mark.parametrize("header", ["", "max", "maxsize", "maxsize="])
def test_a_create_that_died_made_nothing(header: str) -> None:
    place = of_texts({**TWO, "b$header": header})
    assert one(place, "b").verdict is ImportVerdict.ABSENT


@pytest.mark.parametrize(
    ("header", "expected"),
    [("", Reason.EMPTY_HEADER), ("max", Reason.BAD_HEADER), ("nonsense&", Reason.BAD_HEADER)],
)
def test_a_lost_header_is_no_create_that_died(header: str, expected: Reason) -> None:
    assert reason({**TWO, "a$header": header}) is expected


def test_a_headerless_segment_whose_header_was_begun() -> None:
    place = of_texts({**TWO, "b$header": "", "b": "xyz"}, "b")
    found = one(place, "b")
    assert (bytes_of(place, found), found.sealed) == (b"xyz", True)
    assert oddities(found) == {Oddity.NO_HEADER, Oddity.EMPTY_HEADER}


def test_sealed_is_what_the_header_says() -> None:
    assert one(of_texts(TWO, "a$header")).sealed
    assert not one(of_texts(TWO, "a$offset.0", "a$offset.3")).sealed


def test_a_chunk_that_is_open_before_others_tells_of_lost_modes() -> None:
    assert oddities(one(of_texts(TWO))) == {Oddity.OPEN_CHUNK}
    assert oddities(one(of_texts(TWO, "a$offset.0"))) == set()


def test_attribute_segments_are_segments() -> None:
    name = "a$attributes.index"
    files = {f"{name}$header": f"maxsize=9&0={name}$offset.0&", f"{name}$offset.0": "tree"}
    place = of_texts({**TWO, **files})
    assert bytes_of(place, one(place, name)) == b"tree"


# --- names ------------------------------------------------------------------------------------


def test_the_names_of_hdfs() -> None:
    place = MemoryPlace(
        {
            "a$header_sealed": (TWO["a$header"].encode(), None),
            "a$offset.0_sealed": (b"abc", None),
            "a$offset.3_7": (b"de", None),
            "b_4": (b"bare", None),
            "b_c_sealed": (b"", None),
            "odd": (b"", None),
        }
    )
    found = examine(place)
    assert found.naming is Naming.HDFS
    assert found.strays == ("odd",)
    a, b, c = found.segments
    assert (a.segment, a.sealed, bytes_of(place, a)) == ("a", True, b"abcde")
    assert (b.segment, b.sealed, bytes_of(place, b)) == ("b", False, b"bare")
    assert (c.segment, c.sealed, c.length) == ("b_c", True, 0)


def test_of_two_epochs_the_newer_counts_if_the_older_is_empty() -> None:
    header = "maxsize=9&0=a$offset.0&"
    held: dict[str, tuple[bytes, bool | None]] = {
        "a$header_3": (header.encode(), None),
        "a$offset.0_3": (b"", None),
        "a$offset.0_10": (b"new", None),
    }
    place = MemoryPlace(held)
    assert bytes_of(place, one(place)) == b"new"
    held["a$offset.0_3"] = (b"old", None)
    assert one(MemoryPlace(held)).reason is Reason.AMBIGUOUS_FILES


def test_files_of_several_epochs_follow_one_another_in_the_names_of_hdfs_before_0_3() -> None:
    raw = TWO["a$header"].encode()
    place = MemoryPlace(
        {
            "a$header_0_1": (raw[:30], True),
            "a$header_30_12": (raw[30:], True),
            "a$offset.0_0_1": (b"a", True),
            "a$offset.0_1_2": (b"", True),
            "a$offset.0_1_12": (b"bc", True),
            "a$offset.3_0_12": (b"de", False),
            "b_0_1": (b"ba", True),
            "b_2_3": (b"re", False),
            "c$header_0_1": (b"maxsize=9&", False),
        }
    )
    layout = examine(place)
    assert (layout.naming, layout.strays) == (Naming.HDFS, ())
    a, b, c = layout.segments
    found = b"".join(bytes(place.held[piece.key][0]) for piece in a.pieces)
    assert (a.segment, a.sealed, found) == ("a", True, b"abcde")
    assert [piece.start for piece in a.pieces] == [0, 1, 3]
    assert (a.header_key, a.other_keys) == ("a$header_30_12", ("a$offset.0_1_2", "a$header_0_1"))
    assert (b.segment, b.sealed, bytes_of(place, b)) == ("b", False, b"bare")
    assert (c.segment, c.sealed, c.length) == ("c", False, 0)


def test_a_garbage_tail_may_begin_in_any_file_of_a_chunk() -> None:
    held: dict[str, tuple[bytes, bool | None]] = {
        "a$header_0_1": (TWO["a$header"].encode(), False),
        "a$offset.0_0_1": (b"ab", True),
        "a$offset.0_2_2": (b"cX", True),
        "a$offset.0_4_3": (b"XX", True),
        "a$offset.3_0_3": (b"de", False),
    }
    place = MemoryPlace(held)
    found = one(place)
    assert bytes_of(place, found) == b"abcde"
    assert oddities(found) == {Oddity.GARBAGE_TAIL}
    held["a$offset.0_2_2"] = (b"cX", False)
    held["a$header_0_1"] = (TWO["a$header"].replace("maxsize=3", "maxsize=2").encode(), False)
    told = {Oddity.GARBAGE_TAIL, Oddity.OPEN_CHUNK, Oddity.LONG_CHUNK}
    assert oddities(one(place)) == told


@pytest.mark.parametrize("name", ["a$header", "a$offset.0", "b"])
def test_files_of_one_name_that_do_not_follow_one_another_are_refused(name: str) -> None:
    held: dict[str, tuple[bytes, bool | None]] = {
        "a$header_0_1": (TWO["a$header"].encode(), False),
        "a$offset.0_0_1": (b"abc", True),
        "a$offset.3_0_1": (b"de", False),
        "b_0_1": (b"bare", False),
    }
    for more in (f"{name}_1_2", f"{name}_99_2"):
        place = MemoryPlace({**held, more: (b"x", False)})
        assert one(place, name[0]).reason is Reason.AMBIGUOUS_FILES


def test_a_later_version_renames_files_of_an_earlier_one() -> None:
    place = MemoryPlace(
        {
            "a$header_7": (TWO["a$header"].encode(), False),
            "a$offset.0_0_1": (b"abc", True),
            "a$offset.3_7": (b"de", False),
            "b_7": (b"bare", False),
            "_system/containers/metadata_0_7": (b"books", False),
            "_system/containers/metadata_1_7": (b"books", False),
        }
    )
    assert bytes_of(place, one(place)) == b"abcde"
    assert bytes_of(place, one(place, "b")) == b"bare"
    assert one(place, "_system/containers/metadata_1").length == 5
    held = {**place.held, "a$header_0_1": (TWO["a$header"].encode(), True)}
    assert one(MemoryPlace(held)).reason is Reason.AMBIGUOUS_FILES


@pytest.mark.parametrize("suffixes", [("", ""), ("_0_3", "_0_1"), ("_3", "_sealed")])
@pytest.mark.parametrize("state", ["$state", "$state1", "$state2"])
def test_a_layout_from_before_headers_is_known_by_its_states(
    suffixes: tuple[str, str], state: str
) -> None:
    key, state = f"s/a{suffixes[0]}", f"s/a{state}{suffixes[1]}"
    place = MemoryPlace({key: (b"bare", False), state: (b"state", False)})
    assert bytes_of(place, one(place, "s/a")) == b"bare"
    with pytest.raises(LegacyLayoutError, match="not a legacy layout"):
        examine(MemoryPlace({key: (b"bare", False), "x$state": (b"state", False)}))


def test_a_replacement_counts_where_the_replaced_is_gone() -> None:
    files = {**TWO, "a$header.replace.tmp": TWO["a$header"], "a$header": ""}
    del files["a$header"]
    place = of_texts(files, "a$offset.0")
    found = one(place)
    assert bytes_of(place, found) == b"abcde"
    assert oddities(found) == {Oddity.REPLACING}


def test_a_replacement_is_ignored_where_the_replaced_is_there() -> None:
    place = of_texts({**TWO, "a$header.replace.tmp": "maxsize=3&3=a$off"})
    found = examine(place)
    assert bytes_of(place, found.segments[0]) == b"abcde"
    assert found.strays == ("a$header.replace.tmp",)


def test_a_name_that_no_header_can_hold() -> None:
    assert reason({**TWO, "x&y$header": "maxsize=5&"}, "x&y") is Reason.BAD_NAME
    assert reason({**TWO, "x&y": "bytes"}, "x&y") is Reason.BAD_NAME
    files = {**TWO, "x&y$header": "maxsize=5&0=x&y$offset.0&", "x&y$offset.0": "z"}
    assert reason(files, "x&y") is Reason.BAD_NAME


def test_headers_of_names_with_an_ampersand() -> None:
    found = one(of_texts({**TWO, "x&y$header": "maxsize=5&0=x&y$offset.0&"}), "x&y")
    assert found.reason in (Reason.BAD_NAME, Reason.BAD_HEADER)


# --- chunks that several list -----------------------------------------------------------------


def test_a_source_whose_header_stayed_belongs_to_its_target() -> None:
    files = {
        "t$header": "maxsize=9&0=t$offset.0&concat=1@2&maxsize=3&0=a$offset.0&",
        "t$offset.0": "tt",
        "a$header": "maxsize=3&0=a$offset.0&",
        "a$offset.0": "abc",
    }
    assert reason(files) is Reason.MERGED_ELSEWHERE
    place = of_texts(files)
    assert bytes_of(place, one(place, "t")) == b"ttabc"


def test_a_source_that_was_merged_twice() -> None:
    header = "maxsize=9&0={0}$offset.0&concat=1@1&maxsize=3&0=s$offset.0&"
    files = {"a$header": header.format("a"), "b$header": header.format("b")}
    files |= {"a$offset.0": "a", "b$offset.0": "b", "s$offset.0": "abc"}
    assert reason(files) is Reason.SHARED_CHUNK
    assert reason(files, "b") is Reason.SHARED_CHUNK


def test_a_concat_that_was_carried_out_twice() -> None:
    again = "concat=1@{0}&maxsize=3&0=s$offset.0&"
    header = "maxsize=9&0=a$offset.0&" + again.format(1) + again.format(4)
    files = {"a$header": header, "a$offset.0": "a", "s$offset.0": "abc"}
    assert reason(files) is Reason.DUPLICATE_CHUNK


def test_segments_that_were_merged_into_one_another() -> None:
    files = {
        "a$header": "maxsize=9&0=a$offset.0&concat=1@1&maxsize=9&0=b$offset.0&",
        "b$header": "maxsize=9&0=b$offset.0&concat=1@1&maxsize=9&0=a$offset.0&",
        "a$offset.0": "a",
        "b$offset.0": "b",
    }
    assert reason(files) is Reason.CYCLIC_CONCAT
    assert reason(files, "b") is Reason.CYCLIC_CONCAT


def test_a_source_of_which_some_chunks_are_listed() -> None:
    header = "maxsize=9&0=a$offset.0&concat=2@1&maxsize=9&0=s$offset.0&"
    files = {"a$header": header, "a$offset.0": "a", "s$offset.0": "abc", "s$offset.3": "d"}
    assert reason(files) is Reason.UNFINISHED_CONCAT


def test_a_nested_concat_that_the_original_would_misread() -> None:
    """Its offsets never decrease, so the original opens it but returns other bytes."""
    header = "maxsize=9&0=a$offset.0&concat=2@1&maxsize=9&0=b$offset.0&concat=1@3&maxsize=9&0=c&"
    files = {"a$header": header, "a$offset.0": "a", "b$offset.0": "bbb", "c": "cc"}
    assert reason(files) is Reason.NESTED_CONCAT


# --- places -----------------------------------------------------------------------------------


def test_what_is_no_legacy_layout() -> None:
    with pytest.raises(LegacyLayoutError, match="not a legacy layout"):
        examine(of_texts({"notes.txt": "x"}))
    with pytest.raises(LegacyLayoutError, match="not a legacy layout"):
        examine(of_texts({}))
    newer = "a.E-1-O-0.01234567-0123-0123-0123-0123456789ab"
    with pytest.raises(LegacyLayoutError, match="simplified long-term storage"):
        examine(of_texts({newer: "x"}))
    with pytest.raises(LegacyLayoutError, match="mixed"):
        examine(of_texts({**TWO, newer: "x"}))
    with pytest.raises(LegacyLayoutError, match="mixed"):
        examine(of_texts({**TWO, "b$header_3": "maxsize=1&"}))


def test_a_header_that_cannot_be_read() -> None:
    place = of_texts({**TWO, "b$header": "maxsize=3&"})
    place.broken = frozenset({"b$header"})
    assert one(place, "b").reason is Reason.UNREADABLE
    assert one(place).verdict is ImportVerdict.IMPORTABLE


def test_a_folder_is_read_without_following_links(tmp_path: Path) -> None:
    for key, data in TWO.items():
        (tmp_path / key).write_text(data)
    (tmp_path / "link").symlink_to(tmp_path / "a$header")
    (tmp_path / ".nfs01").write_text("x")
    (tmp_path / "a$header").chmod(0o444)
    os.mkfifo(tmp_path / "pipe")
    found = examine(FolderPlace(tmp_path))
    assert [(one.segment, one.sealed) for one in found.segments] == [("a", True)]
    assert found.strays == ("link",)


LINKED: dict[str, tuple[str, str]] = {
    "header": ("a$header", "a"),
    "first chunk": ("a$offset.0", "a"),
    "last chunk": ("a$offset.3", "a"),
    "folder": ("s", "s/"),
    "folder of a chunk": ("s", "b"),
}


@pytest.mark.parametrize(("link", "refused"), LINKED.values(), ids=LINKED)
def test_what_a_link_may_lead_to_is_refused(tmp_path: Path, link: str, refused: str) -> None:
    """The bytes that the original reads through it would be missing, or the head seem truncated."""
    files = {**TWO, "b$header": "maxsize=3&0=s/b$offset.0&3=b$offset.3&", "b$offset.3": "b"}
    (tmp_path / "place" / "s").mkdir(parents=True)
    for key, data in {**files, "s/b$offset.0": "bbb"}.items():
        (tmp_path / "place" / key).write_text(data)
    if link == "s":
        (tmp_path / "place" / "s").rename(tmp_path / "moved")
    else:
        (tmp_path / "place" / link).rename(tmp_path / "moved")
    (tmp_path / "place" / link).symlink_to(tmp_path / "moved")
    found = {one.segment: one for one in examine(FolderPlace(tmp_path / "place")).segments}
    assert found[refused].reason is Reason.LINK
    assert link in found[refused].message
    others = {"a", "b"} - {refused} - ({"b"} if link == "s" else set())
    assert {found[name].verdict for name in others} == {ImportVerdict.IMPORTABLE}


def test_a_bucket_does_not_tell_what_is_sealed() -> None:
    storage = MemoryChunkStorage()
    for key, data in TWO.items():
        storage.create(f"old/{key}", [data.encode()])
    storage.create("data/c0/x", [b"x"])
    found = examine(StoragePlace(storage, "old/"))
    assert [one.reason for one in found.segments] == [Reason.SEALED_UNKNOWN]
