package org.apache.hadoop.fs;

import java.nio.ByteBuffer;
import java.util.concurrent.CompletableFuture;

public interface FileRange {
    static FileRange createFileRange(long offset, int length, Object reference) {
        throw new UnsupportedOperationException();
    }

    long getOffset();

    int getLength();

    CompletableFuture<ByteBuffer> getData();

    void setData(CompletableFuture<ByteBuffer> data);

    Object getReference();
}
