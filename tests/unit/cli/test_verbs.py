from __future__ import annotations

import base64
import io
import json
import os
import time
from datetime import datetime
from pathlib import Path

import pytest

import siltstone
from tests.support.command import Command


@pytest.mark.slow
def test_a_segment_lives_from_create_to_rm(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.write_bytes(b"".join(b"line %d\n" % number for number in range(100)))
    size = file.stat().st_size
    assert command("create", "a{1}").code == 0
    assert command("append", "a{1}", str(file)).out == f"0 {size}\n"
    assert command("append", "a{1}", str(file), "--json").values == [
        {"segment": "a{1}", "offset": size, "length": size}
    ]
    assert command("cat", "a{1}", "--offset", "7", "--length", "7").out == "line 1\n"
    assert command("tail", "a{1}", "-n", "2").out == "line 98\nline 99\n"
    assert len(command("tail", "a{1}").out.splitlines()) == 10
    assert command("tail", "a{1}", "--bytes", "3").out == "99\n"
    assert command("tail", "a{1}", "-n", "0").out == ""
    assert command("flush", "a{1}", "--json").values == [{"unflushed_bytes": 0}]
    chunks = command("chunks", "a{1}", "--json").values
    assert sum(chunk["length"] for chunk in chunks) == 2 * size
    shown = command("chunks", "a{1}").out
    assert all(chunk["chunk"] in shown for chunk in chunks)
    assert command("truncate", "a{1}", "7", "--json").values[0]["start_offset"] == 7
    assert command("append", "b{1}", str(file), "--create").code == 0
    assert command("seal", "b{1}", "--json").values[0]["sealed"]
    assert command("concat", "a{1}", "b{1}").out == f"{2 * size}\n"
    assert command("stat", "a{1}", "--json").values[0]["length"] == 3 * size
    told = command("stat", "a{1}").out.splitlines()
    assert {f"length:          {3 * size}", "start offset:    7", "state:           open"} < set(
        told
    )
    (created,) = (line.split(maxsplit=1)[1] for line in told if line.startswith("created:"))
    assert abs(datetime.fromisoformat(created).timestamp() - time.time()) < 3600
    assert command("rm", "a{1}", "--json").values == [{"removed": "a{1}"}]
    assert command("ls", "--json").values == []


@pytest.mark.slow
def test_bytes_come_back_as_they_went_in(command: Command, tmp_path: Path) -> None:
    data = os.urandom(3_000_000)
    file = tmp_path / "input"
    file.write_bytes(data)
    command("append", "a", str(file), "--create", "--json")
    pieces = command("cat", "a", "--json").values
    assert b"".join(base64.b64decode(piece["data_base64"]) for piece in pieces) == data
    assert [piece["offset"] for piece in pieces] == [0, 2**20, 2 * 2**20]


@pytest.mark.slow
def test_lists_are_for_people_or_programs(command: Command) -> None:
    for name in ("x/b", "x/a", "y"):
        command("create", name)
    assert [value["name"] for value in command("ls", "x/", "--json").values] == ["x/a", "x/b"]
    lines = command("ls").out.splitlines()
    assert lines[0].split() == ["NAME", "START", "LENGTH", "FLUSHED", "STATE"]
    assert [line.split()[0] for line in lines[1:]] == ["x/a", "x/b", "y"]


@pytest.mark.slow
def test_a_row_is_one_line_whatever_a_name_holds(command: Command) -> None:
    for name in ("two\nlines", "\x1b[31mred", "ü 日本"):
        assert command("create", name).code == 0
    listed = [line.split("  ")[0] for line in command("ls").out.splitlines()[1:]]
    assert sorted(listed) == sorted(["two\\nlines", "\\x1b[31mred", "ü 日本"])
    assert {one["name"] for one in command("ls", "--json").values} >= {"two\nlines", "\x1b[31mred"}


@pytest.mark.slow
def test_attributes_and_names(command: Command) -> None:
    assert command("create", "{n}a", "--attribute", "unit=C", "--attribute", "of=a=b").code == 0
    command("create", "{n}b")
    assert command("attributes", "{n}a").out == "of=a=b\nunit=C\n"
    assert command("attributes", "{n}b", "unit=F", "x=", "--absent", "unit").out == "unit=F\nx=\n"
    assert command("attributes", "{n}b", "unit=K", "--expect", "unit=C").code == 4
    changed = command("attributes", "{n}b", "unit=K", "--rm", "x", "--expect", "unit=F", "--json")
    assert changed.values == [{"segment": "{n}b", "attributes": {"unit": "K"}}]
    assert [value["name"] for value in command("ls", "--where", "unit=C", "--json").values] == [
        "{n}a"
    ]
    assert command("ls", "--where", "unit=C", "--where", "of=b", "--json").values == []
    assert "attribute:       unit=C" in command("stat", "{n}a").out
    for wrong in (["unit"], ["=x"], ["--expect", "a=b"], ["a=1", "a=2"], ["a=1", "--rm", "a"]):
        assert command("attributes", "{n}a", *wrong).code == 2
    assert command("attributes", "{n}a", "x=" + "y" * 4_096).code == 2
    assert command("attributes", "nope").code == 3
    assert command("rename", "{n}a", "{n}b").code == 4
    assert command("rename", "{n}a", "{n}c", "--json").values[0]["name"] == "{n}c"
    assert command("rename", "{n}a", "{n}d").code == 3
    assert command("rename", "{n}c", "").code == 2
    assert [value["name"] for value in command("ls", "--json").values] == ["{n}b", "{n}c"]


@pytest.mark.slow
def test_a_segment_tells_how_far_its_writers_came(command: Command, folder: Path) -> None:
    with siltstone.open(folder) as store:
        segment = store.create("a")
        segment.writer("idle")
        segment.append(b"before")
        segment.writer("loader").append(b"event", sequence=7)
        segment.seal()
    shown = command("stat", "a", "--writers").out.splitlines()
    assert "writer:          idle nothing appended" in shown
    assert "writer:          loader sequence=7 offset=6 length=5" in shown
    (told,) = command("stat", "a", "--writers", "--json").values
    assert [(one["name"], one["sequence"]) for one in told["writers"]] == [
        ("idle", -1),
        ("loader", 7),
    ]
    assert told["sealed"]
    assert "writer" not in command("stat", "a").out
    assert command("stat", "--writers").code == 2


@pytest.mark.slow
def test_a_store_tells_what_would_be_lost(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "input"
    file.write_bytes(bytes(1000))
    command("append", "a", str(file), "--create")
    (value,) = command("stat", "--json").values
    assert sum(one["unflushed_bytes"] for one in value["containers"]) == 1000
    assert "with tier 1 gone" in command("stat").out
    command("flush")
    (value,) = command("stat", "--json").values
    assert sum(one["unflushed_bytes"] for one in value["containers"]) == 0


@pytest.mark.slow
def test_tables(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command("table", "create", "t", "--json").values == [{"table": "t"}]
    assert command("table", "create", "t").code == 4
    assert command("table", "create", "t", "--exist-ok").code == 0
    (put,) = command("table", "put", "t", "k", "v", "--expect", "-1", "--json").values
    assert command("table", "put", "t", "k", "w", "--expect", "-1").code == 4
    assert command("table", "put", "t", "k", "w", "--expect", str(put["version"])).code == 0
    assert command("table", "get", "t", "k").out == "w"
    assert command("table", "get", "t", "nope").code == 3
    command("table", "put", "t", base64.b64encode(b"\xff").decode(), "AA==", "--base64")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"from stdin")))
    command("table", "put", "t", "l", "-")
    assert command("table", "scan", "t", "--limit", "2").out == "k\tw\nl\tfrom stdin\n"
    values = command("table", "scan", "t", "--json", "--reverse").values
    assert [value.get("key") or value["key_base64"] for value in values] == ["/w==", "l", "k"]
    assert command("table", "rm", "t", "k", "--json").code == 0
    assert command("table", "get", "t", "k").code == 3
    assert command("table", "ls").out == "t\n"
    assert command("table", "get", "t", "k", "--base64").code == 2


@pytest.mark.slow
def test_several_keys_change_together_on_conditions(command: Command) -> None:
    command("table", "create", "t")
    first = command("table", "update", "t", "--put", "a", "1", "--put", "b", "2", "--json")
    (made,) = first.values
    version = str(made["version"])
    refused = command("table", "update", "t", "--put", "a", "3", "--rm", "b", "--expect", "a", "-1")
    assert refused.code == 4
    assert "key=b'a'" in refused.err
    assert version in refused.err
    conditions = ("--expect", "a", version, "--expect", "c", "-1")
    assert command("table", "update", "t", "--put", "c", "3", "--rm", "b", *conditions).code == 0
    assert command("table", "scan", "t", "--snapshot", "60").out == "a\t1\nc\t3\n"
    assert command("table", "update", "t").code == 2
    assert command("table", "update", "t", "--put", "a", "1", "--rm", "a").code == 2


@pytest.mark.slow
def test_a_range_is_removed_and_followed(command: Command) -> None:
    command("table", "create", "t")
    for key in "abcd":
        command("table", "put", "t", key, key)
    assert command("table", "clear", "t").code == 2
    assert command("table", "clear", "t", "--all", "--start", "b").code == 2
    assert command("table", "clear", "t", "--all", "--expect", "a", "-1").code == 4
    (made,) = command("table", "clear", "t", "--start", "b", "--end", "d", "--json").values
    assert command("table", "scan", "t").out == "a\ta\nd\td\n"
    followed = command("table", "follow", "t", "--from", "0", "--limit", "5", "--json").values
    assert [one["changes"][0].get("key") for one in followed] == ["a", "b", "c", "d", None]
    assert followed[-1] == {
        "version": made["version"],
        "changes": [{"removed": "range", "start": "b", "end": "d"}],
    }
    lines = command("table", "follow", "t", "--from", "0", "--limit", "5").out.splitlines()
    assert lines[0].split("\t")[1:] == ["set", "a", "a"]
    assert lines[-1] == f"{made['version']}\tremoved from\tb\td"


@pytest.mark.slow
def test_readers_work_while_an_owner_keeps_the_store(command: Command, folder: Path) -> None:
    with siltstone.open(folder) as store:
        store.create("a").append(b"abc")
        assert command("cat", "a").out == "abc"
        assert command("ls").code == 0
        assert command("check").code == 0
        held = command("append", "a", "/dev/null")
        assert held.code == 5
        assert "pid=" in held.err
    assert command("append", "a", "/dev/null", "--takeover").out == "3 0\n"


@pytest.mark.slow
def test_a_takeover_fences_the_owner(command: Command, folder: Path) -> None:
    with siltstone.open(folder) as store:
        segment = store.create("a")
        assert command("seal", "a", "--takeover").code == 0
        with pytest.raises(siltstone.FencedError):
            segment.append(b"x")


@pytest.mark.slow
def test_check_names_damage(command: Command, folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.write_bytes(bytes(1000))
    command("append", "a", str(file), "--create")
    command("flush")
    assert command("check", "--deep").err == "everything is as it was written\n"
    assert command("check").err == "everything is there; --deep also reads it\n"
    assert command("--quiet", "check").err == ""
    (chunk,) = command("chunks", "a", "--json").values
    path = folder / "chunks" / chunk["chunk"]
    path.chmod(0o600)
    path.write_bytes(b"\1" + bytes(999))
    assert command("check").code == 0, "lengths alone do not tell"
    ran = command("check", "--deep", "--json")
    assert ran.code == 6
    assert [value["severity"] for value in ran.values[:-1] if value["severity"] == "damage"]
    assert ran.values[-1]["found"]["damage"]
    assert command("chunks", "a").code == 0
    assert "damaged" in command("chunks", "a", "--deep").out
    assert command("cat", "a").code == 6
    path.write_bytes(b"\1")
    assert command("check").code == 6
    (short,) = command("chunks", "a", "--json").values
    assert (short["problem"], short["physical_length"], short["chunk_length"]) == ("short", 1, 1000)
    path.unlink()
    assert command("check").code == 6
    missing = command("chunks", "a", "--json")
    assert (missing.code, missing.values[0]["physical_length"]) == (6, None)


def test_the_store_is_found_by_variable_or_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from siltstone.cli.main import run

    monkeypatch.chdir(folder.parent)
    assert run(["ls"]) == 2
    monkeypatch.chdir(folder)
    assert run(["ls"]) == 0
    monkeypatch.chdir("/")
    monkeypatch.setenv("SILTSTONE_STORE", str(folder))
    assert run(["ls"]) == 0
    assert run(["--store", str(folder.parent), "ls"]) == 2
    capfd.readouterr()


@pytest.mark.slow
def test_init_makes_a_store_that_opens(command: Command, tmp_path: Path) -> None:
    made = command("init", str(tmp_path / "new"), "--containers", "3", "--json").values[0]
    assert made == {"settings": str(tmp_path / "new" / "siltstone.yaml"), "containers": 3}
    stat = command("stat", "--json", store=made["settings"]).values[0]
    assert len(stat["containers"]) == 3
    assert "siltstone.yaml" in command("init", str(tmp_path / "other")).out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_complete(command: Command, shell: str) -> None:
    assert "_SILTSTONE_COMPLETE" in command("completion", shell).out
    assert json.loads(command("completion", shell, "--json").out)["shell"] == shell


@pytest.mark.slow
def test_bytes_since_a_time(command: Command, folder: Path) -> None:
    with siltstone.open(folder) as store:
        log = store.create("log")
        log.append(b"old\n")
    assert command("cat", "log", "--since", "1h").out == "old\n"
    assert command("cat", "log", "--since", "2100-01-01").out == ""
    assert command("tail", "log", "--since", "2001-02-03T04:05:06+01:00").out == "old\n"
    assert command("tail", "log", "--since", "2100-01-01T00:00").out == ""
    assert command("cat", "log", "--since", "yesterday").code == 2
    assert command("cat", "log", "--since", "1h", "--offset", "1").code == 2
    assert command("tail", "log", "--since", "1h", "-n", "1").code == 2
