package org.apache.hadoop.fs;

public abstract class FSDataOutputStream {}
