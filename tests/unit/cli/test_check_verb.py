"""``check``: quick and deep, and continued where it was interrupted."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import siltstone
from siltstone.cli import findings
from siltstone.cli.interrupts import GOES_ON
from tests.support.command import Command

COUNT = 6


@pytest.fixture
def files(folder: Path) -> list[Path]:
    """A store whose only container with segments has six chunks; returns their files by id."""
    with siltstone.open(folder) as store:
        for number in range(COUNT):
            store.create(f"{{a}}{number}").append(b"%d" % number * 1000)
            store.flush()
        chunks = [next(store.segment(f"{{a}}{number}").chunks()) for number in range(COUNT)]
    found = [folder / "chunks" / chunk.chunk for chunk in chunks]
    for file in found:
        file.chmod(0o600)
    return found


@pytest.mark.slow
def test_a_check_continues_where_an_earlier_one_stopped(folder: Path, files: list[Path]) -> None:
    files[1].write_bytes(b"wrong" * 200)
    files[4].write_bytes(b"wrong" * 200)
    steps: list[siltstone.CheckProgress] = []
    with siltstone.open(folder, read_only=True) as store:
        whole = [finding.where for finding in store.check(progress=steps.append)]
        assert len(whole) == 2
        assert [step.chunks_done for step in steps] == [1, 2, 3, 4, 5, 6]
        assert (steps[-1].bytes_done, steps[-1].bytes_total) == (6000, 6000)
        assert [step.chunk_id for step in steps] == sorted({step.chunk_id for step in steps})
        assert [finding.where for finding in store.check(after=steps[2])] == whole[1:]
        assert [finding.where for finding in store.check(after=steps[4])] == []
        assert [finding.where for finding in store.check(deep=False)] == []


@pytest.mark.slow
def test_an_interrupted_check_is_resumed(
    command: Command, files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files[1].write_bytes(b"wrong" * 200)
    files[4].write_bytes(b"wrong" * 200)
    kept = tmp_path / "kept"
    told = 0

    def stop(value: object) -> None:
        nonlocal told
        told += 1
        if told == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(findings, "print_json", stop)
        ran = command("check", "--deep", "--resume", str(kept), "--json")
        assert (ran.code, ran.err) == (130, f"siltstone: interrupted; {GOES_ON}\n")
    content = json.loads(kept.read_text())
    assert (content["after"]["chunks_done"], content["counts"]) == (4, {"damage": 1})
    assert command("check", "--resume", str(kept)).code == 2, "the first one was deep"
    again = command("check", "--deep", "--resume", str(kept))
    assert again.out.count("damage:") == 1
    assert files[4].name in again.out
    assert again.err == "found 2 damage\n"
    assert again.code == 6
    assert not kept.exists()


@pytest.mark.parametrize("content", ["", "{}", '{"version": 1}', "[]"])
def test_a_file_that_is_none_of_a_check(command: Command, tmp_path: Path, content: str) -> None:
    kept = tmp_path / "kept"
    kept.write_text(content)
    assert command("check", "--resume", str(kept)).code == 2
    assert kept.read_text() == content


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--deep",)])
def test_what_nothing_names_is_told(
    command: Command, folder: Path, files: list[Path], options: tuple[str, ...]
) -> None:
    clean = {"found": {"damage": 0, "garbage": 0, "warning": 0}, "deep": "--deep" in options}
    assert command("check", *options, "--json").values == [clean]
    with siltstone.open(folder):  # ends the epoch of the chunks
        pass
    left = files[0].with_name("00000000000000000000-0000000000000009.chunk")
    left.write_bytes(b"left by a crash")
    os.utime(left, (1_000_000_000, 1_000_000_000))
    strange = files[0].with_name("notes.txt")
    strange.write_bytes(b"mine")
    ran = command("check", *options, "--json")
    assert ran.code == 0
    *values, counts = ran.values
    assert counts["found"] == {"damage": 0, "garbage": 1, "warning": 1}
    assert {value["where"].rpartition("/")[2]: value["severity"] for value in values} == {
        left.name: "garbage",
        strange.name: "warning",
    }


@pytest.mark.slow
def test_a_quick_check_sees_what_is_short_or_gone(command: Command, files: list[Path]) -> None:
    files[2].write_bytes(b"short")
    files[5].unlink()
    files[3].write_bytes(b"longer" * 1000)
    ran = command("check", "--json")
    assert ran.code == 6
    *values, counts = ran.values
    assert counts == {"found": {"damage": 2, "garbage": 0, "warning": 0}, "deep": False}
    assert [value["where"].rpartition("/")[2] for value in values] == [
        files[2].name,
        files[5].name,
    ]
    told = command("check").out
    assert f"{files[5].name}: no such file or directory" in told, told
