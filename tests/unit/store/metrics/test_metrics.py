"""What is measured, compared with what was done; how it is shown; and that off means off."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import REGISTRY, CollectorRegistry

import siltstone
from services.free_port import free_port
from siltstone.core.errors import SettingsError
from siltstone.core.metrics import METRICS, NO_METRICS, MetricKind
from siltstone.store.metrics import exposition
from siltstone.store.metrics.prometheus_metrics import PrometheusMetrics
from siltstone.store.metrics.spans import Spans
from tests.support import inside
from tests.support.faults.held_things import held_uncollected

PAGE = Path(__file__).resolve().parents[4] / "docs" / "metrics.md"


def test_every_metric_is_documented() -> None:
    row = re.compile(r"(?m)^\| `(siltstone_\w+)` \| (\w+) \| (.+?) \| (.+?) \|$")
    rows = row.findall(PAGE.read_text(encoding="utf-8"))
    known = [
        (
            metric.name,
            metric.kind.value,
            ", ".join(f"`{label}`" for label in metric.labels) or "–",
            metric.text,
        )
        for metric in METRICS
    ]
    assert rows == known
    assert len({metric.name for metric in METRICS}) == len(METRICS) > 30


def test_every_operation_is_documented() -> None:
    timed = re.compile(r"""timed\(\s*"(\w+)\"""")
    sources = (PAGE.parents[1] / "siltstone").rglob("*.py")
    known = {name for path in sources for name in timed.findall(path.read_text(encoding="utf-8"))}
    table = PAGE.read_text(encoding="utf-8").partition("| operation |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1] for line in table.splitlines()[2:]]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == known


def test_what_is_not_measured_costs_nothing_and_breaks_nothing() -> None:
    for metric in METRICS:
        NO_METRICS.add(metric, 1, *metric.labels)
    with NO_METRICS.timed("read"), NO_METRICS.span("x"):
        NO_METRICS.ended("x", 1.0)
    assert not NO_METRICS.enabled


@pytest.mark.slow
def test_a_store_without_metrics_imports_none(tmp_path: Path) -> None:
    siltstone.init(tmp_path)
    code = (
        "import sys, siltstone\n"
        f"with siltstone.open({str(tmp_path)!r}) as store: store.create('a').append(b'x')\n"
        "print(*sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not {"prometheus_client", "opentelemetry"} & set(run.stdout.split())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store that measures."""
    settings = siltstone.init(tmp_path / "store")
    text = settings.read_text(encoding="utf-8") + "\nmetrics:\n  enabled: true\n"
    settings.write_text(text.replace("path: ./tier1", "path: ./tier1\n    file_bytes: 16MiB"))
    return settings.parent


def value(store: str, name: str, **labels: str) -> float:
    """The value of one sample; 0 when there is none."""
    found = REGISTRY.get_sample_value(name, {"store": store, "container": "0", **labels})
    return found or 0.0


def test_what_is_done_is_counted(folder: Path) -> None:
    with siltstone.open(folder) as store:
        uuid = store.uuid
        segment = store.create("a")
        for _ in range(10):
            segment.append(bytes(1_000))
        segment.append_many([b"xy", b"z"])
        frames = value(uuid, "siltstone_log_frames_total")
        assert 11 <= value(uuid, "siltstone_log_requests_total") <= 13
        assert value(uuid, "siltstone_log_append_seconds_count") == frames
        assert value(uuid, "siltstone_log_bytes_total", kind="user") == 10_003
        assert value(uuid, "siltstone_log_bytes_total", kind="table") > 0
        segment.flush()
        wrote = {"operation": "write", "segments": "user"}
        assert value(uuid, "siltstone_operation_seconds_count", **wrote) == 1
        assert value(uuid, "siltstone_operation_bytes_total", **wrote) == 10_003
        for operation in ("write", "commit"):
            system = {"operation": operation, "segments": "system"}
            assert value(uuid, "siltstone_operation_seconds_count", **system) >= 1
        commit = {"operation": "commit", "segments": "user"}
        assert value(uuid, "siltstone_operation_seconds_count", **commit) == 1
        created = value(uuid, "siltstone_storage_calls_total", operation="create", outcome="done")
        assert created >= 4, "a chunk, the table log, claim and journal"
        assert value(uuid, "siltstone_storage_bytes_total", operation="create") > 10_003
        for kind in ("call", "queue"):
            name = f"siltstone_storage_{kind}_seconds_count"
            assert value(uuid, name, operation="create") == created
        assert segment.read(0, 5_000) == bytes(5_000)
        assert value(uuid, "siltstone_chunks_read_total") == 1
        read = {"operation": "read", "segments": "user"}
        assert value(uuid, "siltstone_operation_bytes_total", **read) == 5_000
        assert value(uuid, "siltstone_storage_bytes_total", operation="read_into") >= 5_000
        assert value(uuid, "siltstone_operation_bytes_per_second_count", **read) == 0
        large = store.create("large")
        large.append(bytes(200_000))
        large.flush()
        large.read(0, 200_000)
        for labels in (wrote, read):
            rates = "siltstone_operation_bytes_per_second"
            assert value(uuid, f"{rates}_count", **labels) == 1
            assert value(uuid, f"{rates}_sum", **labels) > 0
        segment.truncate(10_003)
        segment.seal()
        segment.delete()
        for verb in ("create", "truncate", "seal", "delete"):
            labels = {"operation": verb, "segments": "user"}
            times = 2 if verb == "create" else 1
            assert value(uuid, "siltstone_operation_seconds_count", **labels) == times, verb


@pytest.mark.slow
def test_gauges_show_the_moment_and_go_with_the_container(folder: Path) -> None:
    with siltstone.open(folder) as store:
        uuid = store.uuid
        segment = store.create("a")
        store.flush()
        segment.append(bytes(500))

        async def measured() -> None:
            await inside.async_store(store).environment.sleep(1.2)

        store._loop.run(measured())
        assert value(uuid, "siltstone_unflushed_bytes", kind="user") == 500
        assert value(uuid, "siltstone_exposed_bytes") >= 500
        assert value(uuid, "siltstone_log_held", reason="user_bytes") == 1
        assert value(uuid, "siltstone_log_held", reason="table_log") == 0
        assert value(uuid, "siltstone_log_kept_frames") >= 2
        assert value(uuid, "siltstone_log_kept_bytes") >= 500
        assert value(uuid, "siltstone_health_state", state="ok") == 1
        assert value(uuid, "siltstone_health_state", state="degraded") == 0
        assert value(uuid, "siltstone_safe_mode") == 0
        assert value(uuid, "siltstone_free_bytes") > 0
        assert value(uuid, "siltstone_unflushed_age_seconds") > 0
        gauges = [metric for metric in METRICS if metric.kind is MetricKind.GAUGE]
        shown = {sample.name for family in REGISTRY.collect() for sample in family.samples}
        unknown = {
            "siltstone_used_bytes",
            "siltstone_collection_batches",  # of a process that has collections open
            "siltstone_collection_parts",
            "siltstone_object_queue_bytes",  # of one that has keyspaces open
            "siltstone_value_live_ratio",
        }
        assert {metric.name for metric in gauges} - shown <= unknown
    left = {
        sample.name
        for family in REGISTRY.collect()
        for sample in family.samples
        if sample.labels.get("store") == uuid
    }
    assert not left & {metric.name for metric in gauges}
    assert "siltstone_log_frames_total" in left


@pytest.fixture
def shown(folder: Path) -> Iterator[tuple[Path, int]]:
    """A store that shows its metrics, and the port."""
    port = free_port()
    file = folder / "siltstone.yaml"
    file.write_text(file.read_text(encoding="utf-8") + f"  port: {port}\n", encoding="utf-8")
    yield folder, port
    for thread in threading.enumerate():
        if thread.name == "siltstone-metrics-end":
            thread.join()


def test_metrics_are_shown_on_this_machine_alone(shown: tuple[Path, int]) -> None:
    folder, port = shown
    with siltstone.open(folder) as store:
        store.create("a").append(b"x")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=120) as answer:
            text = answer.read().decode()
        assert f'siltstone_log_frames_total{{container="0",store="{store.uuid}"}}' in text
        with siltstone.open(folder, read_only=True) as reader:
            assert reader.segment("a").read(0, 1) == b"x"
    listening = Path("/proc/net/tcp").read_text(encoding="utf-8")
    assert f"00000000:{port:04X}" not in listening


def test_a_taken_port_harms_nothing(
    shown: tuple[Path, int], caplog: pytest.LogCaptureFixture
) -> None:
    folder, port = shown
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        with siltstone.open(folder) as store:
            assert store.create("a").append(b"x") == 0
    assert "metrics are not shown" in caplog.text


def test_a_port_without_metrics_is_refused(folder: Path) -> None:
    file = folder / "siltstone.yaml"
    text = file.read_text(encoding="utf-8").replace("enabled: true\n", "port: 9999\n")
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match=r"metrics\.port: is set, and metrics\.enabled is not"):
        siltstone.open(folder)


def test_a_missing_package_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "siltstone.store.metrics.prometheus_metrics", None)
    with pytest.raises(SettingsError, match=r"pip install 'prometheus-client<1,>=0.22'"):
        siltstone.open(folder)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """The spans that end from now on."""
    made = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(made))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return made


def test_spans_of_calls_lie_below_those_of_what_made_them(
    folder: Path, kept: InMemorySpanExporter
) -> None:
    with siltstone.open(folder) as store:
        store.create("a").append(b"x")
        kept.clear()
        store.segment("a").flush()
        spans = {span.name: span for span in kept.get_finished_spans() if span.attributes}
    names = [
        span
        for span in kept.get_finished_spans()
        if span.attributes and "/a/" in str(span.attributes.get("siltstone.chunk", ""))
    ]
    (call,) = [span for span in names if span.name == "siltstone.storage.create"]
    assert call.parent is not None
    writes = [span for span in kept.get_finished_spans() if span.name == "siltstone.write"]
    assert call.parent.span_id in {span.context.span_id for span in writes if span.context}
    assert call.attributes is not None
    assert call.attributes["siltstone.outcome"] == "done"
    assert "siltstone.write" in spans


def test_the_span_of_a_creation_lasts_until_its_outcome(
    folder: Path, kept: InMemorySpanExporter
) -> None:
    with siltstone.open(folder) as store:
        store.create("a")
        with pytest.raises(siltstone.SegmentExistsError):
            store.create("a")
    spans = [span for span in kept.get_finished_spans() if span.name == "siltstone.create"]
    assert [len(span.events) for span in spans] == [0, 1]


def test_an_operation_that_fails_is_timed_and_moves_no_byte() -> None:
    registry = CollectorRegistry()
    times = iter((10.0, 12.5))
    metrics = PrometheusMetrics("s", 3, lambda: next(times), registry=registry)
    with pytest.raises(ValueError, match="no"), metrics.timed("read", length=99):
        raise ValueError("no")
    labels = {"store": "s", "container": "3", "operation": "read", "segments": "user"}
    assert registry.get_sample_value("siltstone_operation_seconds_sum", labels) == 2.5
    assert registry.get_sample_value("siltstone_operation_bytes_total", labels) is None


def test_a_span_that_ended_has_its_times() -> None:
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    Spans(provider.get_tracer("t"), lambda: 100.0).ended("x", 2.5, chunk="c")
    (span,) = kept.get_finished_spans()
    assert (span.start_time, span.end_time) == (97_500_000_000, 100_000_000_000)


def test_nothing_listens_without_a_port() -> None:
    settings = exposition.MetricsSettings(enabled=True)
    before = held_uncollected()
    exposition.expose(settings)()
    assert not held_uncollected() - before
