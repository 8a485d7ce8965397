"""A whole store on the stub: what its garbage costs, and what its sweep finds."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import pytest

import siltstone
from tests.plugins.distribution import install
from tests.support.stubs.s3_stub import Stub, refusal

OPTIONS = ("bucket", "endpoint", "insecure", "region", "path_style")


@pytest.fixture
def _installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let the plugin be found where this checkout was installed before it had it."""
    if not list(entry_points(group="siltstone.bindings", name="s3")):
        group = {"siltstone.bindings": {"s3": "siltstone.bindings.s3.plugin"}}
        install(monkeypatch, tmp_path / "plugins", group, distribution="siltstone-s3")


@pytest.mark.slow
@pytest.mark.usefixtures("_installed")
def test_garbage_goes_by_few_requests_and_a_sweep_aborts_uploads(
    stub: Stub, tmp_path: Path
) -> None:
    settings = stub.settings()
    options = {key: getattr(settings, key) for key in OPTIONS}
    secrets = {"access_key_id": "id", "secret_access_key": "secret"}
    file = siltstone.init(tmp_path / "store", binding="s3", options=options | secrets)
    text = file.read_text()
    file.write_text(f"{text}\nflush:\n  pack_bytes: 1\ngarbage:\n  delay: 0s\n")
    ours = "data/c0/e00000000000000000001/a/forgotten"
    stub.uploads = {"u-ours": (ours, {1: b"x"}), "u-theirs": ("theirs/a", {1: b"x"})}
    with siltstone.open(file) as store:
        for number in range(30):
            segment = store.create(f"s{number}")
            segment.append(bytes(100))
            segment.flush()
        chunks = [key for key in stub.objects if key.startswith("data/")]
        assert len(chunks) == 30
        stub.asked.clear()
        for number in range(30):
            store.segment(f"s{number}").delete()
        for _ in range(4):
            store.flush()
            store.collect()
        assert not [key for key in stub.objects if key.startswith("data/")]
        assert 1 <= stub.whats().count("POST?delete") <= 4
        assert not [r for r in stub.asked if r.what == "DELETE" and r.key.startswith("data/")]
        stub.fail("GET?uploads", refusal(403, "AccessDenied"))
        list(store.sweep(delete=True))
        assert len(stub.uploads) == 2
        list(store.sweep(delete=True))
    assert list(stub.uploads) == ["u-theirs"]
