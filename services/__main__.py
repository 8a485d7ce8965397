"""``python -m services``: start servers and keep them until Ctrl-C, or fetch programs only."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from services.catalogue import LIBRARIES, SERVICES, is_demanded, required
from services.certificates import Authority
from services.server import Server, StartError
from services.unavailable import UnavailableError


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m services", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="fetch and start services; Ctrl-C ends and removes them")
    run.add_argument("name", nargs="*", help=f"of {', '.join(SERVICES)}; all unless named")
    fetch = verbs.add_parser("fetch", help="fetch the programs of services")
    fetch.add_argument("name", nargs="*", help=f"of {', '.join([*SERVICES, *LIBRARIES])}")
    fetch.add_argument("--required", action="store_true", help="those that CI must have")
    chosen = parser.parse_args(arguments)
    known = {*SERVICES, *(LIBRARIES if chosen.verb == "fetch" else ())}
    if unknown := set(chosen.name) - known:
        parser.error(f"there is no service {', '.join(sorted(unknown))}")
    if chosen.verb == "run":
        return _run(chosen.name or list(SERVICES))
    return _fetch(chosen.name, only_required=chosen.required)


def _fetch(names: Sequence[str], *, only_required: bool) -> int:
    """Fetch; fail for a service that was named or that this run must have."""
    failed = False
    for name in dict.fromkeys([*names, *(required() if only_required else ())]):
        try:
            _program(name)
        except UnavailableError as error:
            print(f"{name} cannot be had: {error}", file=sys.stderr)
            failed = failed or name in names or is_demanded(name)
    return 1 if failed else 0


def _program(name: str) -> Path:
    program = LIBRARIES[name] if name in LIBRARIES else SERVICES[name].program
    if program.installed() is None:
        print(f"fetching {name} {program.pin}: takes some minutes", flush=True)
    return program.fetch()


def _run(names: Sequence[str]) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    started = 0
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="siltstone-tls-"))
        authority = Authority(Path(folder))
        print(f"certificates are signed by {authority.bundle}")
        try:
            for name in names:
                for server in _servers(name, authority):
                    stack.enter_context(server).start()
                    print(name, server.endpoint, server.access, flush=True)
                    started += 1
            if not started:
                return 1
            print("Ctrl-C ends them and removes their data", flush=True)
            signal.pause()
        except StartError as error:
            print(error, file=sys.stderr)
        except KeyboardInterrupt:
            return 0
    return 1


def _servers(name: str, authority: Authority) -> list[Server]:
    """The servers of a service, not started; also one with TLS, if the service has one."""
    try:
        program = _program(name)
    except UnavailableError as error:
        print(f"{name} cannot be had: {error}", file=sys.stderr)
        return []
    service = SERVICES[name]
    made: list[Server] = [service.make(program)]
    if service.make_tls is not None:
        made.append(service.make_tls(program, authority.certificate()))
    return made


if __name__ == "__main__":
    sys.exit(main())
