"""The file system ``silt://`` for Spark: Java, compiled by ``make setup``, shipped in the wheel."""

from __future__ import annotations

from siltstone.spark.jvm.jar import CLASS_NAME, JAR, JarError, build_jar, find_jar

__all__ = ["CLASS_NAME", "JAR", "JarError", "build_jar", "find_jar"]
