package org.apache.hadoop.fs;

public interface StreamCapabilities {
    String UNBUFFER = "in:unbuffer";
    String VECTOREDIO = "in:readvectored";

    boolean hasCapability(String capability);
}
