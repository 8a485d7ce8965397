package org.apache.hadoop.fs;

import java.io.IOException;
import java.net.URI;
import java.util.concurrent.CompletableFuture;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.conf.Configured;
import org.apache.hadoop.fs.impl.OpenFileParameters;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

public abstract class FileSystem extends Configured {
    protected Statistics statistics;

    public static final class Statistics {
        public native void incrementBytesRead(long count);
    }

    public native String getScheme();

    public void initialize(URI name, Configuration conf) throws IOException {}

    public abstract URI getUri();

    public native FSDataInputStream open(Path path) throws IOException;

    public abstract FSDataInputStream open(Path path, int bufferSize) throws IOException;

    public native FutureDataInputStreamBuilder openFile(Path path) throws IOException;

    protected native CompletableFuture<FSDataInputStream> openFileWithOptions(Path path, OpenFileParameters given)
        throws IOException;

    public abstract FileStatus getFileStatus(Path path) throws IOException;

    public abstract FileStatus[] listStatus(Path path) throws IOException;

    public native BlockLocation[] getFileBlockLocations(FileStatus file, long start, long length) throws IOException;

    public abstract Path getWorkingDirectory();

    public abstract void setWorkingDirectory(Path path);

    public abstract FSDataOutputStream create(Path path, FsPermission permission, boolean overwrite, int bufferSize,
        short replication, long blockSize, Progressable progress) throws IOException;

    public abstract FSDataOutputStream append(Path path, int bufferSize, Progressable progress) throws IOException;

    public abstract boolean rename(Path from, Path to) throws IOException;

    public abstract boolean delete(Path path, boolean recursive) throws IOException;

    public abstract boolean mkdirs(Path path, FsPermission permission) throws IOException;

    protected native void checkPath(Path path);

    public native Path makeQualified(Path path);
}
