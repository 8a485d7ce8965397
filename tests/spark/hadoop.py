"""The file system ``silt://`` as Java programs use it, called from Python, without a Spark job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession


class Hadoop:
    """Hadoop's classes inside the JVM of a session."""

    def __init__(self, spark: SparkSession) -> None:
        self.jvm: Any = spark.sparkContext._jvm
        self.conf = spark.sparkContext._jsc.hadoopConfiguration()

    def path(self, path: str) -> Any:
        """A path of Hadoop."""
        return self.jvm.org.apache.hadoop.fs.Path(path)

    def file_system(self, path: str) -> Any:
        """The file system of a path."""
        return self.path(path).getFileSystem(self.conf)

    def open(self, path: str) -> Any:
        """A stream of a file."""
        return self.file_system(path).open(self.path(path))

    def read(self, path: str) -> bytes:
        """All bytes of a file."""
        stream = self.open(path)
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def listed(self, path: str) -> list[tuple[str, int, bool]]:
        """Name, length and whether it is a folder, of what a folder holds."""
        return [
            (each.getPath().getName(), each.getLen(), each.isDirectory())
            for each in self.file_system(path).listStatus(self.path(path))
        ]

    def read_ranges(
        self, stream: Any, ranges: Sequence[tuple[int, int]], *, direct: bool = False
    ) -> list[bytes]:
        """Read ``(offset, length)`` pairs by one vectored call."""
        wanted = self.jvm.java.util.ArrayList()
        for offset, length in ranges:
            wanted.add(self.jvm.org.apache.hadoop.fs.FileRange.createFileRange(offset, length))
        stream.readVectored(wanted, self._allocate(direct=direct))
        return [self._bytes(each.getData().join()) for each in wanted]

    def _allocate(self, *, direct: bool) -> Any:
        invoke, lang = self.jvm.java.lang.invoke, self.jvm.java.lang
        buffers = lang.Class.forName("java.nio.ByteBuffer")
        kind = invoke.MethodType.methodType(buffers, lang.Integer.TYPE)
        name = "allocateDirect" if direct else "allocate"
        handle = invoke.MethodHandles.publicLookup().findStatic(buffers, name, kind)
        function = lang.Class.forName("java.util.function.IntFunction")
        return invoke.MethodHandleProxies.asInterfaceInstance(function, handle)

    def _bytes(self, buffer: Any) -> bytes:
        heap = self.jvm.java.nio.ByteBuffer.allocate(buffer.remaining())
        heap.put(buffer)
        return bytes(heap.array())
