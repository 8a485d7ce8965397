"""The trial of docs/bindings/s3.md: its block runs as it stands, but for the address."""

from __future__ import annotations

from pathlib import Path

from services.s3_server import S3Server
from tests.support.docs.pages import run_trial
from tests.support.services.s3_services import new_bucket


def test_the_block_of_the_page_makes_a_store(versitygw: S3Server, tmp_path: Path) -> None:
    bucket, raw = new_bucket(versitygw)
    told = {"http://localhost:9000": versitygw.endpoint, "bucket=trial": f"bucket={bucket}"}
    secrets = {"TRIAL_KEY": versitygw.key_id, "TRIAL_SECRET": versitygw.secret}
    printed = run_trial(tmp_path, "bindings/s3.md", told, **secrets)
    assert printed.splitlines()[-1] == "hello"
    assert raw.keys("data/")
