package org.apache.hadoop.fs;

import java.io.File;

public abstract class LocalFileSystem extends FileSystem {
    public native File pathToFile(Path path);
}
