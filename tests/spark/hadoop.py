"""The file system ``silt://`` as Java programs use it, called from Python, without a Spark job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession


class Hadoop:
    """Hadoop's classes inside the JVM of a session."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark.sparkContext._jvm
        self.jvm = jvm
        self.conf = spark.sparkContext._jsc.hadoopConfiguration()
        self._small = self.jvm.org.apache.hadoop.conf.Configuration(self.conf)
        self._foreign = self.jvm.org.apache.hadoop.conf.Configuration(self.conf)
        self._foreign.set("fs.file.impl", "org.apache.hadoop.fs.RawLocalFileSystem")
        self._foreign.set("fs.file.impl.disable.cache", "true")

    def path(self, path: str) -> Any:
        """A path of Hadoop."""
        return self.jvm.org.apache.hadoop.fs.Path(path)

    def file_system(self, path: str) -> Any:
        """The file system of a path."""
        return self.path(path).getFileSystem(self.conf)

    def open(self, path: str, *, foreign: bool = False) -> Any:
        """A stream of a file; with ``foreign``, local files are like those of any file system."""
        if not foreign:
            return self.file_system(path).open(self.path(path))
        where = self.path(path)
        system = self.jvm.org.apache.hadoop.fs.FileSystem.newInstance(where.toUri(), self._foreign)
        return system.open(where)

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

    def read_at(self, stream: Any, offset: int, length: int) -> bytes:
        """Read by one positioned call. Java fills the array of a list, as Python gets copies."""
        invoke, lang = self.jvm.java.lang.invoke, self.jvm.java.lang
        number, buffer = lang.Long.TYPE, lang.Class.forName("[B")
        rest = self.jvm.java.util.ArrayList()
        for each in (buffer, lang.Integer.TYPE, lang.Integer.TYPE):
            rest.add(each)
        kind = invoke.MethodType.methodType(lang.Void.TYPE, rest).insertParameterTypes(0, [number])
        handle = invoke.MethodHandles.publicLookup().findVirtual(
            stream.getClass(), "readFully", kind
        )
        arguments = self.jvm.java.util.ArrayList()
        for each in (stream, offset, bytes(length), 0, length):
            arguments.add(each)
        handle.invokeWithArguments(arguments)
        return bytes(arguments.get(2))

    def records(
        self, path: str, start: int, length: int, separator: bytes | None, buffer_bytes: int
    ) -> list[tuple[int, bytes]]:
        """Offset and value of the records of one split, by the reader that Spark's sources use.

        ``separator`` is what ends a record; without it LF, CR, or both.
        """
        hadoop = self.jvm.org.apache.hadoop
        self._small.setInt("io.file.buffer.size", buffer_bytes)
        given = [] if separator is None else [separator]
        reader = hadoop.mapreduce.lib.input.LineRecordReader(*given)
        split = hadoop.mapreduce.lib.input.FileSplit(self.path(path), start, length, None)
        attempt = hadoop.mapreduce.TaskAttemptID()
        reader.initialize(split, hadoop.mapreduce.task.TaskAttemptContextImpl(self._small, attempt))
        found = []
        while reader.nextKeyValue():
            value = reader.getCurrentValue()
            found.append((reader.getCurrentKey().get(), bytes(value.copyBytes())))
        reader.close()
        return found

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
