"""The trial of docs/tier1/kafka.md: its block runs as it stands, but for the address."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.free_port import free_port
from siltstone.cli.main import run
from tests.faults.kafka.log_case import KafkaCase
from tests.support.docs.pages import run_trial


class TestTrial(KafkaCase):
    def test_the_block_of_the_page_makes_a_store(self, tmp_path: Path) -> None:
        told = {"localhost:9092": self.broker.endpoint, "topic=trial": f"topic={self.topic}"}
        assert run_trial(tmp_path, "tier1/kafka.md", told).splitlines()[-1] == "hello"
        assert f"{self.topic}-0" in self.outside_topics()

    def outside_topics(self) -> list[str]:
        with self.outside.admin() as admin:
            return list(admin.list_topics())


def test_an_address_where_no_broker_is_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    server = f"127.0.0.1:{free_port()}"
    options = [f"servers={server}", "topic=t", "single_broker=true", "insecure=true"]
    options.append("deadline_s=1")
    words = [word for option in options for word in ("--log-option", option)]
    assert run(["init", str(tmp_path / "store"), "--log", "kafka", *words]) == 1
    said = capfd.readouterr().err
    assert f"servers={server}" in said
    assert "look at servers" in said
    assert not (tmp_path / "store").exists()
