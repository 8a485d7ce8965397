"""Real servers, for the tests that ask for one by the name of a fixture.

Such a test has the marker ``services`` without saying so. A server that is not available is a skip,
which the end of the run repeats with its reason, or a failure where the run must have it.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from importlib.metadata import entry_points
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import settings

from services.azurite import Azurite
from services.catalogue import SERVICES, is_demanded
from services.certificates import Authority
from services.hdfs import Hdfs
from services.kafka import Kafka
from services.kafka_cluster import KafkaCluster
from services.kafka_secured import SecuredKafka
from services.kernel_nfs import KernelNfs
from services.server import Server
from services.unavailable import UnavailableError
from services.versitygw import Versitygw
from tests.plugins.distribution import install
from tests.support.async_tests import pytest_pyfunc_call as pytest_pyfunc_call
from tests.support.kafka_relay import KafkaRelay
from tests.support.memory_folder import memory_folder

# No example counts as slow because a machine is: added to what the library chooses itself in CI.
settings.register_profile(
    "untimed", settings.get_profile(settings.get_current_profile_name()), deadline=None
)
settings.load_profile("untimed")

MISSING = "missing service "
KAFKA_PASSWORDS = {name: f"canary-{name}-5d02" for name in ("owner", "reader", "stranger")}

ROOT = "PYTEST_DEBUG_TEMPROOT"
"""pytest's variable for the folder below which each test gets its own."""
ROOM_BYTES = 2 << 30
"""Twice of what the folders of a run hold at any time: a process had up to 300 MiB."""

TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""Gives what is free to the system; ``None`` where the C library has no such function."""

NewAzurite = Callable[..., Azurite]
NewVersitygw = Callable[..., Versitygw]
AddPlugin = Callable[[str, str], None]
"""Takes ``bindings`` or ``tier1``, and the name."""


def program_of(name: str) -> Path:
    """The program of a service, or the end of the test."""
    try:
        return SERVICES[name].installed()
    except UnavailableError as error:
        reason = f"{MISSING}{name}: {error}"
    if is_demanded(name):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def versitygw() -> Iterator[Server]:
    """An S3 server with plain HTTP; each test makes its own bucket."""
    with SERVICES["versitygw"].make(program_of("versitygw")) as server:
        yield server.start()


@pytest.fixture(scope="session")
def minio() -> Iterator[Server]:
    """Another S3 server."""
    with SERVICES["minio"].make(program_of("minio")) as server:
        yield server.start()


@pytest.fixture(scope="session")
def fake_gcs_server() -> Iterator[Server]:
    """A server of Google Cloud Storage, which heeds few conditions."""
    with SERVICES["fake-gcs-server"].make(program_of("fake-gcs-server")) as server:
        yield server.start()


@pytest.fixture(scope="session")
def azurite() -> Iterator[Server]:
    """The blob service of Azure with plain HTTP; each test makes its own container."""
    with SERVICES["azurite"].make(program_of("azurite")) as server:
        yield server.start()


@pytest.fixture(scope="session")
def kafka_relay() -> Iterator[KafkaRelay]:
    """A way to the broker on which a test can do harm."""
    with KafkaRelay() as relay:
        yield relay


@pytest.fixture(scope="session")
def kafka(kafka_relay: KafkaRelay) -> Iterator[Kafka]:
    """A broker; each test makes its own topics."""
    with Kafka(program_of("kafka"), kafka_relay.port) as server:
        server.start()
        kafka_relay.upstream = ("127.0.0.1", server.relayed_port)
        yield server


@pytest.fixture(scope="session")
def kafka_tls(authority: Authority) -> Iterator[SecuredKafka]:
    """A broker with ports for TLS and credentials, one of which is set up correctly."""
    certificates = {
        "GOOD": authority.certificate(),
        "ELSEWHERE": authority.certificate(["elsewhere.example"]),
        "EXPIRED": authority.certificate(is_expired=True),
    }
    with SecuredKafka(program_of("kafka"), certificates, KAFKA_PASSWORDS) as server:
        yield server.start()


@pytest.fixture(scope="module")
def kafka_cluster() -> Iterator[KafkaCluster]:
    """Three brokers, which the tests of a file may kill as long as they start them again."""
    with closing(KafkaCluster(program_of("kafka"))) as cluster:
        yield cluster.start()


@pytest.fixture
def new_kafka() -> Iterator[Kafka]:
    """A broker of the test's own, which it may kill."""
    with Kafka(program_of("kafka")) as server:
        yield server.start()


@pytest.fixture(scope="session")
def kernel_nfs() -> Iterator[KernelNfs]:
    """A guest with an NFS client, and its server; each test makes its own mounts."""
    with KernelNfs(program_of("kernel-nfs")) as service:
        yield service.start()


@pytest.fixture(scope="session")
def hdfs() -> Iterator[Hdfs]:
    """A NameNode with two DataNodes; each test has its own folder."""
    with Hdfs(program_of("hdfs")) as server:
        yield server.start()


@pytest.fixture
def new_hdfs() -> Iterator[Hdfs]:
    """One of the test's own, which it may kill."""
    with Hdfs(program_of("hdfs")) as server:
        yield server.start()


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Who signs the certificates of servers."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def versitygw_tls(authority: Authority) -> Iterator[Server]:
    """The first S3 server, with TLS."""
    with Versitygw(program_of("versitygw"), authority.certificate()) as server:
        yield server.start()


@pytest.fixture(scope="session")
def azurite_tls(authority: Authority) -> Iterator[Server]:
    """The same, with TLS."""
    with Azurite(program_of("azurite"), authority.certificate()) as server:
        yield server.start()


@pytest.fixture
def new_azurite() -> Iterator[NewAzurite]:
    """Makes and starts servers of the test's own, which it may stop."""
    program = program_of("azurite")
    made: list[Server] = []

    def start(**options: Any) -> Azurite:
        server = Azurite(program, **options)
        made.append(server)
        return server.start()

    yield start
    for server in made:
        server.close()


@pytest.fixture
def new_versitygw() -> Iterator[NewVersitygw]:
    """Makes and starts servers of the test's own, which it may kill."""
    program = program_of("versitygw")
    made: list[Server] = []

    def start(**options: Any) -> Versitygw:
        server = Versitygw(program, **options)
        made.append(server)
        return server.start()

    yield start
    for server in made:
        server.close()


@pytest.fixture
def disk_path() -> Iterator[Path]:
    """A folder where temporary files usually are, for a test that is about a disk."""
    with TemporaryDirectory(prefix="siltstone-disk-") as folder:
        yield Path(folder)


@pytest.fixture
def add_plugin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AddPlugin:
    """Lets a plugin be found where this checkout was installed before it had it."""

    def add(kind: str, name: str) -> None:
        group = f"siltstone.{kind}"
        if not list(entry_points(group=group, name=name)):
            declared = {group: {name: f"siltstone.{kind}.{name}.plugin"}}
            install(monkeypatch, tmp_path / "plugins", declared, distribution=f"siltstone-{name}")

    return add


@pytest.fixture
def s3_plugin(add_plugin: AddPlugin) -> None:
    """The binding ``s3`` can be found."""
    add_plugin("bindings", "s3")


@pytest.fixture
def gcs_plugin(add_plugin: AddPlugin) -> None:
    """The binding ``gcs`` can be found."""
    add_plugin("bindings", "gcs")


@pytest.fixture
def azure_plugin(add_plugin: AddPlugin) -> None:
    """The binding ``azure`` can be found."""
    add_plugin("bindings", "azure")


@pytest.fixture
def hdfs_plugin(add_plugin: AddPlugin) -> None:
    """The binding ``hdfs`` can be found."""
    add_plugin("bindings", "hdfs")


@pytest.fixture
def kafka_plugin(add_plugin: AddPlugin) -> None:
    """The log ``kafka`` can be found."""
    add_plugin("tier1", "kafka")


def needs_a_service(fixture: str) -> bool:
    """Whether it has the name of a service, as ``x``, ``x_tls``, ``x_cluster`` or ``new_x``."""
    name = fixture.removeprefix("new_").removesuffix("_tls").removesuffix("_cluster")
    return name.replace("_", "-") in SERVICES


def pytest_configure() -> None:
    """Keep the files of tests in memory, and let interrupts interrupt.

    On a disk a test of a store would wait for its syncs most of the time, and they are half of its
    work. Tests that are about a disk use ``disk_path``.

    What a shell without job control starts in the background ignores interrupts, and so would every
    process that a test starts.
    """
    gc.disable()  # All that is made until the tests run is kept.
    memory = memory_folder(ROOM_BYTES)
    if memory is not None:
        os.environ.setdefault(ROOT, str(memory))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, obj: object
) -> list[pytest.Item] | None:
    """Make no items for soaks that the run leaves out: one in six of all tests, in each worker."""
    if "not soak" not in collector.config.getoption("markexpr"):
        return None
    marks = getattr(obj, "pytestmark", None)
    is_soak = isinstance(marks, list) and any(mark.name == "soak" for mark in marks)
    return [] if is_soak else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(map(needs_a_service, getattr(item, "fixturenames", ()))):
            item.add_marker(pytest.mark.services)


def pytest_collection_finish() -> None:
    """Tell the garbage collector that the tests themselves stay: there are many to look through."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, Any, Any]:
    """Give back after each file what its tests have freed.

    A store has many threads, each frees into an arena of its own, and the C library keeps that:
    several times of what is in use. Garbage in cycles holds large blocks as well, and so few
    objects that the collector does not come for it soon.
    """
    result = yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        if TRIM is not None:
            TRIM(0)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the servers of a failed test wrote."""
    report = yield
    if report.failed:
        for server in getattr(item, "funcargs", {}).values():
            if isinstance(server, Server) and server.log():
                report.sections.append((f"log of {server.name}", server.log()))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show again, so that it is seen, which services were missing and what was left out."""
    counts: dict[str, int] = {}
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if reason.startswith(MISSING):
            counts[reason] = counts.get(reason, 0) + 1
    if counts:
        terminalreporter.section("SERVICES THAT WERE MISSING", red=True, bold=True)
        for reason, count in sorted(counts.items()):
            terminalreporter.line(f"{count} tests left out, {reason}", red=True)
