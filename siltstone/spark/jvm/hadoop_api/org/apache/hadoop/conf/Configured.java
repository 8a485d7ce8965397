package org.apache.hadoop.conf;

public class Configured {
    public native Configuration getConf();

    public native void setConf(Configuration conf);
}
