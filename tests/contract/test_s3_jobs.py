"""Jobs on a store in a bucket of a real server, on threads; no plan holds a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

import siltstone
from services.s3_server import S3Server
from siltstone.container.compact.compaction import CompactionRules
from siltstone.core.constants import KIB, MIB
from siltstone.core.errors import SettingsError
from siltstone.pipelines.compact import compact
from siltstone.pipelines.copy_segments import copy
from siltstone.pipelines.export import export, plan_export
from siltstone.pipelines.export_layout import Form, Records
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.owned_store import owned_store
from siltstone.pipelines.scrub import MISSING, scrub
from siltstone.pipelines.store_view import store_view
from siltstone.pipelines.verify_copy import plan_verify_copy, verify_copy
from siltstone.pipelines.work import OK
from tests.support.seen_work import Seeing
from tests.support.services.s3_options import options, variables
from tests.support.services.s3_services import new_bucket

__all__ = ["variables"]


@pytest.mark.usefixtures("variables")
def test_every_job_works_in_a_bucket(
    versitygw: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket, raw = new_bucket(versitygw)
    file = siltstone.init(tmp_path / "store", binding="s3", options=options(versitygw, bucket))
    data = {f"s{number}": bytes([number]) * (200 * KIB + number) for number in range(6)}
    with siltstone.open(file) as store:
        for name, content in data.items():
            store.create(name).append(content)
        store.flush()
    folder = siltstone.init(tmp_path / "folder")
    executor = Seeing()
    rules = CompactionRules(small_bytes=MIB, chunk_bytes=16 * MIB, count_min=2)
    with owned_store(file) as owned:
        assert {outcome.status for outcome in compact(owned, executor, rules)} <= {OK}
    with store_view(file) as view:
        assert {outcome.status for outcome in scrub(view, executor)} == {OK}
        items = plan_export(view, view.segments(), tmp_path / "out", Form.FILES, Records.BYTES)
        assert {outcome.status for outcome in export(view, executor, items)} == {OK}
        with owned_store(folder) as target:
            found = list(copy(view, target, executor, view.segments()))
        assert {outcome.status for outcome in found} == {OK}
        with store_view(folder) as other:
            pairs, known = plan_verify_copy(view, other, view.segments())
            compared = [*known, *verify_copy(view, other, executor, pairs)]
        assert {outcome.status for outcome in compared} == {OK}
    for name, content in data.items():
        parts = sorted((tmp_path / "out" / f"segment={name}").glob("*.bin"))
        assert b"".join(part.read_bytes() for part in parts) == content
    assert versitygw.secret.encode() not in executor.seen
    assert versitygw.key_id.encode() not in executor.seen
    with store_view(file) as view:
        row = next(row for row in view.chunk_rows() if row.chunk.name.startswith("data/"))
        raw.remove(f"stores/one/{row.chunk.name}")
        wrong = [outcome for outcome in scrub(view, executor) if outcome.status != OK]
        assert [(o.subject, o.status) for o in wrong] == [(row.chunk.name, MISSING)]
        # A process without the variable says so, and says which one.
        monkeypatch.delenv("TEST_SECRET")
        with pytest.raises(SettingsError, match="TEST_SECRET"):
            list(scrub(view, LocalExecutor(1)))
        monkeypatch.setenv("TEST_SECRET", versitygw.secret)
