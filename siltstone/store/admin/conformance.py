"""Runs the published suite on the long-term storage of a store, and leaves nothing there.

The suite is named to pytest by its module: it stands next to the product, not below it. This module
imports pytest, so it is imported only when it is asked for.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest

from siltstone.core.chunk_arguments import CHUNK_NAME_BYTES_MAX
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import MIB
from siltstone.core.environment import Environment, SystemEnvironment
from siltstone.core.errors import SiltstoneError
from siltstone.core.storage.optional_verbs import sweep_leftovers
from siltstone.core.text import counted
from siltstone.store.admin.scratch_storage import ScratchService, Spending, emptied
from siltstone.store.admin.storage_probes import PROBES_PREFIX, Probe
from siltstone.store.store_assembly import assembled, open_binding

SUITE: Final = "siltstone.testing.chunk_conformance"
CALLS_MAX: Final = 20_000
BYTES_MAX: Final = 256 * MIB
PREFIX_BYTES: Final = 128
"""This much of a name is kept free for the prefix of the run, and for the binding's own."""
OPTIONAL: Final = ("append", "concat", "seal", "used_space", "free_space")
AREA: Final = "conformance"

OPTIONS: Final = (
    "--pyargs", SUITE,
    # Files that lie in this folder, or plugins that are installed, must not affect the suite.
    "-c", os.devnull, "--rootdir", os.curdir, "--noconftest", "--disable-plugin-autoload",
    "--import-mode=importlib", "--capture=sys", "-W", "ignore",
    "-p", "no:cacheprovider", "-p", "no:terminal", "-p", "no:faulthandler",
)  # fmt: skip


def check_conformance(path: Path | str, tell: Callable[[Probe], None], only: str = "") -> None:
    """Run every check, each in an empty folder below ``system/doctor/``, and ``tell`` of each one.

    Nothing else of the service is read or changed, and nothing is claimed. What was made is deleted
    when it ends, also by a signal, which ends no call half-way. Calls are not repeated and not
    slowed down: the binding itself is looked at. At most ``CALLS_MAX`` calls and ``BYTES_MAX``
    bytes are sent.

    Args:
        path: settings file of the store, or its folder.
        tell: called with each check when it has ended, and with the cost at the end.
        only: run the checks whose names hold this, such as ``create`` or ``list or read``.

    Raises:
        StoreNotFoundError: there is no settings file, or no store on long-term storage.
        SettingsError: the settings file is wrong.
    """
    environment = SystemEnvironment()
    try:
        settings = assembled(path, environment).settings
        run_suite(lambda: open_binding(settings), environment, tell, only)
    finally:
        environment.close()


def run_suite(
    open_client: Callable[[], ChunkStorage],
    environment: Environment,
    tell: Callable[[Probe], None],
    only: str = "",
    spending: Spending | None = None,
) -> None:
    """See ``check_conformance``; the clients are those of ``open_client``."""
    spent = spending or Spending(calls_max=CALLS_MAX, bytes_max=BYTES_MAX)
    prefix = f"{PROBES_PREFIX}{environment.random_bytes(8).hex()}/"
    with closing(open_client()) as outside:
        run = _Run(open_client, outside, prefix, spent, tell)
        with _stopped_by_signals(spent):
            try:
                code = pytest.main([*OPTIONS, "-k", only], plugins=[run])
            finally:
                left = emptied(outside, prefix)
                with suppress(SiltstoneError):  # What a killed check left may be swept later, too.
                    sweep_leftovers(outside, prefix, 0.0)
                if left:
                    tell(
                        _probe(
                            "cleaning up",
                            "warning",
                            f"left: {counted(left, 'chunk')} below {prefix}",
                        )
                    )
            run.told(code)


@contextmanager
def _stopped_by_signals(spending: Spending) -> Iterator[None]:
    """Let the first signal interrupt no call.

    It stops the run, and its usual effect comes at the end. A second one does that at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    found = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: handler for number, handler in found.items() if callable(handler)}
    came: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        came.append(number)
        spending.is_stopped = True
        restore()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        restore()
        if came:
            signal.raise_signal(came[0])


class _Run:
    """What pytest asks and reports in one run."""

    def __init__(
        self,
        open_client: Callable[[], ChunkStorage],
        outside: ChunkStorage,
        prefix: str,
        spending: Spending,
        tell: Callable[[Probe], None],
    ) -> None:
        self._open_client = open_client
        self._outside = outside
        self._prefix = prefix
        self._spending = spending
        self._tell = tell
        self._number = 0
        self._check = ""
        self._cases: list[tuple[str, str]] = []
        self._stopped: BaseException | None = None

    @pytest.fixture
    def scratch_service(self) -> Iterator[ScratchService]:
        """An empty folder for one check."""
        self._number += 1
        prefix = f"{self._prefix}{self._number:06}/"
        service = ScratchService(self._open_client, self._outside, prefix, self._spending)
        yield service
        emptied(self._outside, prefix, service.made)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Tell the suite what it cannot know."""
        able = self._outside.capabilities
        lacking = frozenset(name for name in OPTIONAL if not getattr(able, name))
        for suite in {getattr(item, "cls", None) for item in items} - {None}:
            named: Any = suite
            named.missing = lacking
            named.name_bytes_max = CHUNK_NAME_BYTES_MAX - PREFIX_BYTES

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add one phase of one case to its check."""
        check, _, case = report.nodeid.rpartition("::")[2].partition("[")
        if check != self._check:
            self._finish()
            self._check = check
        if report.when == "call" or not report.passed:
            self._cases.append((report.outcome, _reason(report, case.rstrip("]"))))

    def pytest_runtest_logfinish(self) -> None:
        """Go no further when there is nothing left to spend, or when the run was asked to end."""
        if self._spending.is_spent() or self._spending.is_stopped:
            raise pytest.exit.Exception("spent", 0)

    def pytest_exception_interact(self, call: pytest.CallInfo[object]) -> None:
        """End with anything that is no failure of a check, such as a signal."""
        error = None if call.excinfo is None else call.excinfo.value
        if error is not None and not isinstance(error, Exception | pytest.fail.Exception):
            self._stopped = error
            raise pytest.exit.Exception("stopped", 0)

    def pytest_internalerror(self, excinfo: pytest.ExceptionInfo[BaseException]) -> bool:
        """Keep what ended the run, and let nothing be written to standard error."""
        self._stopped = excinfo.value
        return True

    def told(self, code: int) -> None:
        """Tell of the last check and of the cost; raise what ended the run early."""
        spent = self._spending
        if spent.is_stopped:
            self._cases.clear()
        self._finish()
        sent, received = counted(spent.sent, "byte"), counted(spent.received, "byte")
        cost = f"{counted(spent.calls, 'call')}, {sent} sent, {received} received"
        if spent.is_spent() and not spent.is_stopped:
            self._tell(_probe("cost", "failed", f"{cost}: no more is allowed, and checks are left"))
        else:
            self._tell(_probe("cost", "ok", cost))
        if self._stopped is not None:
            raise self._stopped
        if code == pytest.ExitCode.INTERRUPTED:
            raise KeyboardInterrupt
        if code == pytest.ExitCode.NO_TESTS_COLLECTED:
            raise ValueError("no check has such a name")
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            raise SiltstoneError("the suite cannot be run", code=int(code))

    def _finish(self) -> None:
        """Tell of the check whose cases are complete."""
        if not self._cases:
            return
        outcomes = {outcome for outcome, _ in self._cases}
        name = self._check.removeprefix("test_").replace("_", " ")
        count = len(self._cases)
        if "failed" in outcomes:
            reasons = [reason for outcome, reason in self._cases if outcome == "failed"]
            self._tell(_probe(name, "failed", f"{len(reasons)} of {count}: {reasons[0]}"))
        elif outcomes == {"skipped"}:
            self._tell(_probe(name, "skipped", self._cases[0][1]))
        else:
            self._tell(_probe(name, "ok", counted(count, "case")))
        self._cases.clear()


def _probe(name: str, outcome: str, detail: str) -> Probe:
    return Probe(area=AREA, name=name, outcome=outcome, detail=detail)


def _reason(report: pytest.TestReport, case: str) -> str:
    """One line that says why, with the case that it was."""
    if report.skipped and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    message = " ".join(str(crash.message if crash else report.longrepr).split())[:300]
    where = "" if crash is None else f" ({Path(crash.path).name}:{crash.lineno})"
    return f"{case}: {message}{where}" if case else f"{message}{where}"
