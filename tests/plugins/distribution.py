"""Makes a plugin look installed: what ``pip install`` would write, in a folder on ``sys.path``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples" / "binding"


def install(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    entries: Mapping[str, Mapping[str, str]],
    distribution: str = "siltstone-shelf",
    requires: Sequence[str] = (),
) -> None:
    """Install a distribution with entry points, given as group, name and module."""
    info = folder / f"{distribution.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    metadata = ["Metadata-Version: 2.1", f"Name: {distribution}", "Version: 1.0"]
    metadata += [f"Requires-Dist: {requirement}" for requirement in requires]
    (info / "METADATA").write_text("".join(f"{line}\n" for line in metadata))
    lines = []
    for group, modules in entries.items():
        lines.append(f"[{group}]")
        lines += [f"{name} = {module}" for name, module in modules.items()]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    for place in (folder, HERE, EXAMPLE):
        monkeypatch.syspath_prepend(str(place))
