"""Kafka: one broker of Apache Kafka that is its own controller. Java, Apache-2.0."""

from __future__ import annotations

import base64
import os
import socket
import struct
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from services.free_port import free_port
from services.java import java
from services.maven_program import MavenProgram
from services.server import Server, StartError

JAVA_OPTIONS = (
    "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xms64m", "-Xmx256m",
    "-Djava.net.preferIPv4Stack=true", "-Djava.awt.headless=true",
)  # fmt: skip
PROTOCOLS = "PLAINTEXT:PLAINTEXT,RELAYED:PLAINTEXT,CONTROLLER:PLAINTEXT"
FORMAT_S = 60
API_VERSIONS = struct.pack(">hhih5s", 18, 0, 7, 5, b"ready")


PROGRAM = MavenProgram(
    name="kafka",
    group="org.apache.kafka",
    artifacts=("kafka_2.13",),
    pin="4.3.1",
    sums=Path(__file__).with_name("kafka.sha256"),
)


class Kafka(Server):
    """A broker without topics, which makes no topic unless it is asked to.

    Args:
        program: the folder of jars.
        relay_port: where a relay to ``relayed_port`` listens; a client that comes there is told to
            use it again.

    Attributes:
        relayed_port: see above; 0 without.
        cluster_id: of its data.
    """

    def __init__(self, program: Path, relay_port: int = 0) -> None:
        super().__init__("kafka")
        self._program = program
        self._configured = 0
        self._relay_port = relay_port
        self.relayed_port = 0
        identity = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")
        # A leading hyphen would be an option.
        self.cluster_id = f"S{identity[1:]}"

    def command(self) -> Sequence[str]:
        """See ``Server``; a new broker is formatted first."""
        properties = self.folder / "server.properties"
        if self._configured != self.port:
            self._write(properties)
        line = [java(), *JAVA_OPTIONS, "-cp", f"{self._program}/*"]
        if not (self.data / "meta.properties").exists():
            self._format([*line, "kafka.tools.StorageTool", "format", "-c", str(properties)])
        return [*line, "kafka.Kafka", str(properties)]

    def environment(self) -> Mapping[str, str]:
        """See ``Server``."""
        return {"HOME": str(self.folder)}

    def controller_port(self) -> int:
        """Where its controller must listen."""
        return free_port()

    def listeners(self) -> Mapping[str, tuple[int, str]]:
        """Port and protocol of further listeners, by their names."""
        return {}

    def more(self) -> Mapping[str, Any]:
        """Further properties."""
        return {}

    def format_options(self) -> Sequence[str]:
        """How the data are formatted."""
        return ()

    def is_ready(self) -> bool:
        """Whether it answers a request; it takes connections earlier."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                connection.settimeout(2)
                connection.sendall(struct.pack(">i", len(API_VERSIONS)) + API_VERSIONS)
                head = connection.recv(8, socket.MSG_WAITALL)
        except OSError:
            return False
        return len(head) == 8 and struct.unpack(">ii", head)[1] == 7

    def _write(self, properties: Path) -> None:
        controller = self.controller_port()
        own = advertised = f"PLAINTEXT://127.0.0.1:{self.port}"
        if self._relay_port:
            self.relayed_port = free_port()
            own += f",RELAYED://127.0.0.1:{self.relayed_port}"
            advertised += f",RELAYED://127.0.0.1:{self._relay_port}"
        protocols = PROTOCOLS
        for name, (port, protocol) in self.listeners().items():
            own += f",{name}://127.0.0.1:{port}"
            advertised += f",{name}://127.0.0.1:{port}"
            protocols += f",{name}:{protocol}"
        lines = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"{own},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": advertised,
            "listener.security.protocol.map": protocols,
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": self.data,
            "default.replication.factor": 1,
            "min.insync.replicas": 1,
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "share.coordinator.state.topic.num.partitions": 1,
            "group.initial.rebalance.delay.ms": 0,
            "auto.create.topics.enable": "false",
            # A killed broker comes back when the controller has given it up, 9 s otherwise.
            "broker.session.timeout.ms": 1500,
            "broker.heartbeat.interval.ms": 300,
            "log.cleaner.dedupe.buffer.size": 2097152,
            # Records that a topic's settings let it delete are deleted at once, not after minutes.
            "log.initial.task.delay.ms": 300,
            "log.retention.check.interval.ms": 300,
            "log.cleaner.backoff.ms": 300,
            "num.network.threads": 2,
            "num.io.threads": 4,
            "num.recovery.threads.per.data.dir": 1,
            **self.more(),
        }
        text = "\n".join(f"{name}={value}" for name, value in lines.items())
        properties.write_text(text + "\n", encoding="ascii")
        self._configured = self.port

    def _format(self, line: Sequence[str]) -> None:
        done = subprocess.run(
            [*line, "-t", self.cluster_id, *self.format_options()],
            env=dict(self.environment()),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=FORMAT_S,
            check=False,
        )
        if done.returncode:
            raise StartError(f"formatting failed\n{done.stdout.decode(errors='replace')[-2000:]}")
