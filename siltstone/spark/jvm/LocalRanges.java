package siltstone;

import java.io.EOFException;
import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.NoSuchFileException;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import siltstone.SiltFileSystem.Run;

/**
 * Reads ranges of chunks that are local files, a block at a time, directly into their targets.
 *
 * <p>Hadoop's own call reads each range into one new buffer. A range that crosses chunks, or is widened to whole
 * blocks, would have to be copied from several buffers. Here only parts of blocks are copied, and a block is compared
 * with its sum while it is still in the processor's cache.
 */
final class LocalRanges {
    private static final int THREADS = 4;
    private static final AtomicInteger NUMBER = new AtomicInteger();
    private static final ExecutorService POOL = Executors.newFixedThreadPool(THREADS, task -> {
        Thread thread = new Thread(task, "silt-ranges-" + NUMBER.incrementAndGet());
        thread.setDaemon(true);
        return thread;
    });

    /** Bytes of a chunk from an offset on, as many as fit into the target; {@code done} has the result. */
    record Part(Run run, long at, ByteBuffer target, CompletableFuture<Void> done) {}

    /** The content of a block has changed. */
    static final class DamagedException extends IOException {
        private static final long serialVersionUID = 1L;
        final long number;

        DamagedException(long number) {
            super("block " + number);
            this.number = number;
        }
    }

    private LocalRanges() {}

    /** Reads parts of one chunk, in order, on another thread. */
    static void read(File chunk, List<Part> parts, boolean verify) {
        POOL.execute(() -> {
            try (FileChannel channel = FileChannel.open(chunk.toPath(), StandardOpenOption.READ)) {
                for (Part part : parts) {
                    fill(channel, part, verify);
                    part.done.complete(null);
                }
            } catch (NoSuchFileException error) {
                fail(parts, new FileNotFoundException(error.getMessage()));
            } catch (IOException | RuntimeException error) {
                fail(parts, error);
            }
        });
    }

    /** Fails the parts that are not done. */
    private static void fail(List<Part> parts, Exception error) {
        for (Part part : parts) {
            part.done.completeExceptionally(error);
        }
    }

    private static void fill(FileChannel channel, Part part, boolean verify) throws IOException {
        ByteBuffer aside = null;
        int length = part.target.remaining();
        for (int have = 0; have < length;) {
            long at = part.at + have;
            long number = at / Run.BLOCK;
            int inBlock = (int) (at % Run.BLOCK);
            int blockLength = part.run.blockLength(number);
            int count = Math.min(length - have, blockLength - inBlock);
            ByteBuffer here = part.target.slice(part.target.position() + have, count);
            if (!verify) {
                readFully(channel, at, here);
            } else if (count == blockLength) {
                readFully(channel, at, here);
                check(part.run, number, here.flip());
            } else {
                aside = aside == null ? ByteBuffer.allocate(Run.BLOCK) : aside;
                readFully(channel, number * Run.BLOCK, aside.clear().limit(blockLength));
                check(part.run, number, aside.flip());
                here.put(aside.slice(inBlock, count));
            }
            have += count;
        }
    }

    private static void check(Run run, long number, ByteBuffer data) throws DamagedException {
        if (!run.matches(number, data)) {
            throw new DamagedException(number);
        }
    }

    private static void readFully(FileChannel channel, long at, ByteBuffer target) throws IOException {
        for (long position = at; target.hasRemaining();) {
            int count = channel.read(target, position);
            if (count < 0) {
                throw new EOFException();
            }
            position += count;
        }
    }
}
