package org.apache.hadoop.fs;

import org.apache.hadoop.fs.permission.FsPermission;

public class FileStatus {
    public FileStatus(long length, boolean folder, int replication, long blockSize, long modified, Path path) {}

    public FileStatus(long length, boolean folder, int replication, long blockSize, long modified, long accessed,
            FsPermission permission, String owner, String group, Path path) {}

    public native Path getPath();
}
