"""HDFS: a NameNode and two DataNodes of Apache Hadoop, each a process of its own.

Java, Apache-2.0. The user that starts it is its super-user.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self
from xml.sax.saxutils import escape

from services.free_port import free_port
from services.http_server import HttpServer
from services.java import java
from services.maven_program import MavenProgram
from services.server import READY_S, StartError

PROGRAM = MavenProgram(
    name="hdfs",
    group="org.apache.hadoop",
    artifacts=("hadoop-common", "hadoop-hdfs", "hadoop-hdfs-client"),
    pin="3.5.0",
    sums=Path(__file__).with_name("hadoop.sha256"),
)
JAVA_OPTIONS = (
    "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xmx160m",
    "-Djava.net.preferIPv4Stack=true", "-Djava.awt.headless=true",
)  # fmt: skip
MAIN = "org.apache.hadoop.hdfs.server"
FORMAT_S = 60
COPIES = 2
"""Copies of each block, and DataNodes. With one, the client waits 0.5 s for each new file."""
LOGGING = """log4j.rootLogger=WARN,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{2}: %m%n
"""


class _Role(HttpServer):
    """One process of the service, with its own folder of configuration.

    Args:
        name: for people.
        program: the folder of jars.
    """

    def __init__(self, name: str, program: Path) -> None:
        super().__init__(name)
        self._program = program
        self._configured = 0

    @property
    @abstractmethod
    def main(self) -> str:
        """The Java class that is run."""

    @abstractmethod
    def options(self) -> Mapping[str, object]:
        """The Hadoop configuration, with ports that are free."""

    def command(self) -> Sequence[str]:
        """See ``Server``."""
        if self._configured != self.port:
            self._configure()
        return [java(), *JAVA_OPTIONS, "-cp", self._classes(), f"{MAIN}.{self.main}"]

    def environment(self) -> Mapping[str, str]:
        """See ``Server``."""
        return {"HOME": str(self.folder), "HADOOP_CONF_DIR": str(self.folder / "conf")}

    def beans(self, query: str) -> dict[str, object]:
        """What the process reports about itself; nothing while it starts."""
        connection = http.client.HTTPConnection(self.address, timeout=5)
        try:
            connection.request("GET", f"/jmx?qry={query}")
            found = json.loads(connection.getresponse().read()).get("beans", [])
        except (OSError, http.client.HTTPException, ValueError):
            return {}
        finally:
            connection.close()
        return found[0] if found else {}

    def _configure(self) -> None:
        conf = self.folder / "conf"
        # Its HTTP servers insist on these folders; empty ones are enough.
        for part in ("hdfs", "datanode", "static"):
            (conf / "webapps" / part).mkdir(parents=True, exist_ok=True)
        (conf / "log4j.properties").write_text(LOGGING, encoding="ascii")
        options = {"hadoop.tmp.dir": self.folder / "tmp", **self.options()}
        lines = [
            f"<property><name>{name}</name><value>{escape(str(value))}</value></property>"
            for name, value in options.items()
        ]
        text = "\n".join(["<configuration>", *lines, "</configuration>"])
        for name in ("core-site.xml", "hdfs-site.xml"):
            (conf / name).write_text(text, encoding="utf-8")
        self._configured = self.port

    def _classes(self) -> str:
        return f"{self.folder / 'conf'}:{self._program}/*"


class DataNode(_Role):
    """The process that holds one copy of the bytes; it needs a running NameNode.

    Args:
        program: the folder of jars.
        namenode: the NameNode to which it reports.
        number: its number among the DataNodes.
    """

    main = "datanode.DataNode"

    def __init__(self, program: Path, namenode: Hdfs, number: int) -> None:
        super().__init__(f"hdfs-datanode-{number}", program)
        self._namenode = namenode

    def options(self) -> Mapping[str, object]:
        """See ``_Role``."""
        return {
            "fs.defaultFS": self._namenode.url,
            # WebHDFS writes through a client in this process.
            "dfs.replication": COPIES,
            "ipc.client.connect.retry.interval": 100,
            "ipc.client.connect.max.retries": 100,
            "dfs.datanode.hostname": "127.0.0.1",
            "dfs.datanode.data.dir": self.data,
            "dfs.datanode.address": f"127.0.0.1:{free_port()}",
            "dfs.datanode.http.address": self.address,
            "dfs.datanode.ipc.address": f"127.0.0.1:{free_port()}",
            "dfs.datanode.handler.count": 4,
            "dfs.datanode.du.reserved": 0,
            "dfs.datanode.scan.period.hours": -1,
            "dfs.heartbeat.interval": 1,
            # That client asks again after 400 ms otherwise.
            "dfs.client.block.write.locateFollowingBlock.initial.delay.ms": 5,
            "dfs.client.block.write.locateFollowingBlock.retries": 12,
        }

    def is_ready(self) -> bool:
        """Whether it has reported to the NameNode."""
        found = self.beans("Hadoop:service=DataNode,name=DataNodeInfo")
        return '"ActorState":"RUNNING"' in str(found.get("BPServiceActorInfo"))


class Hdfs(_Role):
    """The service: this is the NameNode, which starts and stops its DataNodes.

    Args:
        program: the folder of jars.

    Attributes:
        datanodes: the other processes, each of which may be killed and started alone.
    """

    main = "namenode.NameNode"

    def __init__(self, program: Path) -> None:
        super().__init__("hdfs", program)
        self.datanodes = tuple(DataNode(program, self, number) for number in range(COPIES))
        self._rpc_port = 0

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"hdfs://127.0.0.1:{self._rpc_port}"

    @property
    def rpc_port(self) -> int:
        """The port of ``url``."""
        return self._rpc_port

    @property
    def access(self) -> str:
        """The address for clients other than WebHDFS."""
        return self.url

    def options(self) -> Mapping[str, object]:
        """See ``_Role``."""
        self._rpc_port = free_port()
        return {
            "fs.defaultFS": self.url,
            "dfs.namenode.rpc-address": f"127.0.0.1:{self._rpc_port}",
            "dfs.namenode.http-address": self.address,
            "dfs.namenode.name.dir": self.data / "name",
            "dfs.replication": COPIES,
            # A busy DataNode gets its copy as well, because there is no other one.
            "dfs.namenode.redundancy.considerLoad": "false",
            # A file is closed when its last block is written, and reported a moment later.
            "dfs.namenode.file.close.num-committed-allowed": 1,
            "dfs.client.block.write.replace-datanode-on-failure.policy": "NEVER",
            "dfs.namenode.safemode.extension": 0,
            "dfs.namenode.safemode.min.datanodes": COPIES,
            "dfs.namenode.fs-limits.min-block-size": 4096,
            "dfs.heartbeat.interval": 1,
            "dfs.namenode.heartbeat.recheck-interval": 1000,
            "dfs.namenode.redundancy.interval.seconds": "1s",
            # A copy that could not be made, because an old one was in its way, is tried again.
            "dfs.namenode.reconstruction.pending.timeout-sec": 3,
            "dfs.namenode.handler.count": 10,
            "dfs.namenode.edits.asynclogging": "false",
        }

    def start(self) -> Self:
        """Start all, and wait until they serve. See ``Server``."""
        self.start_namenode()
        self.start_datanodes()
        return self

    def start_namenode(self) -> None:
        """Start this one alone. It stays in safe mode until its DataNodes have reported."""
        super().start()

    def start_datanodes(self) -> None:
        """Start the processes that do not run, and wait until they serve."""
        with ThreadPoolExecutor(COPIES) as threads:
            down = [datanode for datanode in self.datanodes if not datanode.is_running]
            list(threads.map(DataNode.start, down))
        self.wait_until_it_serves()

    def wait_until_it_serves(self) -> None:
        """Wait until the NameNode takes changes, and knows what each DataNode holds."""
        until = time.monotonic() + READY_S
        while time.monotonic() < until:
            state = self.beans("Hadoop:service=NameNode,name=FSNamesystemState")
            blocks = self.beans("Hadoop:service=NameNode,name=FSNamesystem")
            is_open = state.get("FSState") == "Operational"
            is_whole = state.get("NumLiveDataNodes") == COPIES and blocks.get("MissingBlocks") == 0
            if is_open and is_whole:
                return
            time.sleep(0.05)
        raise StartError(f"{self.name} takes no changes after {READY_S:g} s\n{self.log()}")

    def stop(self) -> None:
        """See ``Server``."""
        for datanode in self.datanodes:
            datanode.stop()
        super().stop()

    def kill(self) -> None:
        """See ``Server``; all of them."""
        self.kill_datanodes()
        super().kill()

    def kill_namenode(self) -> None:
        """Kill this one alone."""
        super().kill()

    def kill_datanodes(self) -> None:
        """Kill all but this one."""
        for datanode in self.datanodes:
            datanode.kill()

    def close(self) -> None:
        """See ``Server``."""
        super().close()
        for datanode in self.datanodes:
            datanode.close()

    def log(self) -> str:
        """The last lines of all."""
        return "\n".join([super().log(), *(datanode.log() for datanode in self.datanodes)])

    def is_ready(self) -> bool:
        """Whether the NameNode answers, even if in safe mode."""
        return bool(self.beans("Hadoop:service=NameNode,name=FSNamesystemState"))

    def command(self) -> Sequence[str]:
        """See ``Server``; a new NameNode is formatted first."""
        line = super().command()
        if not (self.data / "name" / "current").is_dir():
            format_line = [*line, "-format", "-nonInteractive", "-clusterid", "CID-test"]
            done = subprocess.run(
                format_line,
                env=dict(self.environment()),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=FORMAT_S,
                check=False,
            )
            if done.returncode:
                raise StartError(
                    f"formatting failed\n{done.stdout.decode(errors='replace')[-2000:]}"
                )
        return line
