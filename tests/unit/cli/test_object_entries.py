"""``objects`` and keyspaces of heads only: made, changed by lines of JSON, and trimmed."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone import objects
from tests.support.command import Command, Ran


@pytest.fixture
def clocks(command: Command, tmp_path: Path) -> Any:
    """Gives lines to ``mput`` of a keyspace with look-up."""
    assert command("objects", "create", "clocks", "--head-only", "with_lookup").code == 0

    def mput(*lines: object, keyspace: str = "clocks", options: tuple[str, ...] = ()) -> Ran:
        file = tmp_path / "lines"
        file.write_text(
            "\n".join(each if isinstance(each, str) else json.dumps(each) for each in lines)
        )
        return command("objects", "mput", keyspace, str(file), *options)

    return mput


def entry(op: str, key: str = "k", **more: object) -> dict[str, object]:
    return {"op": op, "bucket": "b", "key": key, **more}


def test_a_keyspace_of_heads_is_made_for_good(command: Command) -> None:
    (made,) = command("objects", "create", "bare", "--head-only", "no_lookup", "--json").values
    assert made == {"keyspace": "bare", "tags": {"h": "recovr"}, "head_only": "no_lookup"}
    ran = command("objects", "create", "bare", "--head-only", "none")
    assert (ran.code, "with_lookup" in ran.err) == (2, True)
    ran = command("objects", "create", "other", "--head-only", "no_lookup", "--tag", "o:recovr")
    assert (ran.code, "has the one tag 'h'" in ran.err) == (2, True)


def test_lines_of_json_change_entries(clocks: Any, command: Command, folder: Path) -> None:
    raw = base64.b64encode(b"\xff\0").decode()
    ran = clocks(
        entry("add", value="7", subkey="left"),
        "",
        entry("add", value_base64=raw),
        {"op": "add", "bucket": "b", "key_base64": raw, "value": "x"},
    )
    assert (ran.code, ran.out) == (0, "1\n")
    assert clocks(entry("remove"), options=("--json",)).values == [{"sqn": 2, "entries": 1}]
    with siltstone.open(folder, read_only=True) as store:
        heads = objects.open(store, "clocks").heads("b")
        found = [(each.key, each.subkey, each.metadata) for each in heads]
    assert found == [("k", "left", b"7"), ("\udcff\0", "", b"x")]
    (head,) = command("objects", "head", "clocks", "b", "k", "--subkey", "left", "--json").values
    assert (head["subkey"], head["metadata"], head["sqn"]) == ("left", "7", 1)
    assert (
        "subkey:    left\n"
        in command("objects", "head", "clocks", "b", "k", "--subkey", "left").out
    )
    assert command("objects", "head", "clocks", "b", "k").code == 3


def test_all_lines_are_done_or_none(clocks: Any, command: Command) -> None:
    assert clocks(entry("add", value="1", expect=-1), options=("--ttl", "1000")).code == 0
    (head,) = command("objects", "head", "clocks", "b", "k", "--json").values
    assert head["expires"] is not None
    ran = clocks(entry("add", "new", value="1"), entry("expect", expect=-1))
    assert (ran.code, "current=1" in ran.err) == (4, True)
    assert command("objects", "head", "clocks", "b", "new").code == 3
    assert clocks(entry("add", "new", value="1"), entry("expect", expect=1)).code == 0
    assert command("objects", "head", "clocks", "b", "new").code == 0


MISTAKES: dict[str, tuple[object, str]] = {
    "no JSON": ("{", "line 2: not JSON"),
    "a list": ([1], "line 2: not an object of JSON"),
    "an unknown field": (entry("remove", ttl=1), "line 2: unknown field 'ttl'"),
    "an unknown op": (entry("put"), "line 2: op is add, remove or expect, not 'put'"),
    "no key": ({"op": "remove", "bucket": "b"}, "line 2: key is missing"),
    "a number as key": ({"op": "remove", "bucket": "b", "key": 1}, "line 2: key is text"),
    "two keys": (entry("remove", key_base64="aw=="), "line 2: key and key_base64 exclude"),
    "no base64": (entry("add", value_base64="!"), "line 2: value_base64 is not base64"),
    "half a pair": (entry("add", value="\ud800"), "line 2: value is no text"),
    "no value": (entry("add"), "line 2: add needs a value"),
    "a value too many": (entry("remove", value="x"), "line 2: add needs a value"),
    "no SQN": (entry("expect"), "line 2: expect is missing"),
    "a wrong SQN": (entry("remove", expect=True), "line 2: expect is an SQN"),
    "an empty key": (entry("remove", ""), "a key has 1 to 8192 bytes"),
}


def test_each_wrong_line_is_named_and_nothing_is_changed(clocks: Any, command: Command) -> None:
    for mistake, (line, text) in MISTAKES.items():
        ran = clocks(entry("add", value="1"), line)
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1), (mistake, ran.err)
        assert text in ran.err, mistake
    ran = clocks(*([json.dumps(entry("remove"))] * 10_001))
    assert (ran.code, "more than 10,000 lines" in ran.err) == (2, True)
    assert clocks("").code == 2
    assert command("objects", "head", "clocks", "b", "k").code == 3


def test_what_other_keyspaces_lack_is_told(clocks: Any, command: Command) -> None:
    assert command("objects", "create", "photos").code == 0
    assert command("objects", "create", "bare", "--head-only", "no_lookup").code == 0
    for ran, text in (
        (clocks(entry("remove"), keyspace="photos"), "a keyspace with values has no mput"),
        (command("objects", "trim", "photos"), "a keyspace with values has no trim"),
        (clocks(entry("remove", expect=1), keyspace="bare"), "without look-up"),
        (
            clocks(entry("add", value=""), keyspace="bare", options=("--ttl", "9")),
            "without look-up",
        ),
    ):
        assert (ran.code, text in ran.err, ran.err.count("\n")) == (2, True, 1), ran.err


def test_after_a_trim_tier_1_is_not_needed(clocks: Any, command: Command, folder: Path) -> None:
    with (folder / "siltstone.yaml").open("a", encoding="utf-8") as settings:
        settings.write("close:\n  flush: never\n")
    assert clocks(entry("add", value="7")).code == 0
    keys = ("objects", "keys", "clocks", "b", "--recover", "read-only")
    assert "k\n" not in command(*keys).out
    assert command("objects", "trim", "clocks", "--json").values == [{"trimmed": "clocks"}]
    assert command(*keys).out == "k\n"
