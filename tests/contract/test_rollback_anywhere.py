"""A legacy layout on real services goes into a store, and back with what was appended since."""

from __future__ import annotations

from pathlib import Path

import pytest

import siltstone
from siltstone.cli.main import run
from tests.support.services.places import Place, of_azure, of_hdfs, of_s3

pytestmark = pytest.mark.services

LAYOUT = {
    "a$header": "maxsize=3&0=a$offset.0&3=a$offset.3&",
    "a$offset.0": "abc",
    "a$offset.3": "de",
    "bare": "bytes",
}


@pytest.fixture(params=["hdfs", "azure", "s3"])
def place(request: pytest.FixtureRequest) -> Place:
    request.getfixturevalue(f"{request.param}_plugin")
    if request.param == "azure":
        return of_azure(request, blobs="append")
    return of_s3(request) if request.param == "s3" else of_hdfs(request, unsafe_append=True)


def test_what_was_appended_since_is_written_to_the_layout(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = siltstone.init(tmp_path / "store", binding=place.binding, options=place.options)
    # On HDFS names end with the epoch of the writer.
    end = "_7" if place.binding == "hdfs" else ""
    for key, text in LAYOUT.items():
        place.service.outside_write(f"old/{key}{end}", text.encode())
    sealed = tmp_path / "sealed"
    sealed.write_text("")
    told = ["storage:old", "--sealed", str(sealed)]

    def call(*words: str) -> tuple[int, str]:
        code = run(["--store", str(settings), *words])
        return code, capsys.readouterr().err

    assert call("migrate", "legacy", *told, "--in-place")[0] == 0
    with siltstone.open(settings) as store:
        store.segment("a").append(b"fg")
        store.segment("bare").append(b" more")
    code, said = call("migrate", "rollback", *told)
    if place.binding == "s3":
        assert (code, "a: its header is an object" in said) == (4, True)
        assert place.names("old/") == sorted(f"old/{key}" for key in LAYOUT)
        return
    assert code == 0, said
    assert place.service.outside_read(f"old/a$offset.5{end}") == b"fg"
    header = LAYOUT["a$header"] + "5=a$offset.5&"
    assert place.service.outside_read(f"old/a$header{end}") == header.encode()
    bare = place.service.outside_read(f"old/bare$header{end}")
    assert bare is not None
    assert bare.endswith(b"&0=bare&5=bare$offset.5&")
    assert place.service.outside_read(f"old/bare$offset.5{end}") == b" more"
