package org.apache.hadoop.fs.impl;

import org.apache.hadoop.conf.Configuration;

public class OpenFileParameters {
    public native Configuration getOptions();

    public native int getBufferSize();
}
