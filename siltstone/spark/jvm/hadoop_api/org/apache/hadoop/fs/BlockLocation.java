package org.apache.hadoop.fs;

import java.io.IOException;

public class BlockLocation {
    public BlockLocation(String[] names, String[] hosts, long offset, long length) {}

    public native String[] getHosts() throws IOException;

    public native String[] getNames() throws IOException;

    public native long getOffset();

    public native long getLength();

    public native void setLength(long length);
}
