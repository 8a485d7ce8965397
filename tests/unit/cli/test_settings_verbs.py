from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from siltstone.store.settings.effective import load_settings
from siltstone.store.settings.file import read_settings_file
from tests.support.command import Command

ROOT = Path(__file__).resolve().parents[3]


def change(folder: Path, old: str, new: str) -> None:
    file = folder / "siltstone.yaml"
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_every_setting_is_shown_with_where_it_is_from(command: Command, folder: Path) -> None:
    change(folder, "#flush:\n", "flush:\n  bytes: 16MiB\n")
    shown = {one["key"]: one for one in command("settings", "show", "--json").values}
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert set(re.findall(r"(?m)^\| `([\w.]+)` \|", page)) <= set(shown)
    lines = read_settings_file(folder / "siltstone.yaml", {}).lines
    assert shown["flush.bytes"]["value"] == "16MiB"
    assert shown["flush.bytes"]["line"] == lines["flush", "bytes"]
    assert (shown["flush.age"]["value"], shown["flush.age"]["line"]) == (None, None)
    assert shown["garbage.delay"]["value"] == "15min"
    assert shown["optimiser.enabled"]["value"] is True
    assert shown["tier1.file.file_bytes"]["value"] == "16MiB"
    assert shown["long_term_storage.nfs.path"]["value"] == str(folder / "chunks")
    told = command("settings", "show").out
    assert re.search(r"(?m)^flush\.bytes +16MiB +line \d+$", told)
    assert re.search(r"(?m)^optimiser\.enabled +true +default$", told)


def test_no_secret_is_shown(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", "hunter2")
    change(
        folder,
        "  binding: nfs\n  nfs:\n    path: ./chunks\n",
        "  binding: s3\n  s3:\n    bucket: archive\n    access_key_id: '${KEY}'\n"
        "    secret_access_key: '${KEY}'\n",
    )
    for ran in (command("settings", "show"), command("settings", "show", "--json")):
        assert ran.code == 0
        assert "hunter2" not in ran.out + ran.err
        assert "(not shown)" in ran.out
        assert "archive" in ran.out


def test_right_settings_are_right(command: Command) -> None:
    ran = command("settings", "check")
    assert (ran.code, ran.out) == (0, "")
    assert "the settings are right" in ran.err
    assert command("settings", "check", "--json").values == []


def test_all_mistakes_are_told(command: Command, folder: Path) -> None:
    change(folder, "#flush:\n", "flush:\n  bytse: 16MiB\n  age: 30\n")
    change(folder, "    path: ./chunks\n", "    path: ./chunks\n    mode: 7\n")
    change(folder, "path: ./tier1", "paht: ./tier1")
    ran = command("settings", "check")
    assert ran.code == 2
    told = ran.out.splitlines()
    for reason in (
        "flush.bytse: unknown key; did you mean 'bytes'?",
        "flush.age: not a time: 30",
        "long_term_storage.nfs.mode: unknown key",
        "tier1.file.paht: unknown key; did you mean 'path'?",
        "tier1.file.path: is missing",
    ):
        assert len([line for line in told if reason in line]) == 1
    assert len(told) == 5
    assert all(line.startswith(f"{folder / 'siltstone.yaml'} line ") for line in told)
    errors = [one["error"] for one in command("settings", "check", "--json").values]
    assert errors == told


def test_what_contradicts_each_other_is_a_mistake(command: Command, folder: Path) -> None:
    change(folder, "#flush:\n", "flush:\n  bytes: 1GiB\n")
    ran = command("settings", "check")
    assert (ran.code, len(ran.out.splitlines())) == (2, 1)
    assert "must not be above back_pressure.bytes" in ran.out


def test_a_file_that_cannot_be_read_is_a_mistake(command: Command, folder: Path) -> None:
    (folder / "siltstone.yaml").write_text("a: [", encoding="utf-8")
    ran = command("settings", "check")
    assert (ran.code, len(ran.out.splitlines())) == (2, 1)
    assert command("settings", "show").code == 2
    (folder / "siltstone.yaml").unlink()
    assert command("settings", "check").code == 2


def test_settings_that_are_shown_are_those_in_force(command: Command, folder: Path) -> None:
    shown = {one["key"]: one["value"] for one in command("settings", "show", "--json").values}
    settings = load_settings(folder)
    assert shown["uuid"] == settings.uuid
    assert shown["long_term_storage.threads"] == settings.container.storage_threads


@pytest.mark.parametrize("verb", [("settings", "check"), ("settings", "show"), ("ls",)])
def test_a_removed_key_is_told_in_one_line(
    process: Callable[..., subprocess.Popen[bytes]], folder: Path, verb: tuple[str, ...]
) -> None:
    change(folder, "#garbage:\n", "garbage:\n  interval: 5s\n")
    ran = process(*verb, "--quiet")
    _, told = ran.communicate()
    line = read_settings_file(folder / "siltstone.yaml", {}).lines["garbage", "interval"]
    assert ran.returncode == 0
    assert told.decode() == (
        f"siltstone: {folder / 'siltstone.yaml'} line {line}: garbage.interval: "
        "no longer a setting; 30s holds, and the value here is ignored\n"
    )
