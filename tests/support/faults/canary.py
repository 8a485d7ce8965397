"""Looking for a secret, which occurs nowhere else, in everything that a store shows or writes."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from prometheus_client import generate_latest

import siltstone
from siltstone.cli.main import run
from siltstone.core.errors import SiltstoneError
from siltstone.store.settings.effective import load_settings

VARIABLE = "${CANARY}"
"""What stands in the settings for the secret."""

COMMANDS = (
    ("doctor",),
    ("doctor", "--json"),
    ("stat",),
    ("health",),
    ("check",),
    ("ls",),
    ("append", "no-such-segment"),
)


def told(error: BaseException) -> str:
    """All that any code could print of an error."""
    whole = "".join(traceback.format_exception(error))
    return f"{error!r} {error} {whole} {vars(error)} {error.args}"


def failure(call: Callable[[], object]) -> str:
    """The same of the error that ``call`` has to raise."""
    with pytest.raises(SiltstoneError) as caught:
        call()
    return told(caught.value)


def files_with(secret: str, *folders: Path) -> list[Path]:
    """Files that hold the secret."""
    return [
        path
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and secret.encode() in path.read_bytes()
    ]


@dataclass
class Show:
    """Lets a whole store show itself, with all that libraries log about themselves."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    caplog: pytest.LogCaptureFixture
    capfd: pytest.CaptureFixture[str]

    def whole_store(self, secret: str, binding: str, options: Mapping[str, object]) -> list[str]:
        """Make a store, use it and look at it by commands.

        Args:
            secret: what ``VARIABLE`` stands for.
            binding: where it keeps its chunks.
            options: of the binding.

        Returns:
            Every text that it showed.
        """
        self.caplog.set_level(logging.DEBUG)
        self.monkeypatch.setenv("CANARY", secret)
        settings = siltstone.init(self.folder / "store", binding=binding, options=options)
        with settings.open("a", encoding="utf-8") as file:
            file.write("\nmetrics:\n  enabled: true\n")
        shown = [repr(load_settings(settings)), str(load_settings(settings))]
        with siltstone.open(settings) as store:
            store.create("a").append(b"x" * 1000)
            store.flush()
            assert store.segment("a").read(0, 10) == b"x" * 10
            shown += [repr(store), repr(store.stats()), repr(store.health())]
            shown.append(generate_latest().decode())
            for command in COMMANDS:
                run(["--store", str(settings.parent), *command])
        # Only now, since what is captured so far is shown if the test fails.
        out, err = self.capfd.readouterr()
        return [*shown, out, err, self.caplog.text]
