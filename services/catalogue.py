"""The services that there are, and which of them a run must have."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from services import azurite, fake_gcs, hadoop_aws, hdfs, kafka, kernel_nfs, minio, versitygw
from services.certificates import Certificate
from services.program import Program
from services.server import Server
from services.unavailable import UnavailableError

REQUIRED = Path(__file__).with_name("required.txt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A service that tests may use.

    Attributes:
        program: what is run.
        make: gives a server that is not started yet.
        make_tls: gives one with TLS; ``None`` if tests need none.
    """

    program: Program
    make: Callable[[Path], Server]
    make_tls: Callable[[Path, Certificate], Server] | None = None

    @property
    def name(self) -> str:
        """Its name, the same everywhere."""
        return self.program.name

    def installed(self) -> Path:
        """Return the program.

        Raises:
            UnavailableError: it was not fetched, or this machine cannot run it.
        """
        found = self.program.installed()
        if found is None:
            raise UnavailableError(
                f"it was not fetched; do so by: python -m services fetch {self.name}"
            )
        return found


SERVICES = {
    service.name: service
    for service in (
        Service(program=versitygw.PROGRAM, make=versitygw.Versitygw, make_tls=versitygw.Versitygw),
        Service(program=minio.PROGRAM, make=minio.Minio),
        Service(program=fake_gcs.PROGRAM, make=fake_gcs.FakeGcs),
        Service(program=azurite.PROGRAM, make=azurite.Azurite, make_tls=azurite.Azurite),
        Service(program=hdfs.PROGRAM, make=hdfs.Hdfs),
        Service(program=kafka.PROGRAM, make=kafka.Kafka),
        Service(program=kernel_nfs.PROGRAM, make=kernel_nfs.KernelNfs),
    )
}

LIBRARIES: dict[str, Program] = {hadoop_aws.PROGRAM.name: hadoop_aws.PROGRAM}
"""What tests need besides services: it is only fetched."""


def required() -> tuple[str, ...]:
    """The services that CI must have."""
    lines = REQUIRED.read_text(encoding="utf-8").splitlines()
    return tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))


def is_demanded(name: str) -> bool:
    """Whether this run fails without the service."""
    return os.environ.get("CI") == "true" and name in required()
