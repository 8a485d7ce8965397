"""What cannot be done with a keyspace is told in one line: the culprit, and the way out."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import siltstone
from siltstone import objects
from siltstone.objects.records import keys
from siltstone.objects.space_names import space_names
from tests.support.command import Command
from tests.support.stores import chunk_path, flip

NAMES = space_names("photos")
LONG = "x" * 8_193


def many(option: str) -> list[str]:
    """More terms than an object may have."""
    return [word for number in range(9) for word in (option, "f", f"{number}" + "t" * 8_000)]


MISTAKES: dict[str, tuple[list[str], int, list[str]]] = {
    "no such keyspace": (
        ["head", "no", "b", "k"],
        3,
        ["no such keyspace keyspace=no", "objects create"],
    ),
    "a keyspace of no name": (["create", ""], 2, ["printable, not empty"]),
    "a name with a slash": (["create", "a/b"], 2, ["no slash", "keyspace=a/b"]),
    "a name with braces": (["stat", "a{b}"], 2, ["no braces", "keyspace=a{b}"]),
    "a long name": (["ls", "x", "y"], 2, ["unexpected extra argument"]),
    "a name that is too long": (["create", "x" * 201], 2, ["at most 200 bytes"]),
    "a keyspace that is there": (["create", "photos"], 4, ["keyspace=photos", "--exist-ok"]),
    "an unknown strategy": (
        ["create", "a", "--tag", "o:none"],
        2,
        ["retain or recalc, not 'none'"],
    ),
    "a tag without a strategy": (["create", "a", "--tag", "o"], 2, ["TAG:STRATEGY"]),
    "a tag twice": (
        ["create", "a", "--tag", "o:retain", "--tag", "o:recovr"],
        2,
        ["each tag once"],
    ),
    "an empty tag": (["create", "a", "--tag", ":retain"], 2, ["a tag has 1 to 8 bytes"]),
    "a long tag": (["create", "a", "--tag", "ninebytes:retain"], 2, ["a tag has 1 to 8 bytes"]),
    "a tag that it lacks": (
        ["head", "photos", "b", "k", "--tag", "x"],
        2,
        ["no tag 'x', only o", "objects stat"],
    ),
    "an empty bucket": (
        ["put", "photos", "", "k", "FILE"],
        2,
        ["a bucket has 1 to 8192 bytes length=0"],
    ),
    "an empty key": (["get", "photos", "b", ""], 2, ["a key has 1 to 8192 bytes length=0"]),
    "a long bucket": (["keys", "photos", LONG], 2, ["a bucket has 1 to 8192 bytes length=8193"]),
    "a long key": (["rm", "photos", "b", LONG], 2, ["a key has 1 to 8192 bytes length=8193"]),
    "an empty field": (
        ["put", "photos", "b", "k", "FILE", "--index", "", "t"],
        2,
        ["a field has 1 to 255"],
    ),
    "a long field": (
        ["index", "photos", "b", "f" * 256],
        2,
        ["a field has 1 to 255 bytes length=256"],
    ),
    "a long term": (
        ["put", "photos", "b", "k", "FILE", "--add", "f", LONG],
        2,
        ["a term has 0 to 8192"],
    ),
    "a wrong pattern": (
        ["index", "photos", "b", "f", "--pattern", "("],
        2,
        ["no regular expression"],
    ),
    "all terms and one more": (
        ["put", "photos", "b", "k", "FILE", "--index", "f", "t", "--add", "f", "u"],
        2,
        ["--index has all"],
    ),
    "too much of an index": (
        ["put", "photos", "b", "k", "FILE", *many("--index")],
        2,
        ["index rows of an object have at most 65536 bytes length="],
    ),
    "too many specs": (
        ["put", "photos", "b", "k", "FILE", *many("--add")],
        2,
        ["index rows of an object have at most 65536 bytes length="],
    ),
    "two notes": (
        ["put", "photos", "b", "k", "FILE", "--metadata", "a", "--metadata-file", "FILE"],
        2,
        ["exclude each other"],
    ),
    "a long note": (
        ["put", "photos", "b", "k", "FILE", "--metadata-file", "NOTE"],
        2,
        ["metadata has at most 65536 bytes"],
    ),
    "no file": (["put", "photos", "b", "k", "/nowhere"], 2, ["/nowhere"]),
    "a folder as file": (["get", "photos", "b", "k", "/"], 2, ["is a directory"]),
    "a wrong end": (
        ["put", "photos", "b", "k", "FILE", "--ttl", "0"],
        2,
        ["ttl_s is 1 to 2147483648 seconds, not 0"],
    ),
    "a wrong SQN": (["put", "photos", "b", "k", "FILE", "--expect", "-2"], 2, ["--expect"]),
    "another SQN": (
        ["put", "photos", "b", "k", "FILE", "--expect", "5"],
        4,
        ["key='k'", "sqn=5", "current=1"],
    ),
    "an SQN of several keys": (
        ["rm", "photos", "b", "k", "l", "--expect", "1"],
        2,
        ["--expect is about one key"],
    ),
    "no base64": (["head", "photos", "b!", "k", "--base64"], 2, ["not base64: 'b!'"]),
    "a destroy without a terminal": (["destroy", "photos"], 2, ["give --yes"]),
    "a destroy of nothing": (["destroy", "no", "--yes"], 3, ["keyspace=no", "objects ls lists"]),
    "a value of heads only": (
        ["put", "clocks", "b", "k", "FILE"],
        2,
        ["a keyspace of heads only has no", "keyspace=clocks"],
    ),
    "a compaction of heads only": (["compact", "clocks"], 2, ["has no value compaction"]),
    "a backup of heads only": (["backup", "clocks", "/nowhere"], 2, ["keyspace=clocks"]),
    "a rebuild of nothing": (["rebuild", "no"], 3, ["keyspace=no"]),
    "backups of no place": (["backups", "/nowhere"], 2, ["/nowhere"]),
    "a sync of values with heads": (
        ["sync", "photos", "STORE", "clocks", "--prefer", "left"],
        2,
        ["is not compared with one that has values"],
    ),
    "a sync with a side that takes no conditions": (
        ["sync", "clocks", "STORE", "clocks", "--prefer", "newest", "--dry-run"],
        2,
        ["a keyspace without look-up"],
    ),
    "a head without look-up": (["head", "clocks", "b", "k"], 2, ["a keyspace without look-up"]),
    "a check of nothing": (["check", "no"], 3, ["keyspace=no"]),
}


@pytest.fixture
def photos(command: Command, folder: Path, tmp_path: Path) -> Command:
    """The command, with a keyspace that has one object in chunks."""
    for name, size in (("FILE", 3), ("NOTE", 65_537), ("LARGE", 2**22)):
        (tmp_path / name).write_bytes(bytes(size))
    with siltstone.open(folder) as store:
        objects.create(store, "clocks", head_only="no_lookup")
        objects.create(store, "photos").put("b", "k", b"v" * 500, index={"f": ["t"]})
        store.flush()
    return command


def test_each_mistake_is_one_line_and_changes_nothing(photos: Command, tmp_path: Path) -> None:
    for mistake, (arguments, code, parts) in MISTAKES.items():
        places = {name: str(tmp_path / name) for name in ("FILE", "NOTE", "LARGE")}
        places["STORE"] = str(tmp_path / "store")
        ran = photos("objects", *(places.get(argument, argument) for argument in arguments))
        assert (ran.code, ran.out) == (code, ""), (mistake, ran.err)
        told = ran.err.replace(f"{tmp_path}/", "")
        assert [part for part in parts if part not in told] == [], (mistake, told)
        assert (ran.err.startswith("siltstone: "), ran.err.count("\n")) == (True, 1), mistake
    (info,) = photos("objects", "stat", "photos", "--json").values
    assert (info["objects"], info["next_sqn"]) == (1, 2)
    assert photos("objects", "ls").out == "clocks\nphotos\n"


def test_the_largest_parts_are_taken(photos: Command, tmp_path: Path) -> None:
    (tmp_path / "NOTE").write_bytes(bytes(65_536))
    name, large = "x" * 8_192, str(tmp_path / "LARGE")
    put = ("objects", "put", "photos", name, name, large, "--metadata-file", str(tmp_path / "NOTE"))
    assert photos(*put, "--index", "f" * 255, "t" * 8_192).code == 0
    (head,) = photos("objects", "head", "photos", name, name, "--json").values
    assert (head["size"], len(head["metadata"])) == (2**22, 65_536)
    got = tmp_path / "got"
    assert photos("objects", "get", "photos", name, name, str(got)).code == 0
    assert got.read_bytes() == bytes(2**22)
    assert photos("objects", "index", "photos", name, "f" * 255).out == f"{'t' * 8_192}\t{name}\n"


def test_a_second_owner_is_told_who_has_it(photos: Command, folder: Path) -> None:
    changes = (
        ("put", "photos", "b", "k", "/dev/null"),
        ("rm", "photos", "b", "k"),
        ("create", "other"),
        ("compact", "photos"),
        ("rebuild", "photos"),
        ("backup", "photos", "/nowhere"),
        ("restore", "/nowhere", "new"),
        ("mput", "clocks", "/dev/null"),
        ("trim", "clocks"),
        ("destroy", "photos", "--yes"),
    )
    with siltstone.open(folder) as store:
        for arguments in changes:
            ran = photos("objects", *arguments)
            assert (ran.code, "owner=pid=" in ran.err, "--takeover" in ran.err) == (5, True, True)
        assert len(list(objects.open(store, "photos").keys("b"))) == 1


def test_a_damaged_value_is_told_and_its_head_is_shown(photos: Command, folder: Path) -> None:
    with siltstone.open(folder, read_only=True) as store:
        (chunk,) = store.segment(NAMES.value_segment(1)).chunks()
    flip(chunk_path(folder, chunk.chunk), chunk.chunk_offset + 300)
    ran = photos("objects", "get", "photos", "b", "k")
    assert (ran.code, ran.out) == (6, "")
    for part in ("value is lost", "bucket=b", "key=k", "sqn=1", "objects check --deep"):
        assert part in ran.err
    assert photos("objects", "head", "photos", "b", "k").code == 0
    assert photos("objects", "put", "photos", "b", "k", "/dev/null").code == 0
    assert photos("objects", "get", "photos", "b", "k").code == 0


def test_a_value_whose_chunk_is_gone_is_told(photos: Command, folder: Path) -> None:
    shutil.rmtree(folder / "tier1")
    with siltstone.open(folder, recover="read-only") as store:
        (chunk,) = store.segment(NAMES.value_segment(1)).chunks()
    chunk_path(folder, chunk.chunk).unlink()
    ran = photos("objects", "get", "photos", "b", "k", "--recover", "read-only")
    assert (ran.code, ran.out, "value is lost" in ran.err) == (6, "", True)


@pytest.mark.parametrize(
    ("row", "value", "parts"),
    [
        (keys.SPACE, b"\x02", ["photos"]),
        (keys.STATE, b"\x03\x01\x00", ["photos"]),
        (keys.manifest_key(1), b"\x04", ["photos"]),
        (keys.head_key(keys.ObjectKey(b"o", b"b", b"k")), b"\x01", ["head is cut", "where=10"]),
    ],
)
def test_a_damaged_row_is_told_by_every_verb_that_reads_it(
    photos: Command, folder: Path, row: bytes, value: bytes, parts: list[str]
) -> None:
    with siltstone.open(folder) as store:
        store.table(NAMES.ledger, force=True).put(row, value)
    for verb in (("get", "photos", "b", "k"), ("keys", "photos", "b"), ("stat", "photos")):
        ran = photos("objects", *verb)
        assert (ran.code, ran.out) == (6, ""), ran.err
        assert [part for part in parts if part not in ran.err] == []
        assert "check --deep" in ran.err
    ran = photos("objects", "check")
    assert ran.code == 6
    assert "damage: " in ran.out


def test_what_a_newer_version_made_is_refused(photos: Command, folder: Path) -> None:
    with siltstone.open(folder) as store:
        table = store.table(NAMES.ledger, force=True)
        found = table.get(keys.SPACE)
        assert found is not None
        table.put(keys.SPACE, b"\x02\x09" + found.value[2:])
    for verb in (
        ("get", "photos", "b", "k"),
        ("put", "photos", "b", "k", "/dev/null"),
        ("check", "photos"),
        ("destroy", "photos", "--yes"),
    ):
        ran = photos("objects", *verb)
        assert ran.code == 2
        assert "found=9 known=1" in ran.err
    assert photos("objects", "ls").out == "clocks\nphotos\n"
