package org.apache.hadoop.fs;

import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.function.IntFunction;

public class FSDataInputStream extends DataInputStream {
    public FSDataInputStream(InputStream in) {
        super(in);
    }

    public native long getPos() throws IOException;

    public native void seek(long target) throws IOException;

    public native void readVectored(List<? extends FileRange> ranges, IntFunction<ByteBuffer> allocate)
        throws IOException;
}
