package org.apache.hadoop.fs;

import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;

public class Path implements Comparable<Path> {
    public Path(String path) {}

    public Path(String parent, String child) {}

    public Path(Path parent, String child) {}

    public Path(String scheme, String authority, String path) {}

    public native URI toUri();

    public native FileSystem getFileSystem(Configuration conf) throws IOException;

    @Override
    public native int compareTo(Path other);
}
