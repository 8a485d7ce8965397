package org.apache.hadoop.fs;

public interface CanUnbuffer {
    void unbuffer();
}
