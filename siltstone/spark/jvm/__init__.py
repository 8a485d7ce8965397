"""The file system ``silt://`` for Spark: Java, compiled when a wheel is built, and part of it."""

from __future__ import annotations

from siltstone.spark.jvm.jar import CLASS_NAME, JAR, JarError, build_jar, find_jar

__all__ = ["CLASS_NAME", "JAR", "JarError", "build_jar", "find_jar"]
