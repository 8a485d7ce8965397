"""A whole store in a container: how it is made and inspected, and what its garbage costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import siltstone
from services.azurite import Azurite
from siltstone.cli.main import run
from siltstone.testing.faults.fault_proxy import FaultProxy
from tests.support.services.azure_services import new_container, options_of

pytestmark = pytest.mark.usefixtures("azure_plugin")


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = run([*words])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.slow
def test_it_is_made_by_the_command_and_found_well(
    azurite: Azurite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("ARCHIVE_KEY", azurite.secret)
    container, raw = new_container(azurite)
    options = options_of(azurite, container, account_key="${ARCHIVE_KEY}", prefix="stores/one")
    place = str(tmp_path / "store")

    def init(**more: Any) -> tuple[int, str, str]:
        chosen = {**options, **more}
        words = [word for key, value in chosen.items() for word in ("--option", f"{key}={value}")]
        return told(capsys, "init", place, "--binding", "azure", *words)

    code, _, err = init(container="not-there")
    assert (code != 0, "there is no container 'not-there'" in err) == (True, True), err
    code, _, err = init(blobs="both")
    assert (code != 0, "azure.blobs" in err) == (True, True), err
    assert init()[0] == 0
    assert "${ARCHIVE_KEY}" in (tmp_path / "store" / "siltstone.yaml").read_text()
    before = raw.names()
    assert all(name.startswith("stores/one/") for name in before)
    code, out, _ = told(capsys, "--store", place, "doctor", "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert (code, [row for row in rows if row["outcome"] == "failed"]) == (0, [])
    assert [row["outcome"] for row in rows if row["name"] == "create is exclusive"] == ["ok"]
    assert raw.names() == before


@pytest.mark.slow
def test_garbage_goes_by_few_requests(azurite: Azurite, tmp_path: Path) -> None:
    container, raw = new_container(azurite)
    with FaultProxy(("127.0.0.1", azurite.port)) as proxy:
        endpoint = f"{proxy.endpoint}/{azurite.key_id}"
        options = options_of(azurite, container, endpoint=endpoint)
        file = siltstone.init(tmp_path / "store", binding="azure", options=options)
        text = file.read_text()
        file.write_text(f"{text}\nflush:\n  pack_bytes: 1\ngarbage:\n  delay: 0s\n")
        with siltstone.open(file) as store:
            for number in range(20):
                segment = store.create(f"s{number}")
                segment.append(bytes(100))
                segment.flush()
            assert len(raw.names("data/")) == 20
            proxy.forget()
            for number in range(20):
                store.segment(f"s{number}").delete()
            for _ in range(4):
                store.flush()
                store.collect()
            assert raw.names("data/") == []
            assert 1 <= proxy.count("POST", "comp=batch") <= 4
            assert proxy.count("DELETE", "/data/") == 0
