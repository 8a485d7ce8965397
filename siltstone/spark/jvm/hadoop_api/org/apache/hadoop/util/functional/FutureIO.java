package org.apache.hadoop.util.functional;

import java.io.IOException;
import java.util.concurrent.Future;

public final class FutureIO {
    public static native <T> T awaitFuture(Future<T> future) throws IOException;
}
