"""The verb ``recover``."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import siltstone
from tests.support.command import Command


def fill(folder: Path) -> None:
    with siltstone.open(folder) as store:
        store.create("a").append(b"flushed")
        store.flush()
        store.segment("a").append(b" and not")


@pytest.mark.slow
def test_it_explains_and_refuses_first(command: Command, folder: Path) -> None:
    fill(folder)
    assert command("recover").code == 0
    shutil.rmtree(folder / "tier1")
    ran = command("recover")
    assert ran.code == 6
    assert "segment a: bytes 0 to 7; what was appended after it is unknown" in ran.out
    assert "nothing was written" in ran.err
    assert command("recover", "--dry-run", "--accept-loss").code == 0
    assert not (folder / "tier1").exists()
    done = command("recover", "--accept-loss")
    assert (done.code, done.out.count("done: lineage")) == (0, 2)
    assert command("cat", "a").out == "flushed"
    assert {value["state"] for value in command("recover", "--json").values} == {"healthy"}


@pytest.mark.slow
def test_json_and_single_containers(command: Command, folder: Path) -> None:
    fill(folder)
    shutil.rmtree(folder / "tier1")
    ran = command("recover", "1", "--json", "--dry-run")
    (report,) = ran.values
    assert (report["container"], report["state"], report["done"]) == (1, "lost", False)
    assert command("recover", "7").code == 2
    assert command("recover", "0", "--accept-loss", "--json").values[0]["done"] is True
    assert command("recover").code == 6


@pytest.mark.slow
def test_verbs_that_read_do_without_tier_1(command: Command, folder: Path) -> None:
    fill(folder)
    shutil.rmtree(folder / "tier1")
    assert command("cat", "a").code == 6
    ran = command("cat", "a", "--recover", "read-only")
    assert (ran.code, ran.out) == (0, "flushed")
    assert "read from long-term storage alone, as of table version" in ran.err
    for verb in (["ls"], ["stat"], ["chunks", "a"], ["check"], ["table", "ls"], ["tail", "a"]):
        assert command(*verb, "--recover", "read-only").code == 0, verb
    assert command("tail", "-f", "a", "--recover", "read-only").code == 2
    assert command("append", "a", "--recover", "read-only").code == 2
    assert not (folder / "tier1").exists()


@pytest.mark.slow
def test_what_is_lost_is_named(command: Command, folder: Path) -> None:
    fill(folder)
    shutil.rmtree(folder / "tier1")
    (chunk,) = (path for path in (folder / "chunks" / "data").rglob("*") if path.is_file())
    chunk.unlink()
    (folder / "chunks" / "system" / "store").unlink()
    ran = command("recover")
    assert ran.code == 6
    name = chunk.relative_to(folder / "chunks")
    assert f"    bytes 0 to 7 are lost: {name} is missing" in ran.out
    assert "system/store is written again: long-term storage holds no store" in ran.out
    assert command("recover", "--accept-loss").code == 0
    assert command("recover").code == 0
    assert command("cat", "a").code == 6


@pytest.mark.slow
def test_a_lost_marker_is_mended_without_loss(command: Command, folder: Path) -> None:
    fill(folder)
    for log in (folder / "tier1").iterdir():
        (log / "marker").unlink()
    ran = command("create", "b")
    assert (ran.code, "the marker was lost" in ran.err) == (6, True)
    ran = command("doctor")
    assert ran.code == 1
    assert ran.out.count("the marker was lost") == 2
    assert command("containers").out.count("next claim would be refused: the marker was lost") == 2
    ran = command("recover")
    assert ran.code == 6
    assert ran.out.count("the marker was lost") == 2
    ran = command("recover", "--accept-loss")
    assert ran.code == 0
    assert ran.out.count("and what was wrong with it is mended: the marker was lost") == 2
    assert {value["state"] for value in command("recover", "--json").values} == {"healthy"}
    assert command("create", "b").code == 0
    assert command("cat", "a").out == "flushed and not"


@pytest.mark.slow
def test_a_log_without_the_files_of_its_last_owner_is_lost(command: Command, folder: Path) -> None:
    with siltstone.open(folder) as store:
        store.create("a").append(b"not flushed")
    for log in (folder / "tier1").iterdir():
        epoch = max(file.name for file in log.glob("e*.log"))[:21]
        for file in log.glob(f"{epoch}*"):
            file.unlink()
    for verb in (("create", "b"), ("ls",), ("recover",)):
        ran = command(*verb)
        assert ran.code == 6
        assert "not claimed by the owner who wrote the journal" in ran.out + ran.err
    assert command("doctor").code == 1


@pytest.mark.slow
def test_damage_next_to_a_whole_tier_1_is_told_and_mended(command: Command, folder: Path) -> None:
    fill(folder)
    assert command("journal", "checkpoint").code == 0
    chunks = folder / "chunks"
    index = next(path for path in (chunks / "system").rglob("index-*"))
    index.write_bytes(b"something else")
    ran = command("recover")
    assert ran.code == 6
    assert f"  damaged: {index.relative_to(chunks)}: length is 14, not " in ran.out
    assert "  nothing is lost" in ran.out
    assert command("recover", "--accept-loss").code == 0
    assert {value["state"] for value in command("recover", "--json").values} == {"healthy"}
    assert command("cat", "a").out == "flushed and not"
    assert command("check", "--deep").code == 0


@pytest.mark.slow
def test_bytes_after_the_end_of_an_index_file_are_no_damage(command: Command, folder: Path) -> None:
    fill(folder)
    assert command("journal", "checkpoint").code == 0
    for index in (folder / "chunks" / "system").rglob("index-*"):
        index.chmod(0o600)
        with index.open("ab") as file:
            file.write(b"foreign")
    assert {value["state"] for value in command("recover", "--json").values} == {"healthy"}
    assert command("check").code == 0
    assert command("check", "--deep").code == 0
    assert command("cat", "a").out == "flushed and not"


@pytest.mark.slow
def test_damaged_bytes_are_found_when_it_reads_them(command: Command, folder: Path) -> None:
    fill(folder)
    (chunk,) = (path for path in (folder / "chunks" / "data").rglob("*") if path.is_file())
    chunk.write_bytes(b"flashed")
    shutil.rmtree(folder / "tier1")
    name = chunk.relative_to(folder / "chunks")
    assert f"{name} is" not in command("recover").out
    ran = command("recover", "--deep")
    assert f"    bytes 0 to 7 are lost: {name} is damaged" in ran.out


@pytest.mark.slow
def test_damaged_bytes_that_tier_1_keeps_are_put_back(command: Command, folder: Path) -> None:
    fill(folder)
    (chunk,) = (path for path in (folder / "chunks" / "data").rglob("*") if path.is_file())
    chunk.write_bytes(b"flashed")
    name = chunk.relative_to(folder / "chunks")
    ran = command("recover")
    assert ran.code == 6
    assert f"    bytes 0 to 7 are kept in tier 1: {name} is damaged" in ran.out
    assert "  nothing is lost" in ran.out
    ran = command("recover", "--accept-loss")
    assert ran.code == 0
    assert f"    bytes 0 to 7 are put back from tier 1: {name} is damaged" in ran.out
    assert command("recover", "--deep").code == 0
    assert command("cat", "a").out == "flushed and not"
