"""Internal values of containers, which no settings file has, for stores that a test opens."""

from __future__ import annotations

import pytest

from siltstone.container.models.settings import ContainerSettings


def tune(patched: pytest.MonkeyPatch, **values: int | float) -> None:
    """Let containers that open from now on in this process have these values of ``Tuning``."""
    defaults = ContainerSettings.__init__.__kwdefaults__
    assert defaults is not None, "every value has a default"
    for name, value in values.items():
        assert name in defaults, name
        patched.setitem(defaults, name, value)
