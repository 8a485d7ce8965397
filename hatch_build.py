"""What happens when a wheel is built: the jar of ``silt://`` is compiled, where there is a JDK."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class JarHook(BuildHookInterface[Any]):
    """Compiles the jar before the files of a wheel are chosen; an editable install is one too."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile; without ``javac`` the wheel has all but ``silt://``, and its user hears how."""
        if self.target_name != "wheel":
            return
        path = Path(self.root) / "siltstone" / "spark" / "jvm" / "jar.py"
        spec = spec_from_file_location("jar", path)
        assert spec is not None, "it is a file of Python"
        assert spec.loader is not None, "it is a file of Python"
        jar = module_from_spec(spec)
        spec.loader.exec_module(jar)
        try:
            jar.build_jar()
        except jar.JarError as error:
            self.app.display_warning(f"the file system silt:// for Spark is left out: {error}")
