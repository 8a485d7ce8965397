"""The verb ``objects``: values put, looked at, listed and removed, whatever bytes names have."""

from __future__ import annotations

import base64
import os
import subprocess
from pathlib import Path
from random import Random

import pytest

import siltstone
from siltstone import objects
from siltstone.objects.space_names import space_names
from tests.support.command import Command
from tests.support.stores import chunk_path, flip
from tests.unit.cli.conftest import COMMAND

ODD = b"odd\xff\n\x00"
ODD_TEXT = os.fsdecode(b"odd\xff\n")
JPEG = bytes(range(256)) * 40


@pytest.fixture
def photos(command: Command, tmp_path: Path) -> Command:
    """The command, with a keyspace that has one object."""
    assert (
        command("objects", "create", "photos", "--tag", "o:recovr", "--tag", "log:retain").code == 0
    )
    (tmp_path / "a.jpg").write_bytes(JPEG)
    ran = command(
        "objects", "put", "photos", "2026", "a.jpg", str(tmp_path / "a.jpg"),
        "--metadata", '{"iso": 100}', "--index", "city", "oslo", "--index", "city", "bergen",
    )  # fmt: skip
    assert (ran.code, ran.out, ran.err) == (0, "1\n", "")
    return command


def test_an_object_is_put_and_got(photos: Command, tmp_path: Path) -> None:
    new = tmp_path / "new.jpg"
    ran = photos("objects", "get", "photos", "2026", "a.jpg", str(new))
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert new.read_bytes() == JPEG
    (told,) = photos("objects", "get", "photos", "2026", "a.jpg", "--json").values
    assert base64.b64decode(told["value_base64"]) == JPEG
    (head,) = photos("objects", "head", "photos", "2026", "a.jpg", "--json").values
    del told["value_base64"]
    assert head == told
    assert (head["bucket"], head["key"], head["tag"], head["sqn"]) == ("2026", "a.jpg", "o", 1)
    assert (head["size"], head["metadata"], head["expires"]) == (len(JPEG), '{"iso": 100}', None)
    assert head["index"] == [{"field": "city", "term": "bergen"}, {"field": "city", "term": "oslo"}]
    shown = photos("objects", "head", "photos", "2026", "a.jpg").out
    for line in ("key:       a.jpg\n", "size:      10,240 bytes\n", "index:     city oslo\n"):
        assert line in shown


def test_a_file_is_there_as_a_whole_or_not_at_all(photos: Command, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_text("mine")
    ran = photos("objects", "get", "photos", "2026", "a.jpg", str(there))
    assert (ran.code, there.read_text()) == (4, "mine")
    assert f"siltstone: {there} is there; --overwrite replaces it\n" == ran.err
    assert photos("objects", "get", "photos", "2026", "no", str(there), "--overwrite").code == 3
    assert there.read_text() == "mine"
    got = photos("objects", "get", "photos", "2026", "a.jpg", str(there), "--overwrite", "--json")
    assert (got.values[0]["file"], got.values[0]["size"]) == (str(there), len(JPEG))
    assert there.read_bytes() == JPEG
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jpg", "store", "there"]


def test_a_put_may_have_conditions_terms_and_an_end(photos: Command, tmp_path: Path) -> None:
    file = str(tmp_path / "a.jpg")
    put = ("objects", "put", "photos", "2026", "a.jpg", file)
    assert photos(*put, "--expect", "7").code == 4
    assert photos(*put, "--expect", "-1").code == 4
    (told,) = photos(
        *put, "--expect", "1", "--add", "day", "x", "--remove", "city", "oslo", "--json"
    ).values
    assert told == {"keyspace": "photos", "sqn": 2, "replaced": 1}
    (head,) = photos("objects", "head", "photos", "2026", "a.jpg", "--json").values
    assert head["index"] == [{"field": "city", "term": "bergen"}, {"field": "day", "term": "x"}]
    assert (head["metadata"], head["expires"]) == ("", None)
    note = tmp_path / "note"
    note.write_bytes(b"\xff")
    assert photos(*put, "--ttl", "1000", "--metadata-file", str(note), "--tag", "log").out == "3\n"
    (head,) = photos("objects", "head", "photos", "2026", "a.jpg", "--tag", "log", "--json").values
    assert (head["tag"], head["metadata_base64"], head["index"]) == ("log", "/w==", [])
    assert 990 < head["expires"] - head["modified"] <= 1001
    assert "expires:" in photos("objects", "head", "photos", "2026", "a.jpg", "--tag", "log").out


def test_keys_buckets_and_terms_are_listed(photos: Command, tmp_path: Path) -> None:
    for number in range(3):
        index = ("--index", "city", f"town {number}")
        assert (
            photos("objects", "put", "photos", "2027", f"{number}.jpg", "/dev/null", *index).code
            == 0
        )
    assert photos("objects", "buckets", "photos").out == "2026\n2027\n"
    assert photos("objects", "buckets", "photos", "--limit", "1", "--json").values == [
        {"bucket": "2026"}
    ]
    assert photos("objects", "keys", "photos", "2027", "--start", "1").out == "1.jpg\n2.jpg\n"
    assert photos("objects", "keys", "photos", "2027", "--end", "1").out == "0.jpg\n"
    heads = photos("objects", "keys", "photos", "2027", "--limit", "2", "--json").values
    assert [(head["key"], head["size"]) for head in heads] == [("0.jpg", 0), ("1.jpg", 0)]
    found = photos("objects", "index", "photos", "2026", "city")
    assert found.out == "bergen\ta.jpg\noslo\ta.jpg\n"
    of_field = ("objects", "index", "photos", "2027", "city")
    assert photos(*of_field, "--start", "town 1", "--limit", "1").out == "town 1\t1.jpg\n"
    assert photos(*of_field, "--end", "town 1").out == "town 0\t0.jpg\n"
    assert photos(*of_field, "--pattern", "2$", "--json").values == [
        {"term": "town 2", "key": "2.jpg"}
    ]
    assert photos("objects", "buckets", "photos", "--tag", "log").out == ""


def test_names_are_any_bytes(photos: Command, folder: Path) -> None:
    """As arguments have them, and with --base64 those that no argument can have."""
    put = ("objects", "put", "photos", ODD_TEXT, ODD_TEXT, "/dev/null")
    assert photos(*put, "--index", "\udcfe", ODD_TEXT).code == 0
    assert photos("objects", "get", "photos", ODD_TEXT, ODD_TEXT).code == 0
    coded = base64.b64encode(ODD).decode()
    terms = ("--index", base64.b64encode(b"f").decode(), coded)
    assert (
        photos("objects", "put", "photos", coded, coded, "/dev/null", "--base64", *terms).code == 0
    )
    (head,) = photos("objects", "head", "photos", coded, coded, "--base64", "--json").values
    assert base64.b64decode(head["key_base64"]) == base64.b64decode(head["bucket_base64"]) == ODD
    assert [base64.b64decode(each["term_base64"]) for each in head["index"]] == [ODD]
    listed = photos(
        "objects", "keys", "photos", coded, "--base64", "--start", coded, "--json"
    ).values
    assert [each["key_base64"] for each in listed] == [coded]
    assert photos("objects", "rm", "photos", coded, coded, "--base64", "--json").values == [
        {"removed_base64": coded, "sqn": 4}
    ]
    with siltstone.open(folder, read_only=True) as store:
        found = objects.open(store, "photos")
        assert list(found.buckets()) == ["2026", ODD_TEXT]
        assert list(found.index(ODD_TEXT, b"\xfe")) == [(ODD_TEXT, ODD_TEXT)]


@pytest.mark.slow
def test_names_and_values_pass_a_shell_as_they_are(photos: Command, folder: Path) -> None:
    line = [*COMMAND, "--store", str(folder), "objects"]
    name = b"odd\xff"

    def run(*arguments: bytes | str, given: bytes = b"") -> bytes:
        ran = subprocess.run([*line, *arguments], input=given, capture_output=True, check=True)
        return ran.stdout

    assert run("put", "photos", name, name, "-", "--index", "f", name, given=JPEG) == b"2\n"
    assert run("get", "photos", name, name) == JPEG
    assert run("index", "photos", name, "f") == name + b"\t" + name + b"\n"


def test_objects_are_removed(photos: Command) -> None:
    rm = ("objects", "rm", "photos", "2026")
    assert photos(*rm, "a.jpg", "--expect", "9").code == 4
    assert photos(*rm, "a.jpg", "no", "--json").values == [
        {"removed": "a.jpg", "sqn": 2},
        {"removed": "no", "sqn": None},
    ]
    ran = photos("objects", "get", "photos", "2026", "a.jpg")
    assert (ran.code, ran.out) == (3, "")
    assert ran.err == "siltstone: no such object keyspace=photos bucket=2026 key=a.jpg\n"
    assert photos("objects", "head", "photos", "2026", "a.jpg").code == 3


def test_a_dry_run_tells_names_as_the_removal_does(photos: Command) -> None:
    rm = ("objects", "rm", "photos", "MjAyNg==", "YS5qcGc=", "--base64")
    assert photos(*rm, "--dry-run", "--json").values == [{"would_remove": "a.jpg", "there": True}]
    assert photos(*rm, "--dry-run").out == "would remove a.jpg: 10,240 bytes\n"
    refused = photos(*rm, "--dry-run", "--expect", "9")
    assert (refused.code, refused.err) == (4, photos(*rm, "--expect", "9").err)
    assert photos(*rm, "--json").values == [{"removed": "a.jpg", "sqn": 2}]


def test_keyspaces_are_made_and_listed(photos: Command) -> None:
    assert photos("objects", "create", "films", "--json").values == [
        {"keyspace": "films", "tags": {"o": "recovr"}}
    ]
    ran = photos("objects", "create", "films")
    assert (ran.code, "--exist-ok takes it as it is" in ran.err) == (4, True)
    assert photos("objects", "create", "photos", "--exist-ok", "--json").values == [
        {"keyspace": "photos", "tags": {"log": "retain", "o": "recovr"}}
    ]
    assert photos("objects", "ls").out == "films\nphotos\n"
    assert photos("objects", "ls", "ph", "--json").values == [{"keyspace": "photos"}]
    assert photos("objects", "ls", "*s").out == "films\nphotos\n"


def test_an_owner_may_run_while_objects_are_read(photos: Command, folder: Path) -> None:
    with siltstone.open(folder) as store:
        objects.open(store, "photos").put("2026", "b.jpg", b"newer")
        assert photos("objects", "keys", "photos", "2026").out == "a.jpg\nb.jpg\n"
        assert photos("objects", "check", "--deep").code == 0
        ran = photos("objects", "put", "photos", "2026", "c.jpg", "/dev/null")
        assert (ran.code, "--takeover" in ran.err) == (5, True)
        assert photos("objects", "destroy", "photos", "--dry-run").code == 0


def test_without_tier_1_what_was_flushed_is_read(photos: Command, folder: Path) -> None:
    with siltstone.open(folder) as store:
        objects.open(store, "photos").put("2026", "b.jpg", b"newer")
        store.flush()
    (folder / "tier1").rename(folder / "away")
    for verb in (
        ("keys", "photos", "2026"),
        ("get", "photos", "2026", "b.jpg"),
        ("check", "--deep"),
    ):
        assert photos("objects", *verb, "--recover", "read-only").code == 0


@pytest.mark.slow
def test_a_value_of_any_length_passes_through(
    photos: Command, folder: Path, tmp_path: Path
) -> None:
    value = Random(1).randbytes(2**22 + 1_000_001)
    (tmp_path / "film").write_bytes(value)
    put = ("objects", "put", "photos", "2026", "film", str(tmp_path / "film"))
    assert photos(*put, "--index", "f", "t").code == 0
    got = tmp_path / "got"
    assert photos("objects", "get", "photos", "2026", "film", str(got)).code == 0
    assert got.read_bytes() == value
    (told,) = photos("objects", "get", "photos", "2026", "film", "--json").values
    assert (base64.b64decode(told["value_base64"]), told["size"]) == (value, len(value))
    (info,) = photos("objects", "stat", "photos", "--json").values
    assert (info["large"], info["large_bytes"], info["waiting"]) == (1, len(value), 0)
    assert photos("objects", "check", "--deep").code == 0
    with siltstone.open(folder) as store:
        store.flush()
        (large,) = store.list(space_names("photos").large_values)
        chunk = next(store.segment(large.name).chunks())
    flip(chunk_path(folder, chunk.chunk), chunk.chunk_offset + 5)
    ran = photos("objects", "get", "photos", "2026", "film", str(tmp_path / "damaged"))
    assert (ran.code, "value is lost" in ran.err) == (6, True)
    assert not (tmp_path / "damaged").exists()
    ran = photos("objects", "check", "--deep")
    assert (ran.code, "bucket=2026 key=film: value is lost" in ran.out) == (6, True)
    assert photos("objects", "destroy", "photos", "--yes").code == 0
    with siltstone.open(folder) as store:
        assert list(store.list("objects/")) == []
