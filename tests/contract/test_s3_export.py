"""Exports into a bucket of a real server, written and compared by pyarrow's client, on threads."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pyarrow.parquet
import pytest

import siltstone
from services.s3_server import REGION, S3Server
from siltstone.cli.main import run as command
from siltstone.core.errors import CorruptDataError, SettingsError
from siltstone.pipelines.export import UNREADABLE, export, plan_export
from siltstone.pipelines.export_layout import Form, Records, folder_name
from siltstone.pipelines.store_view import store_view
from siltstone.pipelines.verify_export import (
    BEHIND,
    DIFFERS,
    MISSING,
    plan_verify_export,
    verify_export,
)
from siltstone.pipelines.work import OK, SAME
from tests.support.seen_work import Seeing
from tests.support.services.raw_s3 import RawS3
from tests.support.services.s3_services import new_bucket

FILE_BYTES = 100_000
NAMES = ("a", "flights/2013 ü%", "empty")
ROOT = "some/where"


@pytest.fixture
def place(versitygw: S3Server, monkeypatch: pytest.MonkeyPatch) -> tuple[str, RawS3]:
    """The address of an empty bucket, whose credentials are in the environment."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", versitygw.key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", versitygw.secret)
    bucket, raw = new_bucket(versitygw)
    endpoint = quote(versitygw.endpoint.removeprefix("http://"), safe="")
    query = f"region={REGION}&scheme=http&endpoint_override={endpoint}"
    return f"s3://{bucket}/{ROOT}?{query}", raw


def lines(first: int, count: int) -> bytes:
    return "".join(f"řádek {number}\n" for number in range(first, first + count)).encode()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    siltstone.init(tmp_path)
    with siltstone.open(tmp_path) as opened:
        for name in NAMES:
            opened.create(name).append(b"" if name == "empty" else lines(0, 20_000))
        opened.flush()
    return tmp_path


def run(store: Path, target: str, form: Form, records: Records) -> tuple[list[str], bytes]:
    """Export all; return what became of each file, and what travelled."""
    executor = Seeing()
    with store_view(store) as view:
        items = plan_export(view, view.segments(), target, form, records, FILE_BYTES)
        return [outcome.status for outcome in export(view, executor, items)], executor.seen


def compared(store: Path, target: str) -> list[tuple[str, str]]:
    with store_view(store) as view:
        items, known = plan_verify_export(view, target)
        return [(o.subject, o.status) for o in (*known, *verify_export(view, Seeing(), items))]


def files(raw: RawS3, name: str, ending: str) -> dict[str, bytes]:
    """What a bucket holds of a segment, seen from outside."""
    keys = raw.keys(f"{ROOT}/{folder_name(name)}/")
    return {key: raw.read(key) or b"" for key in sorted(keys) if key.endswith(ending)}


def test_bytes_go_to_a_bucket_once_and_without_a_secret(
    store: Path, place: tuple[str, RawS3], versitygw: S3Server
) -> None:
    target, raw = place
    statuses, seen = run(store, target, Form.FILES, Records.BYTES)
    assert set(statuses) == {OK}
    assert len(statuses) > 4
    before = {name: files(raw, name, ".bin") for name in NAMES}
    for name in NAMES:
        content = b"" if name == "empty" else lines(0, 20_000)
        assert b"".join(before[name].values()) == content
    assert versitygw.secret.encode() not in seen
    assert versitygw.key_id.encode() not in seen
    assert run(store, target, Form.FILES, Records.BYTES)[0] == [], "nothing is missing"
    with siltstone.open(store) as opened:
        opened.segment("a").append(b"more")
        opened.flush()
    assert [status for _, status in compared(store, target)].count(BEHIND) == 1
    assert run(store, target, Form.FILES, Records.BYTES)[0] == [OK]
    later = files(raw, "a", ".bin")
    assert list(later.values())[-1] == b"more"
    assert {key: later[key] for key in before["a"]} == before["a"]
    assert {status for _, status in compared(store, target)} == {OK}


def test_the_command_takes_the_address(
    store: Path, place: tuple[str, RawS3], capfd: pytest.CaptureFixture[str]
) -> None:
    target, raw = place
    local = ["--executor", "local"]
    assert command(["--store", str(store), "spark", "export", target, "a", *local]) == 0
    assert command(["--store", str(store), "spark", "verify", target, *local]) == 0
    first = next(iter(files(raw, "a", ".parquet")))
    raw.write(first, b"no Parquet")
    assert command(["--store", str(store), "spark", "verify", target, *local]) == 6
    assert f"differs: {first.removeprefix(f'{ROOT}/')}" in capfd.readouterr().out


def test_tables_go_to_a_bucket_and_every_file_is_compared(
    store: Path, place: tuple[str, RawS3]
) -> None:
    target, raw = place
    statuses, _ = run(store, target, Form.PARQUET, Records.LINES)
    assert set(statuses) == {OK}
    found = files(raw, NAMES[1], ".parquet")
    tables = [pyarrow.parquet.read_table(io.BytesIO(content)) for content in found.values()]
    values = pyarrow.concat_tables(tables).column("value").to_pylist()
    assert values == lines(0, 20_000).decode().splitlines()
    assert {status for _, status in compared(store, target)} == {OK}
    first, second, *_ = files(raw, "a", ".parquet")
    raw.write(first, next(iter(found.values()))[:-9])
    raw.remove(second)
    wrong = {name: status for name, status in compared(store, target) if status != OK}
    assert sorted(wrong.values()) == sorted([DIFFERS, MISSING])
    assert wrong[first.removeprefix(f"{ROOT}/")] == DIFFERS
    with pytest.raises(siltstone.StoreError, match="the folder holds another export"):
        run(store, target, Form.FILES, Records.BYTES)


def test_a_file_that_cannot_be_finished_does_not_appear(
    store: Path, place: tuple[str, RawS3], monkeypatch: pytest.MonkeyPatch
) -> None:
    target, raw = place

    def halved(*_: object) -> Iterator[memoryview]:
        yield memoryview(b"half")
        raise CorruptDataError("damaged on purpose", where="a")

    with monkeypatch.context() as patch:
        patch.setattr("siltstone.pipelines.export.read_range", halved)
        statuses, _ = run(store, target, Form.FILES, Records.BYTES)
    assert set(statuses) == {UNREADABLE}
    assert {key.rpartition("/")[2] for key in raw.keys(ROOT)} == {"_export.json"}
    assert raw.uploads() == []
    assert set(run(store, target, Form.FILES, Records.BYTES)[0]) == {OK}


def test_a_bucket_that_is_not_there_ends_the_plan(store: Path, place: tuple[str, RawS3]) -> None:
    target, _ = place
    with pytest.raises(OSError, match="nobodys-bucket"):
        run(store, target.replace("s3://b-", "s3://nobodys-bucket-"), Form.FILES, Records.BYTES)


def test_wrong_credentials_end_the_plan(
    store: Path, place: tuple[str, RawS3], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-2")
    with pytest.raises(OSError, match=r"ACCESS_DENIED|SignatureDoesNotMatch") as caught:
        run(store, place[0], Form.FILES, Records.BYTES)
    assert "canary" not in str(caught.value)


def test_a_file_that_is_there_stays_as_it_is(store: Path, place: tuple[str, RawS3]) -> None:
    """Two jobs planned the same files: the second one comes to them when they are there."""
    target, raw = place
    with store_view(store) as view:
        items = plan_export(view, view.segments(), target, Form.PARQUET, Records.LINES, FILE_BYTES)
        assert {outcome.status for outcome in export(view, Seeing(), items)} == {OK}
        key, *_ = files(raw, "a", ".parquet")
        raw.write(key, b"stays")
        assert {outcome.status for outcome in export(view, Seeing(), items)} == {SAME}
    assert raw.read(key) == b"stays"


def test_a_prefix_without_an_export_is_told(store: Path, place: tuple[str, RawS3]) -> None:
    with pytest.raises(SettingsError, match="there is no export in b-"):
        compared(store, place[0])


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("s3://key:canary-1@bucket/x", "holds no credentials"),
        ("gs://bucket/x", "not to gs://"),
        ("s3://bucket/x?wrong=1", "no place for an export"),
    ],
)
def test_addresses_that_are_refused(store: Path, target: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message) as caught:
        run(store, target, Form.FILES, Records.BYTES)
    assert "canary" not in str(caught.value)
