package org.apache.hadoop.fs;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.function.IntFunction;

public abstract class FSInputStream extends InputStream {
    public abstract void seek(long target) throws IOException;

    public abstract long getPos() throws IOException;

    public abstract boolean seekToNewSource(long target) throws IOException;

    public native void readVectored(List<? extends FileRange> ranges, IntFunction<ByteBuffer> allocate)
        throws IOException;
}
